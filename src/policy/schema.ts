/**
 * What policies are asked about, as a Cedar schema generated from the contracts.
 *
 *   Principal  { tenant, subject, roles }
 *   Tool       { effect }                          whether a tool may be used at all
 *   <entity>   what its observation gives, and     whether it may be used on this one
 *              the state that the gateway keeps
 *   Action     one per tool; context { purpose, untrusted, args }
 *
 * The two questions are put to the same policies with different contexts: no argument is known when the tool itself is in question, which
 * one schema cannot say. So there are two, and a policy has to be valid in both; what it says of the other kind of resource is false there
 * and not looked into.
 */
import type { ObservationPlan, ToolPlan } from '../contract/plan.js';
import { type CedarType, cedarBool, cedarString, cedarStrings, record, recordOf, type RecordType } from './cedar-type.js';

/** What is known of a tool for this. */
export type Governed = Pick<ToolPlan, 'name' | 'argsSchema' | 'entity'>;

export interface PolicySchema {
  readonly principal: RecordType;
  readonly tool: RecordType;
  readonly entities: ReadonlyMap<string, RecordType>;
  readonly actions: ReadonlyMap<string, ActionShape>;
}

interface ActionShape { readonly args: RecordType; readonly entity: string | null }

const principal = record({ tenant: cedarString, subject: cedarString, roles: cedarStrings });
const tool = record({ effect: cedarString });
export const nothing = record({});

export function policySchemaOf(tools: Iterable<Governed>): PolicySchema {
  const entities = new Map<string, RecordType>();
  const actions = new Map<string, ActionShape>();
  for (const { name, argsSchema, entity } of tools) {
    actions.set(name, { args: recordOf(argsSchema) ?? nothing, entity: entity?.name ?? null });
    if (!entity || !(entity.kept || entity.observation?.tool)) continue;
    const seen = observed(entity);
    const known = entities.get(entity.name);
    entities.set(entity.name, known && known !== seen ? both(known, seen) : seen);
  }
  return { principal, tool, entities, actions };
}

/** One observation is looked at once, however many tools act on its entity. */
const observations = new WeakMap<object, Map<boolean, RecordType>>();

function observed({ observation, kept }: NonNullable<Governed['entity']>): RecordType {
  const seen = observation?.tool ? shown(observation) : nothing;
  return kept ? withState(seen) : seen;
}

/** What the gateway keeps is always there, and replaces a member of that name. */
function withState({ members, leftOut }: RecordType): RecordType {
  const others = new Map(leftOut);
  others.delete('state');
  return { kind: 'Record', members: new Map([...members, ['state', { type: cedarString, required: true }]]), leftOut: others };
}

function shown(observation: ObservationPlan): RecordType {
  const { resultSchema } = observation.tool;
  const versioned = observation.version !== null;
  const known = observations.get(resultSchema) ?? new Map<boolean, RecordType>();
  observations.set(resultSchema, known);
  const found = known.get(versioned) ?? (versioned ? withVersion(resultOf(resultSchema)) : resultOf(resultSchema));
  known.set(versioned, found);
  return found;
}

/** A result that is no object is observed as `{ value }`; one that only sometimes is has nothing that a policy could rest on. */
function resultOf(schema: ToolPlan['resultSchema']): RecordType {
  const why = 'the observation need not be an object: its schema lacks `type: object`';
  const named = Object.keys((schema['properties'] ?? {}) as object).map((name) => [name, why] as const);
  return recordOf(schema) ?? record({}, new Map([['value', 'the observation is not an object'], ...named]));
}

/** The declared version replaces a member of that name, and an answer may come without it. */
function withVersion({ members, leftOut }: RecordType): RecordType {
  const others = new Map(leftOut);
  others.delete('version');
  return { kind: 'Record', members: new Map([...members, ['version', { type: cedarString, required: false }]]), leftOut: others };
}

/** Two services that call different things by one name: what both have in the same form. */
function both(one: RecordType, other: RecordType): RecordType {
  const members = new Map<string, { type: CedarType; required: boolean }>();
  const leftOut = new Map([...one.leftOut, ...other.leftOut]);
  for (const name of new Set([...one.members.keys(), ...other.members.keys()])) {
    const [a, b] = [one.members.get(name), other.members.get(name)];
    const type = a ?? b;
    if (!type || leftOut.has(name)) continue;
    if (a && b && JSON.stringify(cedarJson(a.type)) !== JSON.stringify(cedarJson(b.type))) leftOut.set(name, 'two services give it different types');
    else members.set(name, { type: type.type, required: (a?.required ?? false) && (b?.required ?? false) });
  }
  return { kind: 'Record', members, leftOut };
}

/**
 * Of tools that no policy can tell apart, one alone: tools that none names, on one entity, with the same types in what is read of their
 * arguments. A policy is valid for all of them or for none.
 */
export function toldApart(schema: PolicySchema, named: ReadonlySet<string>, read: ReadonlySet<string> | 'all'): PolicySchema {
  const kept = new Map<string, [string, ActionShape]>();
  for (const [name, { args, entity }] of schema.actions) {
    const seen = read === 'all' ? args : { ...args, members: new Map([...args.members].filter(([member]) => read.has(member))) };
    const key = JSON.stringify(named.has(name) ? [name] : [entity, cedarJson(seen)]);
    if (!kept.has(key)) kept.set(key, [name, { args: seen, entity }]);
  }
  return { ...schema, actions: new Map(kept.values()) };
}

/** The questions that are put to policies: whether a tool may be used at all, and whether on this resource. */
export type Question = 'tool' | 'resource';

export function contextOf(args: RecordType): RecordType {
  return record({ purpose: cedarString, untrusted: cedarBool, args });
}

/** In Cedar's JSON form. `either`: for editors, which take one schema; only `callgate check` knows that there are no arguments for a Tool. */
export function cedarSchema(schema: PolicySchema, question: Question | 'either'): object {
  const entityTypes = Object.fromEntries([['Principal', principal], ['Tool', tool], ...schema.entities].map(([name, shape]) => [name, { shape: cedarJson(shape as RecordType) }]));
  const actions = Object.fromEntries([...schema.actions].map(([name, { args, entity }]) => {
    const resourceTypes = [...(question === 'resource' ? [] : ['Tool']), ...(question === 'tool' || entity === null ? [] : [entity])];
    return [name, { appliesTo: { principalTypes: ['Principal'], resourceTypes, context: cedarJson(contextOf(question === 'tool' ? nothing : args)) } }];
  }));
  return { '': { entityTypes, actions } };
}

function cedarJson(type: CedarType): object {
  switch (type.kind) {
    case 'decimal': return { type: 'Extension', name: 'decimal' };
    case 'Bool': return { type: 'Boolean' };
    case 'Set': return { type: 'Set', element: cedarJson(type.element) };
    case 'Record': {
      const attributes = [...type.members].map(([name, { type: member, required }]) => [name, { ...cedarJson(member), ...(required ? {} : { required: false }) }]);
      return { type: 'Record', attributes: Object.fromEntries(attributes) };
    }
    default: return { type: type.kind };
  }
}
