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

export function callScope(known: Known): Scope {
  const { principal, envelope, untrusted, upstreamKey } = known;
  const scope: Scope = {
    args: known.args,
    bound: known.bound,
    principal: { id: principal.id, tenant: principal.tenant, subject: envelope.subject || null, roles: principal.roles },
    subject: envelope.subject || null,
    session: untrusted === undefined ? { id: envelope.sessionId } : { id: envelope.sessionId, untrusted },
    now: new Date(),
  };
  if (upstreamKey !== undefined) scope.operation = { id: upstreamKey };
  for (const { name, value } of known.observations ?? []) scope[name] = value;
  return scope;
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
