/** What reconciliation has come to, and what route writes down: the hand-over between the two stages. */
import type { ErrorRule } from '../contract/plan.js';
import type { ProblemCode } from '../errors.js';
import type { Json, JsonObject, OperationState } from '../model.js';
import type { Receipt } from './ports.js';
import type { Aftermath } from './read-back.js';

export interface Committed {
  kind: 'committed';
  result: Json;
  verified: boolean;
  readback?: JsonObject;
  /** What the service told by itself. */
  callback?: JsonObject;
  aftermath?: Aftermath | null;
  /** A read-back is still owed: keep looking, and tell the caller how it can look itself. */
  owed?: boolean;
  /** Where it is owed: from when on an empty read-back contradicts the effect. */
  missingInMs?: number;
}

/** Ended without an effect. */
export interface Ended {
  kind: 'ended';
  state: Extract<OperationState, 'rejected' | 'failed' | 'rate_limited' | 'abandoned'>;
  outcome: 'rejected' | 'not_committed';
  code: ProblemCode;
  rule?: ErrorRule | null;
  /** Of the upstream, where the rule mapped it; what of it may be told is for route to say. */
  body?: Json;
  retryAfterMs?: number;
  /** Not one byte of any attempt left. */
  neverSent?: boolean;
  readback?: JsonObject;
  callback?: JsonObject;
}

export type ReviewReason =
  | 'MISMATCH' | 'DIVERGENCE' | 'CONTRADICTED' | 'OUTCOME_UNPROVABLE' | 'KEY_WINDOW_PASSED' | 'MISSING_AFTER_COMMIT' | 'DEADLINE_PASSED' | 'RESEND_NEEDS_A_PERSON'
  | 'NOT_DISPATCHED';

/** No machine can settle it. */
export interface ForReview { kind: 'review'; reason: ReviewReason; readback?: JsonObject; callback?: JsonObject; result?: Json; states?: JsonObject }

/** Waited for an approval, and is not sent. `refusal`: what was found when everything was asked again. */
export interface Unsent {
  kind: 'unsent';
  from: 'parked' | 'approved';
  code: Extract<ProblemCode, 'STALE_APPROVAL' | 'APPROVAL_EXPIRED' | 'APPROVAL_REJECTED' | 'APPROVAL_REVOKED' | 'CANCELLED'>;
  detail: string;
  /** Why, where a decision says it; else an effect receipt says that there was none. */
  receipt?: Receipt;
}

/** Not known yet: to be looked at again. */
export interface Later { kind: 'later'; dueInMs: number }

/** Another process has taken it over, and this one has no say any more. */
export interface Lost { kind: 'lost' }

export type Finding = Committed | Ended | ForReview | Unsent | Later | Lost;
