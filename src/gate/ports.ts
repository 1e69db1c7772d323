/** What the path of a call needs of the rooms beneath it; `main.ts` supplies them. */
import type { RenderedRequest, UpstreamPlan } from '../contract/plan.js';
import type { Json, JsonObject, OperationState, Outcome, Principal } from '../model.js';
import type { ApprovalFilter, Page, ReviewFilter } from '../ports.js';
import type { Exchange } from '../upstream/exchange.js';

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

/** What is asked of a person before a call is sent. */
export interface Asked {
  id: string;
  by: 'client' | 'application' | 'reviewer';
  /** Distinct people. */
  needed: number;
  /** Of what is approved; a decision names it. */
  digest: string;
  /** From the final arguments alone, redacted as receipts are. */
  summary: string;
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
}

export interface SeenEntity { tenant: string; principal: string; subject: string; sessionId: string; entity: string; version: string | null; state: string | null }

/** A session that is told something which may carry injected text, and by which tool. */
export interface Mark { tenant: string; principal: string; subject: string; sessionId: string; tool: string }

/** A commit moves an entity whose state the gateway keeps. `entity` as its guard key. */
export interface EntityMove { service: string; entity: string; from: string; to: string }

/** Where the result of a committed operation is looked for by `last(…)`; `entity` is '' where the tool has none. */
export interface Remembered { principal: string; subject: string; sessionId: string; tool: string; entity: string }

/** `entity` null: the latest of the session, on whichever. */
export interface LastQuery { tenant: string; principal: string; subject: string; sessionId: string; tool: string; entity: string | null }

export interface CallAlias {
  tenant: string;
  callKey: Buffer;
  fingerprint: Buffer;
  operationId: string;
  /** What the call identity stood for when it was looked up: the claim is a compare-and-set, so two different calls never share one identity. */
  previous: string | null;
}

/** Whose budgets a call draws on, and for which task a refusal of it counts. */
export interface SessionScope {
  id: string;
  /** Where the application did not create the session: of this principal and subject alone. */
  own: string;
  /** The intent, or without one the session: refused proposals are counted by tool and task. */
  task: string;
}

export interface Purse { limit: number; used: number }

/** What was left when a call was looked up. */
export interface SessionStanding {
  /** The session that pays: itself, or its topmost parent. Null where the application did not create it, and the principal pays. */
  root: string | null;
  /** Null: nothing was ever drawn from it. */
  executions: Purse | null;
  /** `limit` null: the configured one. */
  proposals: { limit: number | null; used: number };
}

/** `opened`: the purse was seen, and need not be made. */
export interface ExecutionBudget { scope: string; quota: number; opened?: boolean }

export interface TurnDraw { tenant: string; session: SessionScope; turnId: string; limit: number }

/** A refusal that the guard decided, with the budget of re-proposals that it draws on. */
export interface ChargedRefusal { receipt: Receipt; charge: { session: SessionScope; tool: string; limit: number } }

/** A read that may be a repeat: its key, and since when its session has not changed, as looked up before it was made. */
export interface Repetition { tenant: string; key: Buffer; since: string }

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
  /** Terminal: frees the guard keys, wipes the sealed request. */
  settle?: boolean;
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

export interface OpenedReview { id: string; /** Then it is escalated. */ deadlineMs: number }

export type ReviewDecision = 'committed' | 'not_committed' | 'resend' | 'abandon';

export interface Decided { review: string; decision: ReviewDecision; by: string; because: string; receipt: Receipt }

/** A review with all that was kept of its operation, as of one moment. */
export interface ReviewCase {
  id: string;
  openedAt: string;
  deadline: string;
  overdue: boolean;
  escalatedAt: string | null;
  decision: { decision: ReviewDecision; by: string; at: string; because: string; receipt: string } | null;
  /** Why it was opened; the operation may have gone on since. */
  reason: string;
  operation: Operation;
  /** Bodies, in the order of writing. */
  receipts: JsonObject[];
  /** Principals who approved the call. */
  approvers: string[];
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

export interface Found {
  /** `operation` is null where the intent that claimed this call identity was not reserved after all. */
  call: { fingerprint: Buffer; operationId: string; operation: Operation | null } | null;
  /** Newest generation of the operation identity. */
  current: Operation | null;
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

/** What one caller was told of in a session, and how the budgets stand that it draws on there. */
export interface SessionContext {
  entities: { entity: string; version: string | null; state: string | null; observedAt: string }[];
  standing: SessionStanding;
  turns: Purse | null;
  refusals: { tool: string; task: string; used: number }[];
  /** It was told something that may carry injected text. */
  untrusted: boolean;
}

/** Of equal reads of one session. */
export interface Reading {
  /** Names the newest committed write of the session, and the newest refusal that rested on the state of the world. */
  since: string;
  /** How many there were since then. */
  times: number;
  /** The last of them, by its operation. */
  last: string | null;
}

/** What a service told by itself, its signature checked. */
export interface CallbackEvent {
  service: string;
  id: string;
  /** The key of the operation that it is about. */
  key: string;
  receivedAt: string;
  /** Lower-case names. */
  headers: Record<string, string>;
  body: Json;
}

type CallbackName = Pick<CallbackEvent, 'service' | 'id' | 'key'>;

/** `event` null: it cannot be read any more. */
export interface KeptCallback extends CallbackName { tries: number; ageMs: number; event: CallbackEvent | null }

/** Events from their arrival to the moment at which their operation has settled. */
export interface Callbacks {
  /** `repeated`: an event of this id is there already; `differs`: with another body. */
  keep(event: Pick<CallbackEvent, 'service' | 'id' | 'headers' | 'body'> & { keys: readonly string[]; bytes: Buffer }): Promise<'kept' | 'repeated' | 'differs'>;
  /** Those that are not weighed yet, in the order of arrival. */
  about(upstreamKey: string): Promise<CallbackEvent[]>;
  take(limit: number, leaseMs: number): Promise<KeptCallback[]>;
  /** The newest that was sent under the key, of whichever tenant. */
  operation(upstreamKey: string): Promise<Operation | null>;
  /** An open operation is looked at now. `effectSeen`: no transition denies the effect from here on, nor sends again. */
  hasten(operation: { tenant: string; id: string }, effectSeen: boolean): Promise<void>;
  end(event: CallbackName, weighed: 'agrees' | 'contradicts' | 'says_nothing' | 'unmatched', operation: { tenant: string; id: string } | null): Promise<void>;
  defer(event: CallbackName, ms: number, operation: { tenant: string; id: string } | null): Promise<void>;
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

/** An approval with its operation, as of one moment. */
export interface ApprovalCase extends Asked {
  state: 'pending' | 'approved' | 'used' | 'rejected' | 'revoked' | 'expired' | 'stale' | 'cancelled' | 'abandoned';
  operation: Operation;
  askedAt: string;
  expired: boolean;
  approvedBy: string[];
  ended: { by: string; at: string; because: string } | null;
  receipts: JsonObject[];
}

/** One more approval; the last one that is needed makes the operation due. */
export interface Approve { tenant: string; operationId: string; approval: string; digest: string; by: string; receipt: Receipt }

/** Of an approved call: the intent, whose guard keys are claimed now. */
export interface Dispatch {
  tenant: string;
  operationId: string;
  fence: number;
  writeId: string;
  owner: string;
  attemptId: string;
  sendWindowMs: number;
  leaseMs: number;
  reconcileDeadlineMs: number;
  guardKeys: readonly string[];
  guardEpochs: readonly number[];
  receipt: Receipt;
}

export interface Approvals {
  list(tenant: string, filter: ApprovalFilter): Promise<Page<JsonObject>>;
  find(tenant: string, id: string): Promise<ApprovalCase | null>;
}

export interface Reviews {
  list(tenant: string, filter: ReviewFilter): Promise<Page<JsonObject>>;
  find(tenant: string, id: string): Promise<ReviewCase | null>;
}

/** Asks for a place at a domain service. */
export interface Entrance {
  /** `write`: one that the service would carry out twice, for want of a key that it honours. */
  traffic: 'write' | 'keyed_write' | 'read' | 'read_back';
  /** A first send earns retries of its service, and a retry costs one; a further question, or what a person decided, does neither. */
  as: 'first' | 'retry' | 'neither';
  /** How long it may wait for its place, on the clock of `performance.now()`. */
  until: number;
  /** Ends the wait before. */
  signal?: AbortSignal | undefined;
}

/** Held from before the intent of a write, or the sending of a read, until its exchange has ended. */
export interface Place {
  /** It had to stand in line, so that what was observed before may be old. */
  waited: boolean;
  /** Once is enough; without an exchange nothing was sent. */
  leave(exchange?: Exchange): void;
}

/** Nothing may be sent now: a pause that the service asked for, its breaker, no place, no retry left. */
export interface Closed { closed: 'paused' | 'suspended' | 'busy' | 'retry_ratio'; forMs: number }

/** What stands between the callers in this process and a domain service. */
export interface UpstreamGate {
  enter(upstream: UpstreamPlan, entrance: Entrance): Promise<Place | Closed>;
  /** Milliseconds still to wait, 0 when there is no pause. */
  pausedForMs(service: string): number;
  /** Kept by every caller of the service. */
  pause(service: string, ms: number): void;
}

/** Pauses of domain services over replicas; best effort, and never waited for. */
export interface SharedPauses {
  tell(service: string, ms: number): void;
  /** @param hear may be called with what was told by this process itself */
  heard(hear: (service: string, ms: number) => void): void;
  /** What was told before this process listened is heard soon. */
  look(service: string): void;
}

/** Queues and wakes; never decides. Losing it changes speed, not results. */
export interface Locks {
  /** FIFO within this process. Undefined: not within `patienceMs`, or `signal` came first. */
  enter(key: string, patienceMs: number, signal?: AbortSignal): Promise<{ waited: boolean; leave(): void } | undefined>;
  /** One contender per key over all replicas; used only once the ledger has said that somebody else holds the key. */
  contend(key: string, patienceMs: number): Promise<{ release(): void } | undefined>;
  /** Wakes whoever hears `topic`, on every replica; best effort. */
  announce(topic: string): void;
  /** Resolves when `topic` is announced, or after `ms`. */
  heard(topic: string, ms: number): Promise<void>;
  close(): Promise<void>;
}
