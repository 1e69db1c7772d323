/** The rooms that the path of a call walks through, and the numbers it keeps to. */
import type { Catalogue, SecretSource } from '../contract/plan.js';
import type { Json, StageName, StepName } from '../model.js';
import type { Upstream } from '../upstream/exchange.js';
import type { Ledger, Locks, UpstreamGate } from './ports.js';
import type { ReplayMemory } from './replay-memory.js';
import type { Served } from './served.js';
import type { WaitingCalls } from './waiting.js';

/** Where the application set none of its own. */
export interface BudgetLimits {
  executionsPerSession: number;
  executionsPerPrincipalPerDay: number;
  /** Refusals of one tool for one intent. */
  proposals: number;
  turns: number;
}

export interface GateSettings extends BudgetLimits {
  bodyBytes: number;
  argumentsBytes: number;
  depth: number;
  callsPerTurn: number;
  /** Calls, batches and turns of agents in this process at a time, those in line included. */
  inFlight: number;
  /** A result beyond it is cut in answers and read in pages; in a receipt, it and a read-back are kept by size and digest. */
  resultBytes: number;
  leaseMs: number;
  patienceMs: number;
  /** How long after the intent was begun its first byte may still be written. */
  sendWindowMs: number;
  reconcileDeadlineMs: number;
  /** Between two looks of recovery at one operation: at first, and at most. */
  backoffFirstMs: number;
  backoffMaxMs: number;
  /** After which an open review is escalated. */
  reviewDeadlineMs: number;
  /** How often an approved call is taken up in vain before a person is asked. */
  dispatchTries: number;
}

export interface GateMetrics {
  call(tool: string, disposition: string): void;
  stage(stage: StageName, step: StepName, seconds: number): void;
  exchange(service: string, outcome: string): void;
  callback(outcome: string): void;
}

export interface GateLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface Parts {
  /** Of this process; owner of the leases that it holds. */
  replica: string;
  settings: GateSettings;
  ledger: Ledger;
  locks: Locks;
  upstream: Upstream;
  upstreamGate: UpstreamGate;
  /** Of this process. */
  waiting: WaitingCalls;
  /** Of this process. */
  replays: ReplayMemory;
  /** The served contracts with the policies that came with them: swapped whole. */
  served(): Served;
  /** An earlier catalogue, by which an operation began. Null when the ledger does not have it. */
  catalogueOf(digest: string): Promise<Catalogue | null>;
  /** Of a domain service, as it is just now; undefined: not set, or not there. @throws Error, or rejects with one, in words for the operator */
  serviceSecret(service: string, source: SecretSource): string | undefined | Promise<string | undefined>;
  /** Retry-After of an upstream, in either form, capped; null when absent or unusable. */
  retryAfterMs(header: string | undefined): number | null;
  /** At the recording boundary: whatever enters a receipt goes through it. `annotated` are the contract's own paths, `values` what they point at here. */
  redact(value: Json, annotated: readonly string[], values: readonly string[]): Json;
  /** Keeps an operation's lease while this process works on it; the returned function ends that. */
  hold(operation: { tenant: string; id: string; fence: number }): () => void;
  /** True once the process is shutting down. */
  draining(): boolean;
  metrics: GateMetrics;
  log: GateLog;
}
