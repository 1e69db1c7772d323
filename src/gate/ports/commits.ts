/** What the path of a call makes durable: an intent, each move of its operation, and what had no intent. */
import type { OperationState, Outcome } from '../../model.js';
import type { Asked } from './approvals.js';
import type { AttemptRecord, Dossier, Operation, Receipt, StoredAnswer } from './operations.js';
import type { Decided, OpenedReview } from './reviews.js';
import type { ExecutionBudget, Mark, Remembered, Repetition, SeenEntity } from './sessions.js';

export interface CallAlias {
  tenant: string;
  callKey: Buffer;
  fingerprint: Buffer;
  operationId: string;
  /** What the call identity stood for when it was looked up: the claim is a compare-and-set, so two different calls never share one identity. */
  previous: string | null;
}

/** A commit moves an entity whose state the gateway keeps. `entity` as its guard key. */
export interface EntityMove { service: string; entity: string; from: string; to: string }

/** The intent: made durable before the first byte is sent. */
export interface Intent {
  operation: Omit<Operation, 'state' | 'fence' | 'owner' | 'attempt' | 'attempts' | 'unknownAttempts' | 'effectSeen' | 'verified'
    | 'reason' | 'outcome' | 'effectReceipt' | 'reviewId' | 'approval' | 'answer' | 'clock'> & { dossier: Dossier };
  /** The generation before ended with an effect, and the contract's dedupe window has passed over it. */
  afterCommitted: boolean;
  attemptId: string;
  writeId: string;
  owner: string;
  sendWindowMs: number;
  leaseMs: number;
  reconcileDeadlineMs: number;
  guardKeys: readonly string[];
  /** As they were looked up before anything was observed: a key that was held since then is not ours to claim. */
  guardEpochs: readonly number[];
  budget: ExecutionBudget | null;
  alias: CallAlias | null;
  receipt: Receipt;
  /** Parks it: durable, and not sent until it is approved. It names no guard keys then. */
  parked?: { asked: Asked; expiresMs: number; answer: StoredAnswer };
}

export type Reservation =
  | { reserved: true }
  /** `exists`: this identity and generation is there already; `guarded`: another effect is open on an entity; look again. */
  | { reserved: false; because: 'exists' | 'guarded' }
  | { reserved: false; because: 'budget'; quota: number; used: number };

/** One conditional update: it happens only from one of `from` and under `fence`. Absent members stay as they are. */
export interface Transition {
  tenant: string;
  operationId: string;
  writeId: string;
  from: readonly OperationState[];
  fence: number;
  /** Only the very row that this intent wrote: an equal call that was proposed again has the same id and the same first fence. */
  wroteBy?: string;
  to: OperationState;
  outcome?: Outcome | null;
  reason?: string | null;
  verified?: boolean;
  effectSeen?: boolean;
  attempts?: AttemptRecord[];
  unknownAttempts?: number;
  /** A new attempt: number, id, and how long it may be sent from now. */
  send?: { attempt: number; attemptId: string; windowMs: number };
  /** Relative to the database's now. `null` clears. */
  dueInMs?: number | null;
  absentInMs?: number | null;
  /** A new deadline after which a person decides. */
  reconcileInMs?: number;
  /** Gives up ownership; recovery looks at it when due. */
  release?: boolean;
  answer?: StoredAnswer;
  /** Terminal: frees the guard keys and, unless it is still due, wipes the sealed request and what else only an open one needs. */
  settle?: boolean;
  /** Its service may still tell of it by its key, which is kept then. */
  calledBack?: boolean;
  /** Pays the execution back to its budget: only when not one byte of any attempt left. */
  refund?: boolean;
  receipt?: Receipt;
  /** The review that a move into a person's hands opens. */
  review?: OpenedReview;
  /** Only while the approval that it waits for has not expired by the database's clock. */
  unexpired?: boolean;
  /** Who ended the approval that it waited for, and why. */
  approvalEnded?: { by: string; because: string };
  /** A person's decision, which closes the review that the operation was in. */
  decided?: Decided;
  /** The receipt that the operation should point at as its effect receipt. */
  effectReceipt?: string;
  /** Moves on what the session had been told of these; what it was never told stays untold. */
  seen?: SeenEntity[];
  mark?: Mark;
  /** Of `seen`, told to the session by its own write: nothing but the gateway could have told it. */
  told?: SeenEntity[];
  /** Only with a move to `committed`; an operation moves an entity once. `late`: it had let them go, and moves what is still where it found it. */
  moves?: EntityMove[];
  late?: boolean;
  remembered?: Remembered;
  /** Only with a move to `committed`: no further call that means the same does those that are done. */
  items?: { identity: string; done: boolean }[];
  /** With `send`: what was done already stays done, by a service that honours the key item by item. */
  resumes?: boolean;
  /** Of the call that would take it back. */
  undoKey?: Buffer;
}

/** A finished read, or a refusal: nothing was reserved before it. */
export interface Entry {
  receipts: Receipt[];
  operation?: Operation & { writeId: string };
  seen?: SeenEntity[];
  mark?: Mark;
  /** Nothing rests on it but its own answer: it may be lost with the database in the moment after it was given. */
  relaxed?: boolean;
  /** Of a read: counted where there is an operation, else it failed and the count ends. */
  repetition?: Repetition;
}
