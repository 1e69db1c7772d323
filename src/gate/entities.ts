/** The entities that a call is on or may change: which of them are known by now, and in what state. No I/O. */
import type { EntityPlan, Scope, ToolPlan } from '../contract/plan.js';
import type { ActedEntity } from './calls.js';
import type { EntityMove } from './ports.js';
import type { Run } from './run.js';

interface Acting {
  entity: EntityPlan;
  observed: boolean;
  governed: boolean;
}

/** The tool's own first. */
export const entitiesOf = oncePerTool(({ entity, effect, touches }): readonly Acting[] =>
  (entity ? [{ entity, observed: entity.observation !== null, governed: effect !== 'none' && entity.states.length > 0 }, ...touches] : touches));

/** What a plan alone tells is worked out at its first call. */
export function oncePerTool<T extends object>(work: (tool: ToolPlan) => T): (tool: ToolPlan) => T {
  const known = new WeakMap<ToolPlan, T>();
  return (tool) => {
    const found = known.get(tool) ?? work(tool);
    known.set(tool, found);
    return found;
  };
}

/** Those of which all is `known` that their ids rest on, apart from `already`. @throws EvaluationError */
export function identifiable(tool: ToolPlan, scope: Scope, known: (need: string) => boolean, already: readonly ActedEntity[] = []): ActedEntity[] {
  const all = entitiesOf(tool);
  if (all.length === already.length) return [];
  return all.flatMap(({ entity: plan, governed }) => {
    if (already.some((each) => each.plan === plan) || !plan.idNeeds.every(known)) return [];
    const id = plan.id.evaluate(scope);
    return [{ plan, governed, id, key: entityKey(plan.name, id) }];
  });
}

/** `order:O-417`. */
export function entityKey(type: string, id: string): string {
  return `${type}:${id}`;
}

/** Its own entity, once it is known. */
export function ownEntity(tool: ToolPlan, entities: readonly ActedEntity[]): { type: string; id: string; key: string } | null {
  const own = entities.find(({ plan }) => plan === tool.entity);
  return own ? { type: own.plan.name, id: own.id, key: own.key } : null;
}

/** What a commit makes of the states that the gateway keeps, by the contract under which the operation began. */
export function keptMoves({ tool, dossier }: Run): EntityMove[] {
  return (dossier.baseline.kept ?? []).flatMap(({ type, key, state }) => {
    const plan = entitiesOf(tool).find(({ entity }) => entity.name === type)?.entity;
    const to = plan?.transitions[state]?.[tool.name];
    return plan && to !== undefined ? [{ service: plan.service, entity: key, from: state, to }] : [];
  });
}
