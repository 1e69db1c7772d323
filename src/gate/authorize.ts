/**
 * Stage 3, authorize: may this principal use the tool at all, and later this action on this resource. Decisions are pure.
 *
 * A resource out of sight and one that does not exist are answered by the same words after the same work: for a missing one policy is
 * asked about an empty resource, so that neither body nor time tells them apart.
 */
import type { ToolPlan } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';
import type { JsonObject, Principal } from '../model.js';
import type { PolicyDecision, PolicyEngine } from '../policy/decision.js';
import { type AuthorizedCall, type ObservedCall, passed, type PermittedCall, type ShapedCall } from './calls.js';
import { type Resource, resourceOf } from './resource.js';

/** A refusal by policy, with what decided it, for the decision receipt alone. */
export type Denial = Refusal & { denied: PolicyDecision };

interface Asking { principal: Principal; envelope: { subject: string; purpose: string } }

export function decideTool(policy: PolicyEngine, call: Asking, tool: ToolPlan): PolicyDecision {
  const { principal, envelope } = call;
  return policy.decide({
    principal, subject: envelope.subject || null, purpose: envelope.purpose || null, action: tool.name,
    resource: { type: 'Tool', id: tool.name, attributes: { effect: tool.effect } }, args: {},
  });
}

export function authorizeTool(policy: PolicyEngine, call: ShapedCall): PermittedCall | Denial {
  const decision = decideTool(policy, call, call.tool);
  if (!decision.allowed) return { ...refuse('FORBIDDEN', `Policy does not allow \`${call.tool.name}\` for this purpose.`), denied: decision };
  return passed<ShapedCall, PermittedCall>(call, { toolPolicies: decision.determining });
}

export function decideResource(policy: PolicyEngine, call: Asking & { args: JsonObject }, action: string, resource: Resource): PolicyDecision {
  const { principal, envelope, args } = call;
  return policy.decide({ principal, subject: envelope.subject || null, purpose: envelope.purpose || null, action, resource, args });
}

export function authorizeResource(policy: PolicyEngine, call: ObservedCall): AuthorizedCall | Refusal | Denial {
  const { tool } = call;
  const resource = resourceOf(call);
  if (!resource || !tool.entity) {
    return call.absent ? hidden(call) : passed<ObservedCall, AuthorizedCall>(call, { resourcePolicies: [] });
  }
  const decision = decideResource(policy, call, tool.name, resource);
  if (decision.allowed && !call.absent) return passed<ObservedCall, AuthorizedCall>(call, { resourcePolicies: decision.determining });
  const reader = tool.entity.observation.tool.name;
  const mayRead = reader !== tool.name && decideResource(policy, { ...call, args: {} }, reader, resource).allowed;
  const refusal = mayRead && !call.absent
    ? refuse('FORBIDDEN', `Policy does not allow \`${tool.name}\` on this ${resource.type} with these arguments.`)
    : hidden(call);
  return { ...refusal, denied: decision };
}

/** The one answer for what does not exist and for what this caller may not see. */
export function hidden(call: Pick<ShapedCall, 'identity'>): Refusal {
  return refuse('NOT_FOUND', `There is no such ${call.identity.entity?.type ?? 'resource'} for this caller.`);
}

/** Actions of a state that this caller may use: on its list, and permitted by policy. */
export function usableActions(policy: PolicyEngine, tools: ReadonlyMap<string, ToolPlan>, call: ShapedCall, state: string): string[] {
  const { principal, tool } = call;
  return Object.keys(tool.entity?.transitions[state] ?? {}).filter((action) => {
    const plan = tools.get(action);
    return plan !== undefined && (principal.tools === '*' || principal.tools.includes(action)) && decideTool(policy, call, plan).allowed;
  });
}
