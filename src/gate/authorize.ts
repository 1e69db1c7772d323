/**
 * Stage 3, authorize: may this principal use the tool at all, and later this action on this resource. Decisions are pure.
 *
 * A resource out of sight and one that does not exist are answered by the same words after the same work: for a missing one policy is
 * asked about an empty resource, so that neither body nor time tells them apart.
 */
import { type EntityPlan, EvaluationError, type ToolPlan } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';
import type { JsonObject, Principal } from '../model.js';
import { type Asking, type PolicyDecision, type PolicyEngine, resourceQuestion, toolQuestion } from '../policy/decision.js';
import { type AuthorizedCall, type ObservedCall, passed, type PermittedCall, type ShapedCall } from './calls.js';
import { isListed } from './listed.js';
import { type Resource, resourceOf } from './resource.js';
import { callScope, evaluateAll } from './scope.js';

/** A refusal by policy, with what decided it, for the decision receipt alone. */
export type Denial = Refusal & { denied: PolicyDecision & { question: 'tool' | 'resource' } };

/** `untrusted`: of the session, where the ledger was asked already. */
interface Asks { principal: Principal; envelope: { subject: string; purpose: string }; untrusted?: boolean }

function asking({ principal, envelope: { subject, purpose }, untrusted = false }: Asks): Asking {
  return { principal, subject, purpose, untrusted };
}

export function decideTool(policy: PolicyEngine, call: Asks, tool: ToolPlan): PolicyDecision {
  return policy.decide(toolQuestion(asking(call), tool));
}

export function authorizeTool(policy: PolicyEngine, call: ShapedCall): PermittedCall | Denial {
  const decision = policy.judge(toolQuestion(asking(call), call.tool));
  if (!decision.allowed) return { ...refuse('FORBIDDEN', `Policy does not allow \`${call.tool.name}\` for this purpose.`), denied: { ...decision, question: 'tool' } };
  return passed<ShapedCall, PermittedCall>(call, { toolPolicies: decision.determining });
}

export function decideResource(policy: PolicyEngine, call: Asks & { args: JsonObject }, action: string, resource: Resource): PolicyDecision {
  return policy.decide(resourceQuestion(asking(call), action, resource, call.args));
}

export function authorizeResource(policy: PolicyEngine, call: ObservedCall): AuthorizedCall | Refusal | Denial {
  const { tool } = call;
  const resource = resourceOf(call);
  if (!resource || !tool.entity) {
    return call.absent ? hidden(call) : passed<ObservedCall, AuthorizedCall>(call, { resourcePolicies: [] });
  }
  const decision = policy.judge(resourceQuestion(asking(call), tool.name, resource, call.args));
  if (decision.allowed && !call.absent) return passed<ObservedCall, AuthorizedCall>(call, { resourcePolicies: decision.determining });
  const reader = tool.entity.observation?.tool.name;
  const mayRead = reader !== tool.name && mayReadIt(policy, call, tool.entity, resource);
  const refusal = mayRead && !call.absent
    ? refuse('FORBIDDEN', `Policy does not allow \`${tool.name}\` on this ${resource.type} with these arguments.`)
    : hidden(call);
  return { ...refusal, denied: { ...decision, question: 'resource' } };
}

/** With the arguments that the entity was observed by. */
function mayReadIt(policy: PolicyEngine, call: ObservedCall, { observation }: EntityPlan, resource: Resource): boolean {
  if (!observation) return false;
  try {
    const args = evaluateAll(observation.args, callScope(call));
    return decideResource(policy, { ...call, args }, observation.tool.name, resource).allowed;
  } catch (error) {
    if (error instanceof EvaluationError) return false;
    throw error;
  }
}

/** The one answer for what does not exist and for what this caller may not see. */
export function hidden({ tool }: Pick<ShapedCall, 'tool'>): Refusal {
  return refuse('NOT_FOUND', `There is no such ${tool.entity?.name ?? 'resource'} for this caller.`);
}

/** Actions of a state that this caller may use: on its list, and permitted by policy. */
export function usableActions(
  policy: PolicyEngine, tools: ReadonlyMap<string, ToolPlan>, call: ShapedCall, state: string, entity = call.tool.entity,
): string[] {
  const { principal } = call;
  return Object.keys(entity?.transitions[state] ?? {}).filter((action) => {
    const plan = tools.get(action);
    return plan !== undefined && isListed(principal, action) && decideTool(policy, call, plan).allowed;
  });
}
