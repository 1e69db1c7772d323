/**
 * Fresh state from its authoritative source. Reads only. First the entity, by which policy decides whether this caller may see it;
 * then, for one who may, what else the transition table and the preconditions need. Nothing about a hidden resource is worked out
 * or asked for, so that it costs what a missing one costs and cannot fail in a way of its own.
 */
import { EvaluationError, type ObservationPlan } from '../contract/plan.js';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { JsonObject } from '../model.js';
import { hidden } from './authorize.js';
import { type AuthorizedCall, type FreshCall, type Observation, type ObservedCall, passed } from './calls.js';
import type { Parts } from './parts.js';
import { observeWave } from './observe-wave.js';
import { callScope } from './scope.js';

export async function observe(parts: Parts, call: FreshCall, until: number): Promise<ObservedCall | Refusal> {
  const { entity } = call.tool;
  const seen = entity ? await observeWave(parts, [entity.observation], callScope(call), until) : [];
  if (seen !== 'absent' && isRefusal(seen)) return seen;
  return passed<FreshCall, ObservedCall>(call, { observations: seen === 'absent' ? [] : seen, entityState: null, absent: seen === 'absent' });
}

declare const surveyed: unique symbol;
/** Everything that the verdict about the world rests on has been observed, within its freshness bound. */
export interface SurveyedCall extends AuthorizedCall { readonly [surveyed]: true }

export async function survey(parts: Parts, call: AuthorizedCall, until: number): Promise<SurveyedCall | Refusal> {
  const { entity, observations: others } = call.tool;
  const observations = [...call.observations];
  for (const wave of new Set(others.map((plan) => plan.wave))) {
    const seen = await observeWave(parts, others.filter((plan) => plan.wave === wave), callScope({ ...call, observations }), until);
    if (seen === 'absent') return hidden(call);
    if (isRefusal(seen)) return seen;
    observations.push(...seen);
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

/** As expressions of a read-back will name them, kept with the operation. */
export function byName(observations: Observation[]): JsonObject {
  return Object.fromEntries(observations.map(({ name, value }) => [name, value]));
}
