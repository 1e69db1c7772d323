/** Fresh state from its authoritative source, for policy, the transition table and the preconditions. Reads only. */
import { EvaluationError, type ObservationPlan, type Scope } from '../contract/plan.js';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { JsonObject } from '../model.js';
import { type FreshCall, type Observation, type ObservedCall, passed } from './calls.js';
import type { Parts } from './parts.js';
import { asObject, type ReadOutcome, readUpstream } from './read.js';
import { callScope } from './scope.js';

export async function observe(parts: Parts, call: FreshCall, until: number): Promise<ObservedCall | Refusal> {
  const { entity } = call.tool;
  const plans = [...(entity ? [entity.observation] : []), ...call.tool.observations];
  const observations: Observation[] = [];
  let absent = false;
  for (const plan of plans) {
    const observed = await observeOne(parts, call, plan, observations, until);
    if (observed === 'absent') absent = true;
    else if (isRefusal(observed)) return observed;
    else observations.push(observed);
    if (absent) break;
  }
  let entityState: string | null = null;
  try {
    if (entity?.state && !absent) entityState = entity.state.evaluate(callScope({ ...call, observations }));
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return refuse('PREDICATE_ERROR', `The state of this ${entity?.name ?? 'resource'} could not be worked out.`);
  }
  return passed<FreshCall, ObservedCall>(call, { observations, entityState, absent });
}

async function observeOne(
  parts: Parts, call: FreshCall, plan: ObservationPlan, before: Observation[], until: number,
): Promise<Observation | 'absent' | Refusal> {
  const scope = callScope({ ...call, observations: before });
  let args: JsonObject;
  try {
    args = Object.fromEntries(Object.entries(plan.args).map(([name, expression]) => [name, expression.evaluate(scope)]));
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return refuse('PREDICATE_ERROR', `The observation \`${plan.name}\` could not be asked for.`);
  }
  const started = performance.now();
  const { outcome } = await readUpstream(parts, plan.tool, { ...scope, args }, until);
  if (outcome.kind !== 'read') return outcome.kind === 'not_found' ? 'absent' : unread(plan, outcome);
  const version = plan.version ? versionOf(plan, { ...scope, args }, outcome) : null;
  if (plan.version && version === null) return refuse('OBSERVATION_FAILED', `The version of \`${plan.name}\` was not given.`);
  return {
    name: plan.name, tool: plan.tool.name, version, at: started, ms: Math.round((performance.now() - started) * 10) / 10,
    value: { ...asObject(outcome.result), ...(version === null ? {} : { version }) },
  };
}

function versionOf(plan: ObservationPlan, scope: Scope, read: Extract<ReadOutcome, { kind: 'read' }>): string | null {
  try {
    return plan.version?.evaluate({ ...scope, status: read.status, headers: read.headers, body: read.result, result: read.result }) ?? null;
  } catch (error) {
    if (error instanceof EvaluationError) return null;
    throw error;
  }
}

function unread(plan: ObservationPlan, outcome: ReadOutcome): Refusal {
  if (outcome.kind === 'rate_limited') {
    return refuse('RATE_LIMITED', 'The service asked for a pause.', { retryAfterMs: outcome.retryAfterMs });
  }
  return refuse('OBSERVATION_FAILED', `\`${plan.name}\` could not be read. Nothing was written.`);
}

/** As expressions of a read-back will name them, kept with the operation. */
export function byName(observations: Observation[]): JsonObject {
  return Object.fromEntries(observations.map(({ name, value }) => [name, value]));
}
