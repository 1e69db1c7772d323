/**
 * Fresh state from its authoritative source. Reads only. First the entity, by which policy decides whether this caller may see it;
 * then, for one who may, what else the transition table and the preconditions need. Nothing about a hidden resource is worked out
 * or asked for, so that it costs what a missing one costs and cannot fail in a way of its own.
 */
import { EvaluationError, type ObservationPlan, type Scope } from '../contract/plan.js';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { JsonObject } from '../model.js';
import { hidden } from './authorize.js';
import { type AuthorizedCall, type FreshCall, type Observation, type ObservedCall, passed } from './calls.js';
import type { Parts } from './parts.js';
import { asObject, type ReadOutcome, readUpstream } from './read.js';
import { callScope, evaluateAll, readScope } from './scope.js';

export async function observe(parts: Parts, call: FreshCall, until: number): Promise<ObservedCall | Refusal> {
  const { entity } = call.tool;
  const observed = entity ? await observeOne(parts, call, entity.observation, [], until) : undefined;
  if (observed !== undefined && observed !== 'absent' && isRefusal(observed)) return observed;
  const absent = observed === 'absent';
  return passed<FreshCall, ObservedCall>(call, { observations: observed === undefined || absent ? [] : [observed], entityState: null, absent });
}

declare const surveyed: unique symbol;
/** Everything that the verdict about the world rests on has been observed, within its freshness bound. */
export interface SurveyedCall extends AuthorizedCall { readonly [surveyed]: true }

export async function survey(parts: Parts, call: AuthorizedCall, until: number): Promise<SurveyedCall | Refusal> {
  const { entity, observations: others } = call.tool;
  const observations = [...call.observations];
  for (const plan of others) {
    const observed = await observeOne(parts, call, plan, observations, until);
    if (observed === 'absent') return hidden(call);
    if (isRefusal(observed)) return observed;
    observations.push(observed);
  }
  const unfit = unfitObservation([...(entity ? [entity.observation] : []), ...others], observations);
  if (unfit) return unfit;
  try {
    const entityState = entity?.state?.evaluate(callScope({ ...call, observations })) ?? null;
    return Object.assign(passed<AuthorizedCall, SurveyedCall>(call, {}), { observations, entityState });
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return refuse('PREDICATE_ERROR', `The state of this ${entity?.name ?? 'resource'} could not be worked out.`);
  }
}

/** A slow source, or a slow one after it: what was seen is older than the contract allows, and may not be decided on. */
function unfitObservation(plans: readonly ObservationPlan[], observations: readonly Observation[]): Refusal | undefined {
  for (const plan of plans) {
    const seen = observations.find(({ name }) => name === plan.name);
    if (!seen) continue;
    if (plan.version && seen.version === null) return refuse('OBSERVATION_FAILED', `The version of \`${plan.name}\` was not given.`);
    if (performance.now() - seen.at > plan.maxAgeMs) {
      return refuse('OBSERVATION_FAILED', `\`${plan.name}\` was read too slowly to be fresh. Nothing was written.`);
    }
  }
  return undefined;
}

async function observeOne(
  parts: Parts, call: FreshCall, plan: ObservationPlan, before: Observation[], until: number,
): Promise<Observation | 'absent' | Refusal> {
  const scope = callScope({ ...call, observations: before });
  try {
    const args = evaluateAll(plan.args, scope);
    const started = performance.now();
    const { outcome } = await readUpstream(parts, plan.tool, readScope(scope, plan.tool, args), until);
    if (outcome.kind !== 'read') return outcome.kind === 'not_found' ? 'absent' : unread(plan, outcome);
    const version = plan.version ? versionOf(plan, { ...scope, args }, outcome) : null;
    return {
      name: plan.name, tool: plan.tool.name, version, at: started, ms: Math.round((performance.now() - started) * 10) / 10,
      value: { ...asObject(outcome.result), ...(version === null ? {} : { version }) },
    };
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error;
    return refuse('PREDICATE_ERROR', `The observation \`${plan.name}\` could not be asked for.`);
  }
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
