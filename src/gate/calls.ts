/**
 * What each step of the path hands to the next (semantics.md section 2). A step takes exactly what the one before it returns,
 * so that a step that was skipped does not compile.
 */
import type { ApprovalRule, EntityPlan, ToolPlan } from '../contract/plan.js';
import type { Refusal } from '../errors.js';
import type { Json, JsonObject, Principal } from '../model.js';
import type { Served } from './served.js';
import type { Found } from './ports.js';

/** The members of a proposal around its arguments (protocol.md, "Proposing a call"). */
export interface Envelope {
  sessionId: string;
  /** '' where there is none. */
  turnId: string;
  intentId: string;
  /** As the caller gave it; minted when it was absent or empty. */
  callId: string;
  /** Nothing identifies it, so it cannot come again. */
  callIdMinted: boolean;
  /** What identifies the call within session and turn: its id, or what its place in a turn says. */
  name: Json;
  /** The name of the first call of its turn that means the same effect; its own where there is none. */
  sameAs: Json;
  occurrence: number;
  expectedVersion: string | null;
  idempotencyKey: string | null;
  purpose: string;
  subject: string;
  /** A person ordered it as the undo of an effect. */
  undoes?: OrderedUndo;
}

/** The undo that a contract names, ordered from a review: whose effect it takes back, and why. */
export interface OrderedUndo {
  operation: string;
  /** Of the effect. */
  principal: string;
  subject: string;
  effectReceipt: string | null;
  review: string;
  because: string;
}

/** What being part of a turn means for a call. */
export interface TurnContext {
  /** What identifies it within session and turn. Null: nothing does. */
  name: Json;
  /** The name of the first write of the turn that means the same: together they are one effect, also where `identity.scope` is `call`. */
  sameAs: Json;
  /** The turn was cut, and why. */
  cut: string | null;
}

/** One well-formed call of an allowlisted tool by somebody who may name this purpose and subject. */
export interface ParsedCall {
  /** The contracts and policies that this call is decided by, whatever is loaded meanwhile. */
  served: Served;
  principal: Principal;
  envelope: Envelope;
  tool: ToolPlan;
  given: JsonObject;
}

/** Its arguments satisfy the schema and each other; what is bound to the principal is bound. */
export interface ShapedCall extends ParsedCall {
  args: JsonObject;
  bound: JsonObject;
  repaired: string[];
  identity: CallIdentities;
}

/** An entity that a call is on or may change. */
export interface ActedEntity {
  plan: EntityPlan;
  id: string;
  /** `order:O-417`: its guard key, and its name in answers. */
  key: string;
  /** The tool is legal only where the entity's table says so. */
  governed: boolean;
}

export interface CallIdentities {
  /** Null for a read, whose operation identity is its call identity. */
  callKey: Buffer | null;
  fingerprint: Buffer;
  operation: Buffer;
  /** Of the occurrence before this one, which must have committed; null for a first. */
  previousOccurrence: Buffer | null;
  /** The operation that this call takes back, where its contract offered exactly this call as the undo. */
  undoes?: string;
  /** True where the application's own key names the operation. */
  ownKey: boolean;
  /** Those that the call itself tells. Sorted; empty for a read. */
  guardKeys: readonly string[];
  /** On what a write waits in line; null for a read. */
  queue: string | null;
  /** Those that the call itself tells. */
  entities: readonly ActedEntity[];
  /** Of a write about a list, where its arguments tell the items: what each means, by its key. */
  items: readonly { key: string; identity: string }[];
  /** `order:O-417`, where the tool has an entity; null until its id is known. */
  entity: { type: string; id: string; key: string } | null;
}

declare const permitted: unique symbol;
/** Policy allows this principal to use this tool for this purpose at all. */
export interface PermittedCall extends ShapedCall { readonly [permitted]: true; toolPolicies: string[] }

/** Nothing answers it yet, so it is a new proposal: this is the generation that it would become. */
export interface FreshCall extends PermittedCall {
  generation: number;
  /** Of the operation that it would become. */
  operationId: string;
  upstreamKey: string;
  afterCommitted: boolean;
  /** What the call identity stood for before, if anything. */
  previousOperation: string | null;
  seenVersion: Found['seenVersion'];
  untrusted: Found['untrusted'];
  guarded: Found['guarded'];
  /** Known so far; the rest follows from what is observed and bound. */
  entities: readonly ActedEntity[];
  /** How often each guard key had been held when it was looked up, which was before anything of its entity was observed. */
  guards: readonly { key: string; epoch: number }[];
  /** By key: the states that the gateway keeps, looked up with the guards. */
  kept: Readonly<Record<string, string>>;
  /** Values from earlier results were looked for: they are among `bound`, or `unbound` says why not. */
  resultsBound: boolean;
  /** A verdict about the world, told where it is its turn. */
  unbound: Refusal | null;
  observations: Observation[];
  session: Found['session'];
  /** For a read: the newest committed write of its session. */
  unchangedSince: string;
}

export interface Observation {
  name: string;
  tool: string;
  value: JsonObject;
  version: string | null;
  /** On the clock of `performance.now()`. */
  at: number;
  ms: number;
}

/** `absent`: its entity does not exist at the upstream; authorize answers for it, so that hidden and missing look alike. */
export interface ObservedCall extends FreshCall {
  entityState: string | null;
  absent: boolean;
}

declare const authorized: unique symbol;
/** Policy allows this action on this resource with these arguments. */
export interface AuthorizedCall extends ObservedCall { readonly [authorized]: true; resourcePolicies: string[] }

declare const admitted: unique symbol;
/** Legal in the present state, on the present version, with every precondition true: only this may be executed. */
export interface AdmittedCall extends AuthorizedCall {
  readonly [admitted]: true;
  /** Declared next state of the entity, where it has a transition table. */
  nextState: string | null;
  /** What has to be approved before it is sent; null: nothing. */
  approval: ApprovalRule | null;
}

/**
 * A call at its beginning. All that the steps will find has its place from the start: an object that grows past some twenty members
 * becomes a table in V8, slow to read and at ten times the memory.
 */
export function begun({ served, principal, envelope, tool, given }: ParsedCall): ParsedCall {
  const call: ParsedCall & Record<Exclude<FoundLater, symbol>, undefined> = {
    served, principal, envelope, tool, given,
    args: undefined, bound: undefined, repaired: undefined, identity: undefined, toolPolicies: undefined,
    generation: undefined, operationId: undefined, upstreamKey: undefined, afterCommitted: undefined, previousOperation: undefined, seenVersion: undefined,
    untrusted: undefined, guarded: undefined, entities: undefined, guards: undefined, kept: undefined, resultsBound: undefined, unbound: undefined,
    observations: undefined, session: undefined, unchangedSince: undefined, entityState: undefined, absent: undefined, resourcePolicies: undefined,
    states: undefined, nextState: undefined, approval: undefined,
  };
  return call;
}

type FoundLater = Exclude<keyof AdmittedCall, keyof ParsedCall> | 'states';

/** The one place that marks a call as having passed a check; only the stage that made the check calls it. */
export function passed<From extends object, To extends From>(call: From, found: Omit<To, keyof From | symbol>): To {
  return Object.assign(call, found) as unknown as To;
}
