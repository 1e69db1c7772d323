/**
 * The execution view of a contract: the immutable plan that the gateway loads. Nothing in it is looked up by name at
 * run time, and no expression or schema is compiled per call. `compile.ts` builds it; the gate only reads it.
 */
import type { FieldError, Json, JsonObject, NextAction, Outcome } from '../model.js';

/** Values that an expression may name; each is raw JSON, decoded by its schema when an expression reads it. One that is undefined cannot be read. */
export interface Scope {
  args?: JsonObject;
  bound?: JsonObject;
  principal?: { id: string; tenant: string; subject: string | null; roles: readonly string[] };
  subject?: string | null;
  /** `untrusted`: it has been told a result of a tool that is marked so. Not there before the ledger was asked. */
  session?: { id: string; untrusted?: boolean };
  /** `operation.id` is the idempotency key that the upstream sees on every attempt. */
  operation?: { id: string } | undefined;
  now?: Date;
  /** Of an upstream's answer, in `errors`, `async`, `observe.version` and `not_found`. Header names are lower-case. */
  status?: number | undefined;
  headers?: Record<string, string> | undefined;
  body?: Json | undefined;
  /** Of a read-back, a tool's own result, or a compensation. */
  result?: Json | undefined;
  /** Entities, observations and `let` values, each by its name. */
  [name: string]: unknown;
}

/** A type-checked expression. */
export interface Expression<T> {
  readonly source: string;
  /** Top-level names that it reads, for instance `args`, `order`. */
  readonly names: ReadonlySet<string>;
  /** @throws EvaluationError when it cannot be evaluated over this scope; the caller must refuse, never assume. */
  evaluate(scope: Scope): T;
}

/** A run-time failure of an expression: an absent optional field, an overflow, a value off its schema. */
export class EvaluationError extends Error {
  constructor(readonly source: string, cause: unknown) {
    super(`\`${source}\` could not be evaluated: ${cause instanceof Error ? cause.message.split('\n')[0] : String(cause)}`);
    this.name = 'EvaluationError';
  }
}

export interface Predicate {
  readonly id: string;
  readonly check: Expression<boolean>;
  readonly otherwise: { readonly code: string; readonly next: NextAction; readonly message: string | null };
}

export type ArgumentsVerdict =
  | { ok: true; args: JsonObject; /** Pointers of values that were unwrapped or losslessly coerced. */ repaired: string[] }
  | { ok: false; errors: FieldError[] };

/** The request as it will be sent, byte for byte, on every attempt; credentials are not part of it. */
export interface RenderedRequest {
  method: string;
  /** Absolute URL; every template value is encoded for its place. */
  url: string;
  /** Lower-case names. */
  headers: Record<string, string>;
  /** JSON text, or null for a request without a body. */
  body: string | null;
}

/** Where a secret of a service is: which files and commands there are is up to whoever runs the gateway. */
export interface SecretSource { readonly from: 'env' | 'file' | 'command'; readonly name: string }

export interface UpstreamPlan {
  readonly service: string;
  readonly origin: string;
  /** Where the secret is that is read at each send; `prefix` goes before it. */
  readonly auth: { readonly header: string; readonly source: SecretSource; readonly prefix: string } | null;
  readonly concurrency: number;
  readonly connectTimeoutMs: number;
  readonly deadlineMs: number;
  /** Null: nothing that claims to come from the service by itself is believed. */
  readonly callbacks: { /** Of the signatures, read at each callback. All but the first may be missing. */ readonly secrets: readonly SecretSource[]; readonly toleranceMs: number } | null;
}

/** What an event that the service sends by itself proves, over `headers` and `body` and, but for `operation`, the names of a sent call. */
export interface CallbackPlan {
  /** The `operation.id` that was sent upstream, where it gives a text. */
  readonly operation: Expression<Json>;
  readonly committed: Expression<boolean>;
  /** The answer to give, checked against this tool's own result schema. */
  readonly result: Expression<Json> | null;
  readonly rejected: readonly ErrorRule[];
}

/** What a response means, as the contract says; first match wins. `class` picks a disposition other than the plain one. */
export interface ErrorRule {
  readonly when: Expression<boolean>;
  readonly outcome: Outcome;
  readonly class: 'version_conflict' | 'rate_limited' | 'not_found' | null;
  readonly code: string | null;
  readonly next: NextAction;
  readonly message: string | null;
}

export interface ObservationPlan {
  /** The name in scope: the entity's, or the observation's own. */
  readonly name: string;
  readonly tool: ToolPlan;
  /**
   * Not null: one read for each distinct element of the list, `as` naming the element in `args`. The observation is then an object
   * from each element (an integer as its digits) to what was read; what was not found is not in it. More than `max` is refused.
   */
  readonly each: { readonly list: Expression<Json>; readonly as: string; readonly max: number } | null;
  readonly args: Readonly<Record<string, Expression<Json>>>;
  readonly version: Expression<string> | null;
  readonly maxAgeMs: number;
  /** Entities and observations whose values it rests on: what rests on nothing of each other may be made together. */
  readonly needs: readonly string[];
}

export interface EntityPlan {
  readonly name: string;
  readonly service: string;
  /** A text, or the digits of an integer. */
  readonly id: Expression<string>;
  /** Entities and observations, or `lastResults`, without which the id cannot be told. */
  readonly idNeeds: readonly string[];
  /** Null where nothing at the upstream shows it: the gateway then keeps its state. */
  readonly observation: ObservationPlan | null;
  /** Over the observation; null where the entity has no transition table, or the gateway keeps its state. */
  readonly state: Expression<string> | null;
  /** The gateway keeps the state, from this one on. */
  readonly kept: { readonly initial: string } | null;
  readonly states: readonly string[];
  /** States that the upstream enters by itself: no divergence when they are met after a call. */
  readonly external: readonly string[];
  /** state → action (tool name) → declared next state; an unlisted pair is illegal. */
  readonly transitions: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** An entity that a write may change besides its own. */
export interface TouchedEntity {
  readonly entity: EntityPlan;
  /** A rule, an id, a table or the request of the tool reads what is observed of it. */
  readonly observed: boolean;
  /** Its table lists the tool, which is then legal in no other state of it. */
  readonly governed: boolean;
}

/** In `idNeeds`: the id rests on a value bound by `last(…)`. No observation can have this name. */
export const lastResults = 'last';

/** A result that `bind` takes from an earlier call of the session. */
export interface LastResult {
  /** The name in scope of `bind`. */
  readonly name: string;
  readonly tool: string;
  /** The tools act on one entity type: on the same entity; else the latest of the session. */
  readonly sameEntity: boolean;
}

export interface ReadbackPlan {
  readonly tool: ToolPlan;
  readonly args: Readonly<Record<string, Expression<Json>>>;
  readonly committed: Expression<boolean>;
  readonly absent: Expression<boolean>;
  /** The answer to give, checked against this tool's own result schema; null keeps the answer that came. */
  readonly result: Expression<Json> | null;
  readonly settleAfterMs: number;
  readonly lagMs: number;
}

export interface ApprovalRule {
  readonly when: Expression<boolean>;
  readonly by: 'client' | 'application' | 'reviewer';
  readonly approvals: number;
  readonly expiresMs: number;
  /** What a person is shown, from the arguments alone. @throws EvaluationError */
  readonly summary: { readonly source: string; render(args: JsonObject): string } | null;
}

export interface ToolPlan {
  readonly name: string;
  readonly service: string;
  readonly version: string;
  /** `sha256:…` over the canonical form of the governed source of this tool and what it refers to. */
  readonly digest: string;
  readonly effect: 'none' | 'write' | 'irreversible';
  readonly purpose: string;
  readonly useWhen: string | null;
  readonly notWhen: string | null;
  readonly argsSchema: JsonObject;
  readonly resultSchema: JsonObject;
  readonly examples: readonly { args: JsonObject; why: string | null }[];
  /** What a model might propose and should not; shown to it, never executed. */
  readonly counterexamples: readonly { args: JsonObject; why: string }[];
  /** Closed at every level; unwraps JSON text where an object or array is required and a string is not allowed. */
  checkArguments(value: JsonObject): ArgumentsVerdict;
  /** Keeps what the result schema names and drops the rest; null when the value does not satisfy the schema. */
  admitResult(value: Json): { result: Json } | null;
  readonly bind: Readonly<Record<string, Expression<Json>>>;
  /** Bound to results of earlier calls of the session, known only once the call was looked up: no part of the fingerprint. */
  readonly bindLast: Readonly<Record<string, Expression<Json>>>;
  readonly lasts: readonly LastResult[];
  /** Another tool binds its results: what it commits is kept at hand for the session. */
  readonly remembered: boolean;
  /** Another tool names it as its undo. */
  readonly undoes: boolean;
  /** Predicates over `args` alone: answered `invalid_arguments` before any observation. */
  readonly relations: readonly Predicate[];
  readonly preconditions: readonly Predicate[];
  readonly entity: EntityPlan | null;
  /** True when this read tool is itself what observes `entity`: its own answer is the observation. */
  readonly observesEntity: boolean;
  readonly touches: readonly TouchedEntity[];
  readonly observations: readonly ObservationPlan[];
  readonly lets: readonly { name: string; value: Expression<Json> }[];
  readonly expect: 'observed' | 'seen';
  readonly identity: {
    readonly scope: 'intent' | 'call' | 'session' | 'tenant';
    /** Null: all arguments. */
    readonly arguments: readonly string[] | null;
    readonly windowMs: number | null;
  };
  readonly repeatable: boolean;
  /** @throws EvaluationError */
  render(scope: Scope): RenderedRequest;
  readonly idempotency: { readonly windowMs: number } | null;
  /** Entity fields that a commit must leave as they were, as expressions over the entity's name. */
  readonly never: readonly Expression<Json>[];
  readonly errors: readonly ErrorRule[];
  readonly notFound: Expression<boolean> | null;
  readonly readback: ReadbackPlan | null;
  readonly verify: 'always' | 'on_ambiguity';
  readonly retry: { readonly attempts: number; readonly elapsedMs: number };
  readonly approvals: readonly ApprovalRule[];
  readonly async: { readonly accepted: Expression<boolean>; readonly deadlineMs: number; readonly callback: CallbackPlan | null } | null;
  readonly compensate: { readonly tool: string; readonly args: Readonly<Record<string, Expression<Json>>> } | null;
  readonly redact: readonly string[];
  /** Paths of members of an error's body that may be told. */
  readonly public: readonly string[];
  /** Its results may carry injected text. */
  readonly untrusted: boolean;
  readonly partial: PartialPlan | null;
  readonly durability: 'strict' | 'relaxed';
  readonly upstream: UpstreamPlan;
}

/** Of a call about a list of items: lists in the order of the items, over the names of a sent call and `result`. */
export interface PartialPlan {
  readonly keys: Expression<Json>;
  readonly failed: Expression<Json>;
  /** What became of it is not known yet. */
  readonly unknown: Expression<Json> | null;
  /** It failed, and the same request under the same key may do it still, and nothing else. */
  readonly retry: Expression<Json> | null;
  /** Where the list is among the arguments, so that its items are known before anything is sent; null: the result alone tells them. */
  readonly at: readonly string[] | null;
}

/** Everything that one contracts folder compiles to, swapped whole. */
export interface Catalogue {
  readonly digest: string;
  readonly tools: ReadonlyMap<string, ToolPlan>;
  /** Cedar policy texts with the file each came from. */
  readonly policies: readonly { file: string; text: string }[];
  /** The governed source, canonical JSON, from which this catalogue compiles again after a restart. */
  readonly source: string;
  /** The word `untrusted` stands somewhere in it. Otherwise no session is marked by it, and nothing asks whether one is. */
  readonly tracksTrust: boolean;
}
