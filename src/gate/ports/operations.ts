/** An operation as the ledger keeps it, with what it was made from, and its receipts. */
import type { RenderedRequest } from '../../contract/plan.js';
import type { JsonObject, OperationState, Outcome, Principal } from '../../model.js';

/** Everything that finishing an operation needs, on any replica, without asking the proposal again. Sealed in the ledger. */
export interface Dossier {
  request: RenderedRequest | null;
  args: JsonObject;
  bound: JsonObject;
  /** Observations by name, as expressions of the read-back may name them. */
  observed: JsonObject;
  /** The entity as it was before dispatch, held against what is observed after a commit. */
  baseline: {
    entity: string | null; state: string | null; never: JsonObject;
    /** Entities whose state the gateway keeps, as they were; absent in what an earlier version stored. */
    kept?: { type: string; key: string; state: string }[];
    /** Further entities that the write may change; absent in what an earlier version stored. */
    touched?: string[];
  };
  /** The resource that policy saw, for the re-check at a replay. */
  resource: { type: string; id: string; attributes: JsonObject } | null;
  /** Whether the session had been told something untrusted when it was decided. */
  untrusted?: boolean;
  /** Of a write about a list: what each item means, in hexadecimal. */
  items?: { key: string; identity: string }[];
  /** Of a call that waits for an approval: who proposed it and how, so that everything can be asked again when it is dispatched. */
  proposal?: { principal: Principal; envelope: object };
}

/** One finished attempt, as the effect receipt tells it. */
export interface AttemptRecord {
  number: number;
  sent: boolean;
  status: number | null;
  reason: string | null;
  outcome: Outcome;
  ms: number;
}

/** The stored answer of a settled operation; the answer object is rebuilt from it for each who asks. */
export type StoredAnswer = JsonObject;

export interface Operation {
  tenant: string;
  id: string;
  identity: Buffer;
  generation: number;
  upstreamKey: string;
  effect: 'none' | 'write' | 'irreversible';
  state: OperationState;
  fence: number;
  owner: string | null;
  attempt: number;
  attempts: AttemptRecord[];
  unknownAttempts: number;
  effectSeen: boolean;
  verified: boolean;
  reason: string | null;
  outcome: Outcome | null;
  tool: string;
  contractVersion: string;
  contractDigest: string;
  catalogueDigest: string;
  principal: string;
  subject: string;
  purpose: string;
  sessionId: string;
  turnId: string;
  intentId: string;
  callId: string;
  fingerprint: Buffer;
  decisionReceipt: string | null;
  effectReceipt: string | null;
  /** The review that it is in, or was in last. */
  reviewId: string | null;
  /** Where it waits, or waited, for an approval. */
  approval: { id: string; expiresAt: string } | null;
  /** The operation that it takes back, and the one by which it was taken back. */
  compensates?: string | null;
  compensatedBy?: string | null;
  /** Null once terminal. */
  dossier: Dossier | null;
  answer: StoredAnswer | null;
  /** Milliseconds from the database's now at the time of reading; negative when past. */
  clock: {
    sinceCreated: number;
    sinceFirstSent: number | null;
    untilSendBy: number | null;
    untilAbsent: number | null;
    untilReconcileBy: number | null;
    untilDue: number | null;
  };
}

export interface Receipt {
  id: string;
  /** `erasure`: what is going to be erased, and why. */
  kind: 'decision' | 'effect' | 'erasure';
  tenant: string;
  operationId: string | null;
  sessionId: string;
  intentId: string;
  principal: string;
  tool: string;
  disposition: string;
  outcome: Outcome | null;
  /** Redacted already. */
  body: JsonObject;
  /** What of it need not be kept again for each; null or absent: it is kept whole. */
  dictionary?: ReceiptDictionary | null;
}

/** Texts that receipts of one tool are made of, and nothing of any call: it is never erased. */
export interface ReceiptDictionary {
  /** SHA-256 of the bytes. */
  readonly digest: Buffer;
  readonly bytes: Buffer;
}
