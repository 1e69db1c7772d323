/**
 * Fresh state from its authoritative source. Reads only. First the entity, by which policy decides whether this caller may see it;
 * then, for one who may, what else the transition table and the preconditions need. Nothing about a hidden resource is worked out
 * or asked for, so that it costs what a missing one costs and cannot fail in a way of its own.
 */
import { EvaluationError, lastResults, type ObservationPlan, type ToolPlan } from '../contract/plan.js';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { JsonObject } from '../model.js';
import { hidden } from './authorize.js';
import { type AuthorizedCall, type FreshCall, type Observation, type ObservedCall, passed } from './calls.js';
import { entitiesOf, oncePerTool } from './entities.js';
import { identifyLate } from './late-entities.js';
import type { Parts } from './parts.js';
import { observeWave } from './observe-wave.js';
import { callScope } from './scope.js';

/** `guarded`: another effect is open on something that was not known before. */
export async function observe(parts: Parts, call: FreshCall, until: number): Promise<ObservedCall | Refusal | 'guarded'> {
  const seen = await gather(parts, call, sightOf(call.tool), until);
  if (seen === 'guarded' || typeof seen === 'object') return seen;
  return passed<FreshCall, ObservedCall>(call, { entityState: null, absent: seen === 'absent' });
}

declare const surveyed: unique symbol;
/** Everything that the verdict about the world rests on has been observed, within its freshness bound. */
export interface SurveyedCall extends AuthorizedCall {
  readonly [surveyed]: true;
  /** By key: of each entity whose table judges the call. */
  states: Record<string, string>;
}

export async function survey(parts: Parts, call: AuthorizedCall, until: number): Promise<SurveyedCall | Refusal | 'guarded'> {
  const plans = observationsOf(call.tool);
  const seen = await gather(parts, call, plans, until);
  if (seen === 'absent') return hidden(call);
  if (seen === 'guarded' || typeof seen === 'object') return seen;
  const unfit = unfitObservation(plans, call.observations);
  if (unfit) return unfit;
  const states: Record<string, string> = {};
  const scope = callScope(call);
  for (const { plan, key, governed } of call.entities) {
    if (!governed && plan !== call.tool.entity) continue;
    try {
      const state = plan.kept ? call.kept[key] : plan.state?.evaluate(scope);
      if (state !== undefined) states[key] = state;
    } catch (error) {
      if (!(error instanceof EvaluationError)) throw error;
      return refuse('PREDICATE_ERROR', `The state of this ${plan.name} could not be worked out.`);
    }
  }
  const { entity } = call.identity;
  return passed<AuthorizedCall, SurveyedCall>(Object.assign(call, { entityState: entity ? (states[entity.key] ?? null) : null }), { states });
}

const observationsOf = oncePerTool((tool: ToolPlan): ObservationPlan[] =>
  [...entitiesOf(tool).flatMap(({ entity, observed }) => (observed && entity.observation ? [entity.observation] : [])), ...tool.observations]);

/** What shows the tool's own entity, and what that rests on. */
const sightOf = oncePerTool((tool: ToolPlan): ObservationPlan[] => {
  const { entity } = tool;
  if (!entity) return [];
  const all = observationsOf(tool);
  const wanted = new Set([entity.name]);
  for (const name of wanted) {
    const acting = entitiesOf(tool).find((each) => each.entity.name === name)?.entity;
    for (const need of [...(acting?.idNeeds ?? []), ...(all.find((plan) => plan.name === name)?.needs ?? [])]) wanted.add(need);
  }
  return all.filter(({ name }) => wanted.has(name));
});

/** Each once what it rests on is known and the guard key of its entity was looked up; what rests on nothing of each other together. */
async function gather(parts: Parts, call: FreshCall, plans: readonly ObservationPlan[], until: number): Promise<'gathered' | 'absent' | 'guarded' | Refusal> {
  for (;;) {
    const identified = await identifyLate(parts, call);
    if (identified !== 'identified') return identified;
    const known = (name: string): boolean => call.observations.some((observation) => observation.name === name);
    const unknown = (name: string): boolean => entitiesOf(call.tool).some(({ entity }) => entity.name === name && !call.entities.some(({ plan }) => plan === entity));
    const next = plans.filter(({ name, needs }) => !known(name) && !unknown(name) && needs.every((need) => need === lastResults || known(need)));
    if (next.length === 0) return 'gathered';
    if (call.unbound && next.some(({ args, each }) => [...Object.values(args), ...(each ? [each.list] : [])].some(({ names }) => names.has('bound')))) return call.unbound;
    const seen = await observeWave(parts, next, callScope(call), until);
    if (seen === 'absent' || isRefusal(seen)) return seen;
    call.observations.push(...seen.map((observation) => withKeptState(call, observation)));
  }
}

/** It stood in line since it observed: what it saw may have changed. */
export function outdated(call: AuthorizedCall): boolean {
  return observationsOf(call.tool).some(({ name, maxAgeMs }) => call.observations.some((seen) => seen.name === name && performance.now() - seen.at > maxAgeMs));
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

/** What the gateway keeps of an entity belongs to it like what is observed. */
export function withKeptState(call: FreshCall, observation: Observation): Observation {
  const kept = call.entities.find(({ plan }) => plan.kept && plan.observation?.name === observation.name);
  return kept ? { ...observation, value: { ...observation.value, state: call.kept[kept.key] as string } } : observation;
}

/** As expressions of a read-back will name them, kept with the operation. */
export function byName(observations: Observation[]): JsonObject {
  return Object.fromEntries(observations.map(({ name, value }) => [name, value]));
}
