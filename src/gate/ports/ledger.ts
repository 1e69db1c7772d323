/** Everything that is durable. */
import type { OperationState } from '../../model.js';
import type { Approve, Dispatch } from './approvals.js';
import type { Callbacks } from './callbacks.js';
import type { CallAlias, EntityMove, Entry, Intent, Reservation, Transition } from './commits.js';
import type { Operation, Receipt } from './operations.js';
import type { OpenedReview } from './reviews.js';
import type { ChargedRefusal, LastQuery, Purse, Reading, SessionContext, SessionScope, SessionStanding, TurnDraw } from './sessions.js';

export interface Found {
  /** `operation` is null where the intent that claimed this call identity was not reserved after all. */
  call: { fingerprint: Buffer; operationId: string; operation: Operation | null } | null;
  /** Newest generation of the operation identity. */
  current: Operation | null;
  /** For a write the state of the read that was answered under the same call identity, since reads keep theirs apart. */
  readBefore: OperationState | null;
  /** What this session was last told of the entity. */
  seenVersion: string | null;
  /** The session has been told something that may carry injected text; false where it was not asked. */
  untrusted: boolean;
  /** Of each guard key asked about, how often it has been held. */
  guardEpochs: number[];
  /** Another effect is open on one of them. */
  guarded: boolean;
  /** Of each kept entity asked about its state; null while it was never moved. */
  kept: (string | null)[];
  /** Null where it was not asked about. */
  session: SessionStanding | null;
  reading: Reading | null;
}

/** `subject` null: of whichever; its principal may name them. */
export interface CancelRequest { tenant: string; id: string; principal: string; subject: string | null }

/** From one replica to all, for about a second. */
export interface CancelRequests {
  ask(request: CancelRequest): Promise<void>;
  list(): Promise<CancelRequest[]>;
  forget(request: CancelRequest): Promise<void>;
}

/** All methods reject with LedgerUnavailable when nothing could be made durable. */
export interface Ledger {
  readonly callbacks: Callbacks;
  readonly cancelRequests: CancelRequests;
  find(query: {
    tenant: string; callKey: Buffer | null; identity: Buffer | null;
    /** The identity that a read under the same call id would have. */
    readIdentity?: Buffer | null;
    seen: { principal: string; subject: string; sessionId: string; entity: string } | null;
    guardKeys: readonly string[];
    /** Asks whether this session is untrusted. */
    trust?: { principal: string; subject: string; sessionId: string } | null;
    /** Entities whose state the gateway keeps: read in the same moment as the guards. */
    kept?: readonly { service: string; entity: string }[];
    session?: SessionScope & { purse: string; tool: string };
    /** Of a read. */
    readKey?: Buffer;
  }): Promise<Found>;
  /** The operation whose committed result was the session's last; null where there is none. */
  lastResult(query: LastQuery): Promise<Operation | null>;
  get(tenant: string, operationId: string): Promise<Operation | null>;
  /** Of this caller, or what takes its effect back; what is others' costs what nothing costs. */
  own(of: CancelRequest): Promise<Operation | null>;
  /** Those of them that were done, within the contract's dedupe window. */
  doneItems(tenant: string, items: readonly string[], windowMs: number | null): Promise<string[]>;
  /** The newest effect that this call is the undo of. */
  offeredUndo(tenant: string, undoKey: Buffer): Promise<string | null>;
  reserve(intent: Intent): Promise<Reservation>;
  /** False: somebody else moved it (another state, or another fence). */
  transition(transition: Transition): Promise<boolean>;
  /** False: the operation row exists already (an equal read came first); its receipts are then not written. */
  record(entry: Entry): Promise<boolean>;
  context(query: { tenant: string; principal: string; subject: string; session: SessionScope; purse: string }): Promise<SessionContext>;
  /** Null: recorded and charged. Else the budget of re-proposals was used up, and nothing was recorded. */
  refuse(refusal: ChargedRefusal): Promise<Purse | null>;
  /** Null: the turn is paid for, now or before. Else there is none left. */
  drawTurn(draw: TurnDraw): Promise<Purse | null>;
  alias(alias: CallAlias): Promise<void>;
  /** Null: it does not wait for this approval any more, or this person has approved it. */
  approve(approve: Approve): Promise<{ enough: boolean } | null>;
  /** `guarded`: another effect is open on its entity, or was since it was looked up; `lost`: it is not there to be sent any more. */
  dispatch(dispatch: Dispatch): Promise<'sending' | 'guarded' | 'lost'>;
  /**
   * Late positive evidence of `attempt`, whatever its fence. What ended without an effect or was sent again since goes to review as
   * CONTRADICTED, with `receipt`, and opens `review`; what is in review has `receipt` as further evidence and a new fence, so that nobody
   * decides without it; what is open is looked at a second later. Gives the state after it. `moves`: what the effect made of entities whose state
   * the gateway keeps, for an operation that had ended and let them go; `items`, which of its items it did.
   */
  witness(attempt: number, receipt: Receipt, review: OpenedReview, effect?: { moves: readonly EntityMove[]; items: readonly string[] }): Promise<OperationState | null>;
}
