/**
 * How fast and how many at once a principal, and all of a tenant together, may ask. Asked once it is known who calls and before a byte of the body
 * is read; so one agent that runs wild is slowed by itself, and holds up nobody else. With Redis the bounds are those of all replicas together
 * (caller-share.ts).
 */
import { createHash } from 'node:crypto';
import { type Refusal, refuse } from '../errors.js';
import type { Principal } from '../model.js';
import type { CallerMetrics, SharedBounds } from '../ports.js';
import { type CallerBound, CallerShare, type Denial, type ShareParts } from './caller-share.js';

export interface CallerLimits { principal: CallerBound; tenant: CallerBound }

export interface CallerLimitsParts extends CallerLimits {
  /** Null: this replica alone. */
  shared: SharedBounds | null;
  /** Of each bound, from 0 to 1, what this replica lets in while it cannot ask the others. */
  aloneShare: number;
  metrics: CallerMetrics;
}

/** Gives the place back; a second time does nothing. */
export type Leave = () => void;
export type Enter = (principal: Pick<Principal, 'tenant' | 'id'>) => Leave | Refusal | Promise<Leave | Refusal>;

type Who = keyof CallerLimits;

/** Beyond as many, those that ask nothing just now are forgotten. */
const rememberedAtMost = 10_000;
const idleMs = 20_000;

export function limitCallers(limits: CallerLimitsParts, now: () => number = () => performance.now()): { enter: Enter; stop(): void } {
  const shares = new Map<string, CallerShare>();
  const named = new Map<string, CallerShare>();
  const parts: ShareParts = { shared: limits.shared, aloneShare: limits.aloneShare, now, decidedAlone: limits.metrics.decidedAlone };

  const shareOf = (who: Who, of: readonly string[]): CallerShare => {
    const key = JSON.stringify(of);
    let share = shares.get(key);
    if (!share) {
      if (shares.size >= rememberedAtMost) forget(0, shares.size - rememberedAtMost + 1);
      // Redis, and who reads it, learns no names
      const name = createHash('sha256').update(key).digest('base64url').slice(0, 22);
      share = new CallerShare(name, limits[who], parts);
      shares.set(key, share);
      named.set(name, share);
    }
    return share;
  };
  /** A place that one of them kept idle comes back when its lease ends. */
  const forget = (idleForMs: number, atMost: number): void => {
    let left = atMost;
    for (const [key, share] of shares) {
      if (left === 0) return;
      if (!share.idleFor(idleForMs)) continue;
      shares.delete(key);
      named.delete(share.name);
      left -= 1;
    }
  };
  const renewAll = (): void => {
    for (const share of shares.values()) share.renew();
  };
  limits.shared?.watch({ recalled: (name) => named.get(name)?.recalled(), restored: renewAll });
  const renewal = setInterval(() => {
    forget(idleMs, shares.size);
    renewAll();
  }, (limits.shared?.leaseMs ?? idleMs) / 3);
  renewal.unref();

  return {
    enter({ tenant, id }) {
      const principal = shareOf('principal', [tenant, id]);
      const all = shareOf('tenant', [tenant]);
      const last = (denied: Denial | null): Leave | Refusal => {
        if (!denied) return leaveOnce(principal, all);
        principal.undo();
        return refusal('tenant', denied);
      };
      // One after the other: what waits for its principal's place has none of its tenant's.
      return after(principal.enter(), (denied) => (denied ? refusal('principal', denied) : after(all.enter(), last)));
    },
    stop: () => clearInterval(renewal),
  };

  function refusal(who: Who, { bound, limit, alone, retryAfterMs }: Denial): Refusal {
    limits.metrics.refused(who, bound);
    const where = alone ? ' at this replica' : '';
    return bound === 'concurrency'
      ? refuse('CALLER_BUSY', `This ${who} has ${limit} requests under way${where}, and may have no more.`, { retryAfterMs })
      : refuse('CALLER_RATE_LIMITED', `This ${who} may make ${limit} requests a second${where}.`, { retryAfterMs });
  }
}

/** At once where it can be: a call that waits for nobody gives up no turn of the event loop. */
function after<T, U>(value: T | Promise<T>, next: (value: T) => U | Promise<U>): U | Promise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

function leaveOnce(principal: CallerShare, tenant: CallerShare): Leave {
  let left = false;
  return () => {
    if (left) return;
    left = true;
    principal.leave();
    tenant.leave();
  };
}
