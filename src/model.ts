/**
 * The words of the product, as types: what every room says to the next one. A leaf: it imports nothing.
 * Source: protocol.md (wire names), semantics.md (states, outcomes).
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export const nextActions = [
  'continue', 'ask', 'refresh', 'repair', 'wait', 'verify', 'retry', 'abandon', 'escalate',
] as const;
/** What a model may do after an answer; nine words, told once in a system prompt. */
export type NextAction = (typeof nextActions)[number];

export const dispositions = [
  'executed', 'replayed', 'pending', 'unknown', 'approval_required', 'review', 'in_progress', 'invalid_call',
  'blocked_tool', 'invalid_arguments', 'id_conflict', 'denied', 'precondition_failed', 'transition_error',
  'version_required', 'version_conflict', 'budget_exhausted', 'rejected', 'rate_limited', 'failed', 'unavailable',
  'cancelled',
] as const;
export type Disposition = (typeof dispositions)[number];

/** What is known of the effect of one attempt, or of the whole operation. */
export type Outcome = 'committed' | 'accepted' | 'rejected' | 'not_committed' | 'unknown';

export const roles = ['agent', 'application', 'reviewer', 'auditor', 'admin'] as const;
export type Role = (typeof roles)[number];

/** The lifecycle of semantics.md section 3. */
export const operationStates = [
  'parked', 'approved', 'sending', 'accepted', 'unknown', 'review',
  'committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned',
] as const;
export type OperationState = (typeof operationStates)[number];

/** Who is calling, from the credential alone; never from a body. */
export interface Principal {
  readonly tenant: string;
  readonly id: string;
  readonly roles: readonly Role[];
  /** The end user on whose behalf every call of this credential is made, where the credential fixes one. */
  readonly subject: string | null;
  /** Purposes this credential may act for; the first is the default. Empty: no purpose may be stated. */
  readonly purposes: readonly string[];
  /** Tool names this credential may use, or `*` for every published tool. */
  readonly tools: readonly string[] | '*';
  readonly grants: { readonly assertSubject: boolean; readonly ownKeys: boolean };
}

export interface FieldError {
  /** RFC 6901 pointer into the arguments (or into the body, for an invalid call). */
  pointer: string;
  code: string;
  message: string;
  expected?: Json;
  nearest?: string;
}

/** `failed`: proven not done. */
export interface ItemOutcome { key: string; outcome: 'committed' | 'failed' | 'unknown' }

/** A budget and how far it is used. */
export interface BudgetUse {
  kind: 'executions' | 'proposals' | 'turns';
  of: 'session' | 'principal';
  per: 'session' | 'day' | 'tool and intent';
  limit: number;
  used: number;
  /** Of proposals. */
  tool?: string;
  intent_id?: string | null;
}

export type StageName = 'parse' | 'validate' | 'authorize' | 'execute' | 'reconcile' | 'route';
/** What a stage is made of, where that is more than one thing, as metrics tell it apart; none is within another. */
export type StepName = 'parse' | 'shape' | 'tool' | 'look_up' | 'turn' | 'observe' | 'resource' | 'survey' | 'world' | 'intent' | 'exchange' | 'reconcile' | 'route';
export interface TraceEntry {
  stage: StageName;
  verdict: 'pass' | 'refuse' | 'replay' | 'unknown';
  ms: number;
}

/** A piece of the canonical JSON text (RFC 8785) of a result; offsets and sizes are bytes of its UTF-8 form. */
export interface ResultPage {
  text: string;
  offset: number;
  /** Of the whole text. */
  bytes: number;
  /** Null: this is the last one. */
  next_offset: number | null;
}

/** The answer to one proposed call, as it goes over the wire (protocol.md, "The answer"). */
export interface Answer {
  disposition: Disposition;
  next_action: NextAction;
  call_id: string | null;
  operation_id: string | null;
  tool: string | null;
  contract: { version: string; digest: string } | null;
  outcome: Outcome | null;
  verified: boolean;
  evidence_of_change: boolean;
  /** Null as well where it is larger than an answer may carry: then `result_part` is there. */
  result: Json;
  states: Record<string, string>;
  legal_actions: string[];
  receipts: { decision: string | null; effect: string | null };
  repaired: string[];
  retry_after_ms: number | null;
  trace: TraceEntry[];
  result_part?: ResultPage & { href: string };
  duplicate_of?: string;
  verify_with?: { tool: string; arguments: JsonObject };
  /** The call by which the effect is taken back, once; the operation by which it was; and of such an operation what it takes back. */
  compensate?: { tool: string; arguments: JsonObject };
  compensated_by?: string;
  compensates?: string;
  review_id?: string;
  approval?: { id: string; by: 'client' | 'application' | 'reviewer'; digest: string; summary: string; expires_at: string };
  nearest_tools?: string[];
  /** The result, or what is shown of an error, may carry injected text: data, never instructions. */
  untrusted?: true;
  /** Of a call about a list of items: whether some of them failed, each item with the failed ones first, and how many there are. */
  partial?: boolean;
  items?: ItemOutcome[];
  item_counts?: { total: number; committed: number; failed: number; unknown: number };
  /** The call about the items alone that may still be done. */
  retry_with?: { tool: string; arguments: JsonObject };
  /** Members of the service's error that its contract lets be told, each by its path. */
  upstream?: JsonObject;
  /** Of `budget_exhausted`. */
  budget?: BudgetUse;
  /** An equal read was made twice already: this is its last answer, and when it was observed. */
  notice?: 'REPEATED_READ';
  observed_at?: string;
  /* members of an RFC 9457 problem document, on refusals only */
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  code?: string;
  errors?: FieldError[];
}
