/** What the listeners need of the rest of the house; `main.ts` supplies it. */
import type { ModelTool } from './contract/views/model.js';
import type { Refusal } from './errors.js';
import type { Signal } from './signal.js';
import type { Answer, Json, JsonObject, Principal, ResultPage } from './model.js';

export interface Proposal {
  /** The body as it came, at most `limits.bodyBytes` long; the parse stage reads it strictly. */
  body: Buffer;
  principal: Principal;
  /** Header `Idempotency-Key`, verbatim. */
  idempotencyKey?: string;
  /** From `Prefer: wait=SECONDS`, in milliseconds; absent: the configured patience. `respond-async` is 0 and `async`. */
  patienceMs?: number;
  respondAsync?: boolean;
  /** Header `traceparent`, verbatim. */
  traceparent?: string;
  /** Its caller has hung up: if it was not sent by then it is not sent. Of a turn or batch that was taken in everything goes on. */
  gone?: Signal;
}

/** The calls of one turn of a model, as a dialect found them in it. Nothing is checked yet: the parse stage does that. */
export interface ProposedTurn {
  principal: Principal;
  /** `session_id`, `turn_id`, `intent_id`, `purpose`, `subject` as the caller gave them; any other member is refused. */
  members: Json;
  calls: readonly TurnCall[];
  /** Why the provider cut the turn (`length`, `max_tokens`, …): a cut turn executes no write. Null: it is whole. */
  cut: string | null;
  /** One deadline for all calls, in milliseconds; absent: the configured patience. */
  patienceMs?: number;
  /** Header `traceparent`, verbatim. */
  traceparent?: string;
}

/**
 * One call of a turn, in the order of the turn: the members of a body of `POST /v1/calls` less those of the turn, or why it is no call
 * of a tool (a custom tool call, …). It is identified by (turn, position), since providers repeat ids: `call_id` is a label that is echoed.
 */
export type TurnCall = { members: Json } | { callId: string; unusable: string };

export interface ProposedBatch extends Pick<Proposal, 'body' | 'principal' | 'patienceMs' | 'traceparent'> {}

/** One answer per call, in the order given, whatever happens; or a refusal of the whole, of which nothing ran. */
export type TurnAnswer = { results: Answer[] } | { refused: Answer };

/** Answers carry their HTTP status in `status` when they are refusals, else 200 (`executed`, `replayed`) or 202. */
export interface AgentDoor {
  propose(proposal: Proposal): Promise<Answer>;
  /** `POST /v1/batches`: calls identified by their ids. */
  batch(batch: ProposedBatch): Promise<TurnAnswer>;
  /** A turn of a model, for the dialects. Without a `turn_id` it is not recognised when it comes again; a dialect derives one from the response id. */
  turn(turn: ProposedTurn): Promise<TurnAnswer>;
  /** The same object later; waits at most `patienceMs` for a settled outcome. */
  operation(principal: Principal, operationId: string, patienceMs: number): Promise<Answer>;
  /** A piece of its result as canonical JSON text, at most `limits.result` long whatever is asked for. */
  result(principal: Principal, operationId: string, asked: { offset: number; limitBytes?: number }): Promise<{ page: ResultPage } | { refused: Answer }>;
  cancel(principal: Principal, operationId: string): Promise<Answer>;
  /** What this caller was told of in a session, what it may do now, and what is left of its budgets; with the text that tells a model. */
  context(principal: Principal, session: { id: string; subject?: string }): Promise<SessionContextView | Refusal>;
  /** The tools this caller may use, with their model view. */
  tools(principal: Principal): PublishedTool[];
}

export type PublishedTool = ModelTool & { version: string; digest: string };

export interface SessionBudgets { executions: number; proposals: number; turns: number }

/** As the application sets a session; what it does not name stays. */
export interface SessionRequest {
  tenant: string;
  id: string;
  parent: string | null;
  budgets: Partial<SessionBudgets>;
  defaults: SessionBudgets;
  /** The principal that asks for it. */
  by: string;
}

export interface SessionProblem { problem: 'CYCLE' | 'UNKNOWN_PARENT' | 'PARENT_IS_FIXED' | 'BUDGETS_OF_THE_ROOT' }

interface Budget { limit: number; used: number }
interface RefusedProposals extends Budget { refused: { tool: string; intent_id: string | null; used: number }[] }

export interface SessionView {
  id: string;
  parent_session_id: string | null;
  root_session_id: string;
  created_by: string;
  created_at: string;
  /** Of the root. `proposals.used` is the highest of any tool and intent, each of which has the whole limit. */
  budgets: { executions: Budget; proposals: RefusedProposals; turns: Budget };
}

export interface Sessions {
  put(request: SessionRequest): Promise<SessionView | SessionProblem>;
  get(tenant: string, id: string): Promise<SessionView | null>;
}

export interface SessionContextView {
  session_id: string;
  /** For the system prompt. */
  text: string;
  entities: { entity: string; state: string | null; version: string | null; observed_at: string; legal_actions: string[] }[];
  budgets: { executions: Budget & { of: 'session' | 'principal'; per: 'session' | 'day' }; proposals: RefusedProposals; turns: Budget };
}

export interface Page<T> { items: T[]; next_cursor: string | null }

export interface ReceiptFilter {
  session_id?: string; intent_id?: string; tool?: string; disposition?: string; outcome?: string; principal?: string;
  /** ISO 8601 instants: `from` inclusive, `to` exclusive. */
  from?: string; to?: string;
  limit: number; cursor?: string;
}

/** Reads of the control plane; everything is within the principal's tenant. */
export interface Records {
  receipts(tenant: string, filter: ReceiptFilter): Promise<Page<JsonObject>>;
  receipt(tenant: string, id: string): Promise<JsonObject | null>;
  operations(tenant: string, filter: ReceiptFilter & { state?: string }): Promise<Page<JsonObject>>;
  /** The whole story of one operation: proposals, decisions, attempts, observations, read-backs, receipts. */
  operation(tenant: string, id: string): Promise<JsonObject | null>;
}

/** The chain over the receipts of a tenant, for those who verify it. */
export interface ReceiptChain {
  /** A JWK Set: what checkpoints are or were signed with. */
  keys(): object;
  /** NDJSON in the order of the sequence, piece by piece; everything after a sequence, 0 for all. */
  lines(tenant: string, after: number): AsyncIterable<string>;
}

export interface ReviewFilter {
  /** Open ones come in the order in which they were opened, decided ones newest first. */
  state: 'open' | 'decided';
  tool?: string; reason?: string;
  limit: number; cursor?: string;
}

export interface ApprovalFilter {
  /** `pending` ones come in the order in which they were asked, all others newest first. */
  state: 'pending' | 'ended';
  tool?: string; by?: string; session_id?: string; principal?: string;
  limit: number; cursor?: string;
}

export interface ApprovalVerdict {
  decision: 'approve' | 'reject' | 'revoke';
  reason?: string;
  expected_digest: string;
}

/** Calls that wait for a person before they are sent, and the people who decide. */
export interface ApprovalDesk {
  list(tenant: string, filter: ApprovalFilter): Promise<Page<JsonObject>>;
  one(tenant: string, id: string): Promise<JsonObject | null>;
  decide(principal: Principal, id: string, verdict: ApprovalVerdict): Promise<JsonObject | Refusal>;
}

export interface ReviewVerdict {
  decision: 'committed' | 'not_committed' | 'resend' | 'abandon';
  /** In the person's own words. */
  reason: string;
  /** What was found out, and where: a reference of the service, a ticket. Not needed to send again. */
  evidence?: Json;
  /** Of a committed effect: what its callers are to be given, as the tool's result schema admits it. */
  result?: Json;
  expected_digest: string;
}

/** To take back what a review is about, by the call that its contract names. */
export interface UndoOrder {
  /** In the person's own words. */
  reason: string;
  /** Of the undo, as the review shows it. */
  expected_digest: string;
  patienceMs?: number;
}

/** What no machine can settle, and the people who do. */
export interface ReviewDesk {
  list(tenant: string, filter: ReviewFilter): Promise<Page<JsonObject>>;
  one(tenant: string, id: string): Promise<JsonObject | null>;
  /** The review as it stands after the decision. */
  decide(principal: Principal, id: string, verdict: ReviewVerdict): Promise<JsonObject | Refusal>;
  /** The answer of the undo, which is an operation like any other; the same again where it was ordered before. */
  undo(principal: Principal, id: string, order: UndoOrder): Promise<Answer | Refusal>;
}

/** As it came, and as it was signed. */
export interface ReceivedCallback {
  service: string;
  id: string;
  timestamp: string;
  /** Header `webhook-signature`, verbatim. */
  signatures: string;
  /** Lower-case names, without credentials. */
  headers: Record<string, string>;
  body: Buffer;
}

/** `ignored`: it names no operation. */
export interface CallbackVerdict { event_id: string; status: 'kept' | 'repeated' | 'ignored' }

/** What services tell by themselves. */
export interface CallbackDesk {
  receive(received: ReceivedCallback): Promise<CallbackVerdict | Refusal>;
}

export interface Health {
  /** Bounded and write-capable; Redis loss is degraded, not unready. */
  readiness(): Promise<{ ready: boolean; checks: Record<string, { state: 'up' | 'degraded' | 'down' | 'off'; detail?: string }> }>;
}

/** An opaque cursor that the ledger cannot read: answered 400. */
export class BadCursor extends Error {}

export interface Authenticator {
  /** Null: not valid. @throws LedgerUnavailable, CredentialsUnavailable when that cannot be told. @param credential the text after `Bearer `. */
  authenticate(credential: string): Promise<Principal | null>;
  /** Whose a client certificate is that the listener has proven; null: nobody's. */
  ofCertificate?(certificate: ClientCertificate): Principal | 'revoked' | null;
}

/** As Node tells of an X.509 certificate. */
export interface ClientCertificate {
  /** One name a line. */
  readonly subject: string;
  readonly subjectAltName: string | undefined;
  /** `AB:CD:…` */
  readonly fingerprint256: string;
  /** In hexadecimal. */
  readonly serialNumber: string;
  readonly validFrom: string;
  readonly validTo: string;
}

/** What http logs; a pino logger satisfies it. Never given a header, a body or a query string. */
export interface Log {
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export type Plane = 'agent' | 'control';

export interface RequestMetrics {
  /** Once per finished request. `route` is the template (`/v1/operations/:id`), or `unmatched`: never a caller's text. */
  observeRequest(sample: { plane: Plane; method: string; route: string; status: number; seconds: number }): void;
}

/** The page of `/metrics`; a prom-client `Registry` satisfies it. */
export interface MetricsPage {
  readonly contentType: string;
  metrics(): Promise<string>;
}

/** What a replica has of the bounds on one caller, and wants besides. 0 `atOnce` or `perSecond`: no bound. */
export interface ShareRequest {
  /** Places that it goes on having; whatever else it had is given back. */
  keep: number;
  places: number;
  atOnce: number;
  tokens: number;
  perSecond: number;
  /** Where places lack, the others are told to give back what they have idle. */
  recall: boolean;
}

/** Bounds on callers that hold over all replicas; what is lent is never more than they are. */
export interface SharedBounds {
  /** Places are lent for so long, and again with each question. */
  readonly leaseMs: number;
  reachable(): boolean;
  /** @param caller without names. @returns undefined: nobody answered in time, and what was asked for may be lent all the same */
  lend(caller: string, request: ShareRequest): Promise<{ places: number; tokens: number; /** Where none was lent: until there is one. */ tokenInMs: number } | undefined>;
  /** @param listener is told whose idle places others lack, and that what was told before may have been lost */
  watch(listener: { recalled(caller: string): void; restored(): void }): void;
}

export interface CallerMetrics {
  refused(who: 'principal' | 'tenant', bound: 'rate' | 'concurrency'): void;
  /** This replica let a request in, or refused it, by its own share, because Redis did not answer. */
  decidedAlone(): void;
}
