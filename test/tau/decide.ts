/** Decides one proposed write with nothing but its compiled plan and the policies, as the gate does, over a world in memory. */
import { EvaluationError, type Expression, type ObservationPlan, type Predicate, type Scope, type ToolPlan } from '../../src/contract/plan.js';
import type { Json, JsonObject, Principal } from '../../src/model.js';
import type { PolicyEngine } from '../../src/policy/decision.js';

export type Stage = 'arguments' | 'relations' | 'entity' | 'policy' | 'transition' | 'observations' | 'preconditions';
export type Verdict = { accepted: true } | { accepted: false; stage: Stage; code: string };

export interface World {
  policy: PolicyEngine;
  /** The user whom the conversation identified. */
  subject: string | null;
  /** What the service would answer; undefined: not found. */
  read(tool: string, args: JsonObject): Json | undefined;
}

class Refusal extends Error {
  constructor(readonly stage: Stage, readonly code: string) {
    super(`${stage}: ${code}`);
  }
}

export function decide(plan: ToolPlan, world: World, given: JsonObject): Verdict {
  try {
    const checked = plan.checkArguments(given);
    if (!checked.ok) throw new Refusal('arguments', checked.errors[0]?.code ?? '');
    const scope = askedScope(world, checked.args);
    hold('relations', plan.relations, scope);
    observeEntity(plan, world, scope);
    for (const observation of plan.observations) scope[observation.name] = at('observations', () => observe(observation, world, scope));
    checkTransition(plan, scope);
    hold('preconditions', plan.preconditions, scope);
    return { accepted: true };
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) throw thrown;
    return { accepted: false, stage: thrown.stage, code: thrown.code };
  }
}

/** One read by an agent, as far as the contract decides it. Undefined: not found, or not for this subject. */
export function answer(plan: ToolPlan, world: World, given: JsonObject): Json | undefined {
  const checked = plan.checkArguments(given);
  if (!checked.ok) throw new Error(`the arguments of ${plan.name} are refused: ${JSON.stringify(checked.errors)}`);
  if (plan.entity && !allowed(plan, world, checked.args, plan.entity.name)) return undefined;
  return admitted(plan, world.read(plan.name, checked.args));
}

function askedScope({ subject }: World, args: JsonObject): Scope {
  return {
    args,
    bound: {},
    principal: { id: agent.id, tenant: agent.tenant, subject, roles: agent.roles },
    subject,
    session: { id: 's' },
    now: new Date(),
  };
}

const agent: Principal = {
  tenant: 'store',
  id: 'agent',
  roles: ['agent'],
  subject: null,
  purposes: [],
  tools: '*',
  grants: { assertSubject: true, ownKeys: false },
};

/** The entity is observed, and policy asked about it, before anything else is looked at. */
function observeEntity(plan: ToolPlan, world: World, scope: Scope): void {
  const { entity } = plan;
  if (!entity) throw new Error(`${plan.name} acts on no entity`);
  scope['bound'] = at('entity', () => evaluated(plan.bind, scope));
  const seen = at('entity', () => observe(entity.observation!, world, scope));
  scope[entity.name] = seen;
  const id = at('entity', () => entity.id.evaluate(scope));
  const tool = { type: 'Tool', id: plan.name, attributes: { effect: plan.effect } };
  const resource = { type: entity.name, id, attributes: seen };
  for (const [asked, args] of [[tool, {}], [resource, scope.args ?? {}]] as const) {
    if (!permits(world, plan.name, asked, args)) throw new Refusal('policy', 'DENIED');
  }
}

function allowed(plan: ToolPlan, world: World, args: JsonObject, type: string): boolean {
  const seen = world.read(plan.name, args);
  return permits(world, plan.name, { type, id: '', attributes: (seen ?? {}) as JsonObject }, args);
}

type Resource = Parameters<PolicyEngine['decide']>[0]['resource'];

function permits({ policy, subject }: World, action: string, resource: Resource, args: JsonObject): boolean {
  return policy.decide({ principal: { ...agent, subject }, subject, purpose: null, action, resource, args, untrusted: false }).allowed;
}

function checkTransition({ entity, name }: ToolPlan, scope: Scope): void {
  const { state, transitions } = entity ?? {};
  if (!state) return;
  const current = at('transition', () => state.evaluate(scope));
  if (transitions?.[current]?.[name] === undefined) throw new Refusal('transition', current);
}

function observe({ name, tool, each, args, version }: ObservationPlan, world: World, scope: Scope): JsonObject {
  if (!each) {
    const seen = admitted(tool, world.read(tool.name, evaluated(args, scope)));
    if (seen === undefined) throw new Refusal(version ? 'entity' : 'observations', 'NOT_FOUND');
    return { ...(seen as JsonObject), ...(version ? { version: '"1"' } : {}) };
  }
  const elements = [...new Set(each.list.evaluate(scope) as (string | number)[])];
  if (elements.length > each.max) throw new Refusal('observations', `${name}: ${elements.length} reads`);
  return Object.fromEntries(
    elements.flatMap((element) => {
      const seen = admitted(tool, world.read(tool.name, evaluated(args, { ...scope, [each.as]: element })));
      return seen === undefined ? [] : [[String(element), seen]];
    }),
  );
}

/** Held against the result schema of the tool that reads it: what the schema does not name, no expression can see. */
function admitted(tool: ToolPlan, seen: Json | undefined): Json | undefined {
  if (seen === undefined) return undefined;
  const kept = tool.admitResult(seen);
  if (!kept) throw new Error(`the result schema of ${tool.name} does not admit ${JSON.stringify(seen)}`);
  return kept.result;
}

function hold(stage: Stage, predicates: readonly Predicate[], scope: Scope): void {
  for (const { check, otherwise } of predicates) if (!at(stage, () => check.evaluate(scope))) throw new Refusal(stage, otherwise.code);
}

function evaluated(expressions: Readonly<Record<string, Expression<Json>>>, scope: Scope): JsonObject {
  return Object.fromEntries(Object.entries(expressions).map(([name, expression]) => [name, expression.evaluate(scope)]));
}

/** What cannot be evaluated refuses. */
function at<T>(stage: Stage, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw thrown instanceof EvaluationError ? new Refusal(stage, 'PREDICATE_ERROR') : thrown;
  }
}
