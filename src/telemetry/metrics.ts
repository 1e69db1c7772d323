/**
 * What is counted and timed. Labels have few values by construction: never a tenant, a principal, an id or a text of a
 * caller.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type OperationState, operationStates, type StageName, type StepName } from '../model.js';
import type { CallerMetrics } from '../ports.js';

type BreakerState = (typeof breakerStates)[number];
export type RecoveryEvent = 'taken_over' | 'settled' | 'deferred' | 'escalated' | 'failed';

/** Durations are in seconds, as Prometheus has them. */
export interface Metrics {
  /** Once per answer. @param tool empty where no published tool was named, since a caller can invent names */
  call(tool: string, disposition: string): void;
  /** The steps of a stage add up to it, and all of them to the time of a call between its body and its answer. */
  stage(stage: StageName, step: StepName, seconds: number): void;
  /** @param outcome `response`, or the reason of a failure */
  exchange(service: string, outcome: string): void;
  /** What became of an event that a service sent: when it arrived, and when it was weighed. */
  callback(outcome: string): void;
  /** How the breaker of a domain service stands in this replica. */
  breaker(service: string, state: BreakerState): void;
  /** Nothing was sent, because of a pause, its breaker, its places, or its share of retries. */
  refusedSend(service: string, because: string): void;
  /** One commit of the ledger. @param lane for instance `intents` */
  flush(lane: string, rows: number, seconds: number): void;
  /** One try again of what the ledger did not take. @param because `contention`: transactions got into one another's way; `unavailable`; `row`: to find the one that cannot be written */
  ledgerRetry(because: string): void;
  /** Open operations of the installation, as last counted; a state that is not named has none. */
  operationsOpen(counts: Partial<Record<OperationState, number>>): void;
  /** Reviews that wait for a person, and how many of them are past their deadline. */
  reviewsOpen(counts: { open: number; overdue: number }): void;
  recovered(event: RecoveryEvent, operations?: number): void;
  /** Receipts that this replica gave their link. */
  sealed(receipts: number): void;
  /** Chains over the receipts of a tenant that are known not to be whole. */
  chainsBroken(chains: number): void;
  readonly callers: CallerMetrics;
  reloaded(outcome: 'swapped' | 'refused'): void;
  /** The shadow policies would have decided a call otherwise. */
  shadowDiffers(tool: string, would: 'allow' | 'deny'): void;
  /** @param sample `route` is the template of a path, never the path */
  observeRequest(sample: { plane: string; method: string; route: string; status: number; seconds: number }): void;
  /** What `/metrics` shows. */
  readonly page: { readonly contentType: string; metrics(): Promise<string> };
}

export interface MetricsOptions {
  version: string;
  /** Memory, CPU and event loop of the process; on by default. */
  process?: boolean;
}

const secondsBuckets = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const rowsBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256];

const breakerStates = ['closed', 'open', 'half_open'] as const;

/** States that wait for something; the others are final. */
const openStates = operationStates.filter((state) => ['parked', 'approved', 'sending', 'accepted', 'unknown', 'review'].includes(state));

export function createMetrics({ version, process: ofProcess = true }: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  if (ofProcess) collectDefaultMetrics({ register: registry });

  const calls = new Counter({ name: 'callgate_calls_total', help: 'Answers to proposed calls.', labelNames: ['disposition', 'tool'], registers });
  const stages = new Histogram({ name: 'callgate_stage_seconds', help: 'Time in each step of the stages of a call.', labelNames: ['stage', 'step'], buckets: secondsBuckets, registers });
  const exchanges = new Counter({ name: 'callgate_upstream_exchanges_total', help: 'Exchanges with domain services.', labelNames: ['service', 'outcome'], registers });
  const callbacks = new Counter({ name: 'callgate_callbacks_total', help: 'Events that services sent: as they arrived, and as they were weighed.', labelNames: ['outcome'], registers });
  const breakers = new Gauge({ name: 'callgate_upstream_breaker', help: 'How the breaker of a domain service stands in this replica: 1 for the state that it is in.', labelNames: ['service', 'state'], registers });
  const refusedSends = new Counter({ name: 'callgate_upstream_refusals_total', help: 'Exchanges with domain services that were not begun.', labelNames: ['service', 'because'], registers });
  const flushRows = new Histogram({ name: 'callgate_ledger_flush_rows', help: 'Rows in one commit of the ledger.', labelNames: ['lane'], buckets: rowsBuckets, registers });
  const flushSeconds = new Histogram({ name: 'callgate_ledger_flush_seconds', help: 'Time of one commit of the ledger.', labelNames: ['lane'], buckets: secondsBuckets, registers });
  const ledgerRetries = new Counter({ name: 'callgate_ledger_retries_total', help: 'What the ledger did not take at the first try, and was given again.', labelNames: ['because'], registers });
  const open = new Gauge({ name: 'callgate_operations_open', help: 'Operations that have not ended.', labelNames: ['state'], registers });
  const reviews = new Gauge({ name: 'callgate_reviews_open', help: 'Reviews that wait for a person.', labelNames: ['overdue'], registers });
  const recoveries = new Counter({ name: 'callgate_recoveries_total', help: 'Operations that recovery dealt with.', labelNames: ['event'], registers });
  const sealed = new Counter({ name: 'callgate_receipts_sealed_total', help: 'Receipts that were given their place in the chain, by this replica.', registers });
  const brokenChains = new Gauge({ name: 'callgate_receipt_chains_broken', help: 'Chains over receipts that were found not to be whole, by the replica that seals.', registers });
  const callerRefusals = new Counter({ name: 'callgate_caller_refusals_total', help: 'Requests of agents that met a bound of `callers`.', labelNames: ['of', 'bound'], registers });
  const callersAlone = new Counter({ name: 'callgate_callers_bounded_alone_total', help: 'Requests that this replica bounded by its own share, because Redis did not answer.', registers });
  const reloads = new Counter({ name: 'callgate_contract_reloads_total', help: 'Changed sets of contracts, swapped in or refused.', labelNames: ['outcome'], registers });
  const differences = new Counter({ name: 'callgate_policy_shadow_differences_total', help: 'Questions about calls that the shadow policies would have decided otherwise, and how.', labelNames: ['would', 'tool'], registers });
  const requests = new Histogram({ name: 'callgate_http_request_seconds', help: 'HTTP requests.', labelNames: ['plane', 'method', 'route', 'status'], buckets: secondsBuckets, registers });
  const build = new Gauge({ name: 'callgate_build_info', help: 'Always 1; the labels say what runs.', labelNames: ['version', 'node'], registers });
  build.set({ version, node: process.version }, 1);

  const toolLabel = boundedLabel(1_000);
  return {
    call: (tool, disposition) => calls.inc({ disposition, tool: toolLabel(tool) }),
    stage: (stage, step, seconds) => stages.observe({ stage, step }, seconds),
    exchange: (service, outcome) => exchanges.inc({ service, outcome }),
    callback: (outcome) => callbacks.inc({ outcome }),
    breaker(service, state) {
      for (const each of breakerStates) breakers.set({ service, state: each }, each === state ? 1 : 0);
    },
    refusedSend: (service, because) => refusedSends.inc({ service, because }),
    flush(lane, rows, seconds) {
      flushRows.observe({ lane }, rows);
      flushSeconds.observe({ lane }, seconds);
    },
    ledgerRetry: (because) => ledgerRetries.inc({ because }),
    operationsOpen(counts) {
      for (const state of openStates) open.set({ state }, counts[state] ?? 0);
    },
    reviewsOpen(counts) {
      reviews.set({ overdue: 'false' }, counts.open - counts.overdue);
      reviews.set({ overdue: 'true' }, counts.overdue);
    },
    recovered: (event, operations = 1) => recoveries.inc({ event }, operations),
    sealed: (receipts) => sealed.inc(receipts),
    chainsBroken: (chains) => brokenChains.set(chains),
    callers: { refused: (of, bound) => callerRefusals.inc({ of, bound }), decidedAlone: () => callersAlone.inc() },
    reloaded: (outcome) => reloads.inc({ outcome }),
    shadowDiffers: (tool, would) => differences.inc({ would, tool: toolLabel(tool) }),
    observeRequest: ({ plane, method, route, status, seconds }) => requests.observe({ plane, method, route, status: String(status) }, seconds),
    page: registry,
  };
}

/** The first so many values as they are and `other` for the rest, should a caller's text ever get this far. */
function boundedLabel(limit: number): (value: string) => string {
  const seen = new Set<string>();
  return (value) => {
    if (seen.size < limit) seen.add(value);
    return seen.has(value) ? value : 'other';
  };
}
