/** The names that a contract's expressions may use, from what is known of a call. `let` values are worked out inside the expressions. */
import type { Expression, Scope, ToolPlan } from '../contract/plan.js';
import type { Json, JsonObject, Principal } from '../model.js';
import type { Envelope, Observation } from './calls.js';

interface Known {
  principal: Principal;
  envelope: Envelope;
  args: JsonObject;
  bound: JsonObject;
  observations?: Observation[];
  upstreamKey?: string;
  untrusted?: boolean;
}

export function callScope({ principal, envelope, args, bound, observations, upstreamKey, untrusted }: Known): Scope {
  const { id, tenant, roles } = principal;
  const subject = envelope.subject || null;
  const session = untrusted === undefined ? { id: envelope.sessionId } : { id: envelope.sessionId, untrusted };
  const scope = scopeOf({ args, bound, principal: { id, tenant, subject, roles }, session, operation: upstreamKey === undefined ? undefined : { id: upstreamKey } });
  for (const { name, value } of observations ?? []) scope[name] = value;
  return scope;
}

type Asked = Required<Pick<Scope, 'args' | 'bound' | 'principal' | 'session'>> & Pick<Scope, 'operation'>;

/** Also what an answer tells later has its place: a name that is added to a copy costs as much as the copy several times over. */
export function scopeOf({ args, bound, principal, session, operation }: Asked): Scope {
  return {
    args, bound, principal, subject: principal.subject, session, operation, now: new Date(), status: undefined, headers: undefined, body: undefined, result: undefined,
  };
}

/** The scope of a read that the gateway makes on a call's behalf: its own arguments, and its own bindings to the same principal. @throws EvaluationError */
export function readScope(scope: Scope, tool: ToolPlan, args: JsonObject): Scope {
  const own = { ...scope, args };
  return { ...own, bound: evaluateAll(tool.bind, own) };
}

/** @throws EvaluationError */
export function evaluateAll(expressions: Readonly<Record<string, Expression<Json>>>, scope: Scope): JsonObject {
  return Object.fromEntries(Object.entries(expressions).map(([name, expression]) => [name, expression.evaluate(scope)]));
}
