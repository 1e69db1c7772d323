/** Policies held against the schema that the contracts give (schema.ts), before any call is decided by them: Cedar's strict mode, and more. */
import { validate, type ValidationError } from '@cedar-policy/cedar-wasm/nodejs';
import type { CedarType, RecordType } from './cedar-type.js';
import { actionsNamed, actionsOf, footprintOf, pathsIn, resourceTypeOf } from './footprint.js';
import type { Policy, PolicyProblem } from './read.js';
import { cedarSchema, contextOf, nothing, type PolicySchema, type Question, toldApart } from './schema.js';

/**
 * `unknown`: a name that no contract has. `uncarried`: one that has no Cedar type. `type`: operands that do not fit. `unguarded`: an
 * optional attribute that is read without `has`. `never`: a policy that no request can match.
 */
export type StrictKind = 'unknown' | 'uncarried' | 'type' | 'unguarded' | 'never';
export interface StrictProblem extends PolicyProblem { kind: StrictKind }

/** Cedar goes through every action for every policy. Only where something is wrong has it to say so of each that it is wrong of. */
export function strictProblems(policies: readonly Policy[], schema: PolicySchema): StrictProblem[] {
  if (policies.length === 0) return [];
  const written = policies.map(({ json }) => json);
  const few = toldApart(schema, new Set(actionsNamed(written)), footprintOf(written).args);
  return problemsUnder(policies, few).length === 0 ? [] : problemsUnder(policies, schema);
}

function problemsUnder(policies: readonly Policy[], schema: PolicySchema): StrictProblem[] {
  const verdicts = (['tool', 'resource'] as const).map((question) => verdictsOf(policies, schema, question));
  return policies.flatMap((policy, index) => {
    const errors = verdicts.flatMap(({ errors: found }) => found.get(index) ?? []);
    const asked = [...errors.map((error) => judged(policy, error, schema)), ...neverThere(policy, schema)];
    if (asked.length > 0) return merged(asked);
    return verdicts.every(({ impossible }) => impossible.has(index)) ? [never(policy, schema)] : [];
  });
}

interface Verdicts { errors: Map<number, ValidationError['error'][]>; impossible: Set<number> }

/** Policies whose head is about the other kind of resource are not shown to it. */
function verdictsOf(policies: readonly Policy[], schema: PolicySchema, question: Question): Verdicts {
  const concerned = policies.map(({ json }) => {
    const type = resourceTypeOf(json);
    return type === null || (type === 'Tool') === (question === 'tool');
  });
  const answer = validate({
    validationSettings: { mode: 'strict' },
    schema: cedarSchema(schema, question) as never,
    policies: { staticPolicies: Object.fromEntries(policies.flatMap(({ text }, index) => (concerned[index] ? [[String(index), text]] : []))) },
  });
  if (answer.type === 'failure') throw new Error(`Cedar refuses the schema of the contracts: ${answer.errors[0]?.message}`);
  const errors = new Map<number, ValidationError['error'][]>();
  const impossible = new Set(policies.flatMap((_, index) => (concerned[index] ? [] : [index])));
  for (const { policyId, error } of answer.validationErrors) errors.set(Number(policyId), [...(errors.get(Number(policyId)) ?? []), error]);
  for (const { policyId, error } of answer.validationWarnings) {
    if (/policy is impossible/.test(error.message)) impossible.add(Number(policyId));
    // what looks like another letter, or turns the direction of the text
    else if (!/unable to find an applicable action/.test(error.message)) errors.set(Number(policyId), [...(errors.get(Number(policyId)) ?? []), error]);
  }
  return { errors, impossible };
}

function judged(policy: Policy, error: ValidationError['error'], schema: PolicySchema): StrictProblem {
  const said = error.message.replace(/^for policy `\d+`, /, '');
  const help = error.help === null || error.help === undefined ? '' : `; ${error.help.replace(/for policy `\d+`, /, '')}`;
  const place = { file: policy.file, ...policy.placeOf(error.sourceLocations?.[0]?.start ?? 0) };
  const [, path, entity, action] = /^attribute `(.+?)` (?:on entity type `(.+?)`|in context for Action::"(.+?)") not found/.exec(said) ?? [];
  if (path !== undefined) {
    const why = reasonFor(path.split('.'), entity === undefined ? contextOf(schema.actions.get(action ?? '')?.args ?? nothing) : shapeOf(schema, entity));
    if (why !== undefined) return { ...place, kind: 'uncarried', message: uncarried(path, why) };
    const other = entity === 'Tool' ? '; a policy that reads attributes of a resource says `resource is …` in its head' : '';
    return { ...place, kind: 'unknown', message: `${said}${help}${other}` };
  }
  const kind = /^unrecognized/.test(said) ? 'unknown' : /optional attribute/.test(said) ? 'unguarded' : 'type';
  return { ...place, kind, message: `${said}${help}` };
}

function uncarried(path: string, why: string): string {
  return `\`${path}\` is not passed to policies: ${why}`;
}

function shapeOf(schema: PolicySchema, type: string): RecordType {
  if (type === 'Principal') return schema.principal;
  return type === 'Tool' ? schema.tool : (schema.entities.get(type) ?? nothing);
}

/** Why a path is not there, where it was left out. */
function reasonFor(path: readonly string[], from: RecordType): string | undefined {
  const found = follow(path, from);
  return found === 'known' || found === 'unknown' ? undefined : found.leftOut;
}

function follow(path: readonly string[], from: CedarType): 'known' | 'unknown' | { leftOut: string } {
  const [name, ...rest] = path;
  if (name === undefined) return 'known';
  if (from.kind !== 'Record') return 'unknown';
  const member = from.members.get(name);
  const leftOut = from.leftOut.get(name);
  if (member) return follow(rest, member.type);
  return leftOut === undefined ? 'unknown' : { leftOut };
}

/** To Cedar `has` of an attribute that nothing has is simply false, and a `forbid` behind it is gone unnoticed. */
function neverThere(policy: Policy, schema: PolicySchema): StrictProblem[] {
  const worlds = worldsOf(policy, schema);
  if (worlds.length === 0) return [];
  return pathsIn(policy.json.conditions).filter(({ asked }) => asked).flatMap(({ path: [variable, ...path] }): StrictProblem[] => {
    const found = worlds.map((world) => follow(path, world[variable as keyof World] ?? nothing));
    if (path.length === 0 || variable === 'action' || found.includes('known')) return [];
    const name = path.join('.');
    const place = { file: policy.file, ...policy.placeOf(placeOfName(policy.text, path.at(-1) as string)) };
    const left = found.find((one) => typeof one === 'object');
    if (left) return [{ ...place, kind: 'uncarried', message: uncarried(name, left.leftOut) }];
    return [{ ...place, kind: 'unknown', message: `\`has ${path.at(-1)}\` is never true: nothing that this policy is asked about has \`${name}\`` }];
  });
}

type World = { principal: RecordType; resource: RecordType; context: RecordType };

/** What a policy can be asked about, by its head. */
function worldsOf({ json }: Policy, schema: PolicySchema): World[] {
  const named = actionsOf(json);
  const type = resourceTypeOf(json);
  return [...schema.actions].flatMap(([action, { args, entity }]): World[] => {
    if (named !== null && !named.includes(action)) return [];
    const { principal } = schema;
    const tool: World[] = type === null || type === 'Tool' ? [{ principal, resource: schema.tool, context: contextOf(nothing) }] : [];
    return entity !== null && (type === null || type === entity) ? [...tool, { principal, resource: shapeOf(schema, entity), context: contextOf(args) }] : tool;
  });
}

/** In bytes. The syntax tree has no places, so the text is searched, comments blanked out; 0 where it is written in another way. */
function placeOfName(text: string, name: string): number {
  const bare = text.replace(/\/\/.*$/gm, (comment) => ' '.repeat(comment.length));
  const at = new RegExp(`\\bhas\\s+"?[\\w.]*?${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\b`).exec(bare)?.index ?? 0;
  return Buffer.byteLength(text.slice(0, at));
}

function never(policy: Policy, schema: PolicySchema): StrictProblem {
  const { file, line, column } = policy;
  const why = worldsOf(policy, schema).length === 0
    ? 'no action that its head names is ever asked about such a resource'
    : 'its conditions are false for every request that the contracts admit';
  return { file, line, column, kind: 'never', message: `the policy can never apply: ${why}` };
}

/** The same thing said of many actions, once. */
function merged(problems: readonly StrictProblem[]): StrictProblem[] {
  const groups = new Map<string, StrictProblem[]>();
  for (const problem of problems) {
    const key = [problem.line, problem.column, problem.kind, problem.message.replace(/Action::"[^"]*"/, '')].join('\n');
    groups.set(key, [...(groups.get(key) ?? []), problem]);
  }
  return [...groups.values()].map((group) => {
    const [first] = group as [StrictProblem];
    const more = new Set(group.map(({ message }) => message)).size - 1;
    return more === 0 ? first : { ...first, message: `${first.message} (and so for ${more} more action${more === 1 ? '' : 's'})` };
  });
}
