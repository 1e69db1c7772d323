/** The names that a contract's expressions may use, from what is known of a call. `let` values are worked out inside the expressions. */
import type { Scope } from '../contract/plan.js';
import type { JsonObject, Principal } from '../model.js';
import type { Envelope, Observation } from './calls.js';

interface Known {
  principal: Principal;
  envelope: Envelope;
  args: JsonObject;
  bound: JsonObject;
  observations?: Observation[];
  upstreamKey?: string;
}

export function callScope(known: Known): Scope {
  const { principal, envelope } = known;
  const scope: Scope = {
    args: known.args,
    bound: known.bound,
    principal: { id: principal.id, tenant: principal.tenant, subject: envelope.subject || null, roles: principal.roles },
    subject: envelope.subject || null,
    session: { id: envelope.sessionId },
    now: new Date(),
    ...(known.upstreamKey === undefined ? {} : { operation: { id: known.upstreamKey } }),
  };
  for (const { name, value } of known.observations ?? []) scope[name] = value;
  return scope;
}
