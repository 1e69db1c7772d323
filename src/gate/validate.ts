/**
 * Stage 2, validate, in its two halves: the shape of the arguments (no I/O), and later the state of the world, once it has been
 * observed and the caller may see it.
 */
import { type ApprovalRule, type EntityPlan, EvaluationError, type Expression, type Predicate, type Scope, type ToolPlan } from '../contract/plan.js';
import { refuse, type Refusal } from '../errors.js';
import type { FieldError, } from '../model.js';
import { type AdmittedCall, type AuthorizedCall, type ParsedCall, passed, type ShapedCall } from './calls.js';
import { identifiable } from './entities.js';
import { identify } from './identity.js';
import type { SurveyedCall } from './observe.js';
import { predicateError } from './predicate-error.js';
import type { Progress } from './progress.js';
import { callScope, evaluateAll } from './scope.js';
import { unstorableText } from './unstorable.js';

export function validateShape(call: ParsedCall, progress: Progress): ShapedCall | Refusal {
  const { tool, envelope, principal } = call;
  const verdict = tool.checkArguments(call.given);
  if (!verdict.ok) return argumentsRefusal(verdict.errors);
  const { args, repaired } = verdict;
  progress.repaired = repaired;
  const unstorable = repaired.length > 0 ? unstorableText(args) : undefined; // unwrapping turns an escape into the character
  if (unstorable) return unstorable;
  const scope = callScope({ principal, envelope, args, bound: {} });
  for (const relation of tool.relations) {
    const refusal = judge(relation, scope, (error) =>
      refuse('RELATION_FAILED', `The arguments do not satisfy the rule \`${relation.id}\`.`, { errors: [error] }));
    if (refusal) return refusal;
  }
  if (envelope.occurrence > 1 && !tool.repeatable) {
    return refuse('OCCURRENCE_NOT_ALLOWED', `The contract of \`${tool.name}\` does not say \`repeatable: true\`.`);
  }
  try {
    const bound = evaluateAll(tool.bind, scope);
    const entities = identifiable(tool, { ...scope, bound }, () => false);
    return passed<ParsedCall, ShapedCall>(call, { args, bound, repaired, identity: identify({ principal, envelope, tool, args, bound, entities }) });
  } catch (error) {
    if (error instanceof EvaluationError) return predicateError('bind', error);
    throw error;
  }
}

function argumentsRefusal(errors: FieldError[]): Refusal {
  const [first] = errors;
  const where = first ? `, the first at \`${first.pointer || '/'}\`: ${first.message}` : '';
  return refuse('INVALID_ARGUMENTS', `${errors.length} argument${errors.length === 1 ? ' is' : 's are'} wrong${where}`, { errors });
}

/** Actions of a state that this caller may use; of the tool's own entity, or of another. */
export type LegalActions = (state: string, entity?: EntityPlan) => string[];

/** The tables first, then the version, then the preconditions in their order; the first that fails is the answer. */
export function validateWorld(call: SurveyedCall, legalActions: LegalActions): AdmittedCall | Refusal {
  const { tool } = call;
  const illegal = firstIllegal(call, legalActions);
  if (illegal) return illegal;
  if (call.unbound) return call.unbound;
  const stale = checkVersion(call);
  if (stale) return stale;
  const scope = callScope(call);
  for (const precondition of tool.preconditions) {
    const refusal = judge(precondition, scope, (error) =>
      refuse('PRECONDITION_FAILED', precondition.otherwise.message ?? `The precondition \`${precondition.id}\` does not hold.`, {
        code: precondition.otherwise.code, next: precondition.otherwise.next, errors: [error], ...stateMembers(call, legalActions),
      }));
    if (refusal) return refusal;
  }
  const nextState = tool.effect === 'none' || call.entityState === null ? null : (tool.entity?.transitions[call.entityState]?.[tool.name] ?? null);
  return passed<AuthorizedCall, AdmittedCall>(call, { nextState, approval: approvalNeeded(tool, scope) });
}

function firstIllegal({ tool, entities, states }: SurveyedCall, legalActions: LegalActions): Refusal | undefined {
  for (const { plan, key, governed } of entities) {
    const state = states[key];
    if (!governed || (state !== undefined && plan.transitions[state]?.[tool.name] !== undefined)) continue;
    return refuse('TRANSITION_ERROR', `\`${tool.name}\` is not legal while \`${key}\` is ${state ?? 'in an unknown state'}.`,
      state === undefined ? {} : { states: { [key]: state }, legalActions: legalActions(state, plan) });
  }
  return undefined;
}

function stateMembers(call: AuthorizedCall, legalActions: LegalActions): Pick<Refusal, 'states' | 'legalActions'> {
  const { entityState, identity } = call;
  if (entityState === null || !identity.entity) return {};
  return { states: { [identity.entity.key]: entityState }, legalActions: legalActions(entityState) };
}

/** semantics.md section 7: the call's own expectation, else what this session was last told, else (`observed`) what was just seen. */
function checkVersion(call: AuthorizedCall): Refusal | undefined {
  const { tool, envelope } = call;
  const observed = call.observations.find((observation) => observation.name === tool.entity?.name)?.version ?? null;
  if (observed === null || tool.effect === 'none') return undefined;
  const expected = envelope.expectedVersion ?? call.seenVersion ?? (tool.expect === 'observed' ? observed : null);
  if (expected === null) return refuse('VERSION_REQUIRED', `\`${call.identity.entity?.key ?? ''}\` must be read before \`${tool.name}\` may change it.`);
  if (bareVersion(expected) === bareVersion(observed)) return undefined;
  return refuse('VERSION_CONFLICT', `\`${call.identity.entity?.key ?? ''}\` is at version ${bareVersion(observed)}; the proposal was made on version ${bareVersion(expected)}.`);
}

/** An entity tag without its quotes and weakness mark: callers quote `"7"`, `W/"7"` and `7` alike. */
function bareVersion(version: string): string {
  return version.replace(/^W\//, '').replace(/^"(.*)"$/, '$1');
}

function judge(predicate: Predicate, scope: Scope, otherwise: (error: FieldError) => Refusal): Refusal | undefined {
  try {
    if (predicate.check.evaluate(scope)) return undefined;
  } catch (error) {
    if (error instanceof EvaluationError) return predicateError(predicate.id, error);
    throw error;
  }
  return otherwise({ pointer: '', code: predicate.otherwise.code, message: `The rule \`${predicate.id}\` is false.`, expected: predicate.check.source });
}

const strictness: Record<ApprovalRule['by'], number> = { client: 0, application: 1, reviewer: 2 };

/** Every rule that applies is weighed, and the strictest replaces the others: by whom, then by how many, then for how long. */
function approvalNeeded(tool: ToolPlan, scope: Scope): ApprovalRule | null {
  const strictest = tool.approvals.filter(({ when }) => applies(when, scope)).sort((a, b) =>
    strictness[b.by] - strictness[a.by] || b.approvals - a.approvals || a.expiresMs - b.expiresMs);
  return strictest[0] ?? null;
}

/** A rule that cannot be evaluated is taken to apply. */
function applies(when: Expression<boolean>, scope: Scope): boolean {
  try {
    return when.evaluate(scope);
  } catch (error) {
    if (error instanceof EvaluationError) return true;
    throw error;
  }
}
