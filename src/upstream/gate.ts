/** What stands before each domain service, for every caller in this process: its pause, its breaker, its places and its retries. */
import type { UpstreamPlan } from '../contract/plan.js';
import type { Closed, Entrance, Place, SharedPauses } from '../gate/ports.js';
import { Breaker, type BreakerState, type Health } from './breaker.js';
import { Bulkhead } from './bulkhead.js';
import type { Exchange, FailureReason } from './exchange.js';
import { keepPauses } from './pauses.js';
import { RetryBudget } from './retry-budget.js';

export interface UpstreamGateOptions {
  /** Retries of a service, as a share of its first sends. */
  retryRatio: number;
  /** Failures in a row that open its breaker, and how long it stays open. */
  breaker: { failures: number; openMs: number };
  /** Whether the service accepts a connection, over which nothing is sent. */
  knock(upstream: UpstreamPlan): Promise<boolean>;
  maxWaiting: number;
  maxPauseMs: number;
  shared?: SharedPauses | undefined;
  changed(service: string, state: BreakerState): void;
  refused(service: string, because: Closed['closed']): void;
  now?: () => number;
}

interface Service { breaker: Breaker; places: Bulkhead; retries: RetryBudget }

/** A line that did not move for a caller's whole patience, or is full, is not short a second later. */
const busyMs = 1000;

export function openUpstreamGate(options: UpstreamGateOptions) {
  const now = options.now ?? ((): number => performance.now());
  const services = new Map<string, Service>();
  const pauses = keepPauses(options.maxPauseMs, options.shared, now);

  const serviceOf = (name: string): Service => {
    const known = services.get(name);
    if (known) return known;
    const opened = {
      breaker: new Breaker({ ...options.breaker, now, changed: (state) => options.changed(name, state) }),
      places: new Bulkhead(options.maxWaiting), retries: new RetryBudget(options.retryRatio, now),
    };
    services.set(name, opened);
    return opened;
  };

  const shut = (name: string, { breaker }: Service, { traffic }: Entrance): Closed | undefined => {
    const pausedMs = pauses.leftMs(name);
    if (pausedMs > 0) return { closed: 'paused', forMs: pausedMs };
    const shutMs = breaker.shutForMs(traffic);
    return shutMs > 0 ? { closed: 'suspended', forMs: shutMs } : undefined;
  };

  /** A write without an honoured key tries nothing out; for want of anybody else who may, it has the service knocked at. */
  const knockFor = async (upstream: UpstreamPlan, { breaker }: Service, { traffic, until }: Entrance): Promise<void> => {
    if (traffic !== 'write' || !breaker.mayKnock()) return;
    const tell = breaker.knock();
    const knocked = options.knock(upstream).then(tell, () => tell(false));
    let timer: NodeJS.Timeout | undefined;
    const impatient = new Promise<void>((resolve) => { timer = setTimeout(resolve, Math.max(0, until - performance.now())); });
    await Promise.race([knocked, impatient]);
    clearTimeout(timer);
  };

  async function enter(upstream: UpstreamPlan, entrance: Entrance): Promise<Place | Closed> {
    const { service: name, concurrency } = upstream;
    const service = serviceOf(name);
    if (pauses.leftMs(name) === 0) await knockFor(upstream, service, entrance);
    const atFirst = shut(name, service, entrance);
    if (atFirst) return atFirst;
    const entered = await service.places.enter(concurrency, entrance.until, entrance.signal);
    if (!entered) return { closed: 'busy', forMs: busyMs };
    const meanwhile = shut(name, service, entrance) ?? (entrance.as === 'retry' && !service.retries.spend() ? { closed: 'retry_ratio' as const, forMs: busyMs } : undefined);
    if (meanwhile) {
      service.places.leave();
      return meanwhile;
    }
    return placeOf(service, entrance, entered === 'waited');
  }

  return {
    async enter(upstream: UpstreamPlan, entrance: Entrance): Promise<Place | Closed> {
      const entered = await enter(upstream, entrance);
      if ('closed' in entered) options.refused(upstream.service, entered.closed);
      return entered;
    },
    pausedForMs: pauses.leftMs,
    pause: pauses.pause,
  };
}

function placeOf(service: Service, { traffic, as }: Entrance, waited: boolean): Place {
  const tell = service.breaker.enter(traffic);
  let left = false;
  return {
    waited,
    leave(exchange) {
      if (left) return;
      left = true;
      if (exchange && as === 'first') service.retries.earn();
      tell(exchange ? healthOf(exchange) : 'nothing');
      service.places.leave();
    },
  };
}

/** Of our own making: they say nothing of the service. */
const ours: ReadonlySet<FailureReason> = new Set(['fence_passed', 'no_credential', 'address_refused']);

/** An answer below 500, refusals of every kind included, is a service that works; so is one whose body we cannot use. */
function healthOf(exchange: Exchange): Health {
  if (exchange.kind === 'failure') return ours.has(exchange.reason) ? 'nothing' : 'down';
  const cut = 'unreadable' in exchange.body && (exchange.body.unreadable === 'deadline' || exchange.body.unreadable === 'truncated');
  return exchange.status >= 500 || cut ? 'down' : 'up';
}
