/**
 * What a policy was checked against is what it is asked about: were the two to differ, a policy that compiled could fail at run time, which
 * denies every call, or a `forbid` could look at another value than was meant. For all schemas of the language and all values that they admit.
 */
import { isAuthorized } from '@cedar-policy/cedar-wasm/nodejs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { schemaProblems } from '../../src/contract/schema-subset.js';
import { SchemaCompiler } from '../../src/contract/schemas.js';
import type { EntityPlan } from '../../src/contract/plan.js';
import type { JsonObject } from '../../src/model.js';
import { cedarCall, loadPolicies } from '../../src/policy/cedar.js';
import type { CedarType, RecordType } from '../../src/policy/cedar-type.js';
import type { PolicyRequest } from '../../src/policy/decision.js';
import { readPolicies } from '../../src/policy/read.js';
import { cedarSchema, contextOf, type Governed, policySchemaOf, type PolicySchema } from '../../src/policy/schema.js';
import { type StrictProblem, strictProblems } from '../../src/policy/strict.js';
import { argumentSchemas, guess, isEndless } from '../contract/views/random-schemas.js';
import { object, schemaOf } from './governed.js';

const usable = argumentSchemas.filter((schema) => schemaProblems(schema, 'args').length === 0 && !isEndless(schema));
const picks = fc.infiniteStream(fc.nat(1_000));

interface World { schema: PolicySchema; requests: PolicyRequest[] }

/** Each with something to ask: a world without would count as a run and show nothing. */
const worlds: fc.Arbitrary<World> = fc.tuple(usable, usable, picks, fc.boolean()).map(([args, result, stream, versioned]) => {
  const next = (bound: number): number => (stream.next().value as number) % bound;
  const checked = new SchemaCompiler().arguments(args, 'none');
  const admit = new SchemaCompiler().result(result);
  const schema = schemaOf({ act: { args: checked.schema, entity: 'thing' } }, { thing: result }, versioned ? ['thing'] : []);
  const requests = Array.from({ length: 12 }, () => {
    const [verdict, seen] = [checked.check(guess(args, args, next) as JsonObject), admit(guess(result, result, next))];
    if (!verdict.ok || !seen || typeof seen.result !== 'object' || seen.result === null || Array.isArray(seen.result)) return [];
    const { version: _, ...others } = seen.result;
    return [request(verdict.args, versioned ? { ...others, ...(next(2) === 0 ? {} : { version: '"7"' }) } : seen.result)];
  }).flat();
  return { schema, requests };
}).filter(({ requests }) => requests.length > 0);

function request(args: JsonObject, attributes: JsonObject): PolicyRequest {
  return {
    principal: { tenant: 'acme', id: 'bot', roles: ['agent'], subject: null, purposes: [], tools: '*', grants: { assertSubject: false, ownKeys: false } },
    subject: 'u-1', purpose: null, action: 'act', resource: { type: 'thing', id: 'T-1', attributes }, args, untrusted: true,
  };
}

const everything = { resourceId: true, resource: 'all', args: 'all' } as const;

test('every request is valid against the schema that policies are checked against', () => {
  let asked = 0;
  fc.assert(fc.property(worlds, (world) => {
    for (const one of world.requests) {
      const tool = { ...one, resource: { type: 'Tool', id: 'act', attributes: { effect: 'write' } }, args: {} };
      for (const [question, given] of [['resource', one], ['tool', tool]] as const) {
        const { preparsedPolicySetId: _, ...call } = cedarCall('unused', everything, given, world.schema);
        const answer = isAuthorized({
          ...call, schema: cedarSchema(world.schema, question) as never, validateRequest: true, policies: { staticPolicies: 'permit (principal, action, resource);' },
        });
        expect(answer).toMatchObject({ type: 'success', response: { decision: 'allow', diagnostics: { errors: [] } } });
        asked++;
      }
    }
  }), { numRuns: 100 });
  expect(asked).toBeGreaterThanOrEqual(200);
}, 60_000);

/** Everything that a policy can read, each read guarded where it may be absent. */
function conditions(variable: string, type: CedarType, value: (of: CedarType) => string): string[] {
  if (type.kind !== 'Record') return [comparison(variable, type, value)];
  return [...(type as RecordType).members].flatMap(([name, { type: member, required }]) => {
    const key = JSON.stringify(name);
    return conditions(`${variable}[${key}]`, member, value).map((one) => (required ? one : `(${variable} has ${key} && ${one})`));
  });
}

function comparison(left: string, type: CedarType, value: (of: CedarType) => string): string {
  switch (type.kind) {
    case 'Long': return `${left} + 1 > ${value(type)}`;
    case 'decimal': return `${left}.lessThan(${value(type)})`;
    case 'Set': return type.element.kind === 'Record' || type.element.kind === 'Set' ? `${left}.isEmpty()` : `${left}.contains(${value(type.element)})`;
    default: return `${left} == ${value(type)}`;
  }
}

const literals: Record<string, string> = { Long: '2', decimal: 'decimal("1.5")', String: '"O-1"', Bool: 'true' };

test('a policy that is valid in strict mode never fails when it is asked', () => {
  let decided = 0;
  fc.assert(fc.property(worlds, fc.constantFrom('permit', 'forbid'), (world, effect) => {
    const { args } = world.schema.actions.get('act') as { args: RecordType };
    const read = [
      ...conditions('context', contextOf(args), ({ kind }) => literals[kind] as string),
      ...conditions('resource', world.schema.entities.get('thing') as RecordType, ({ kind }) => literals[kind] as string),
    ];
    const text = read.map((condition) => `${effect} (principal, action, resource is thing) when { ${condition} };`).join('\n');
    const { policies } = readPolicies([{ file: 'p.cedar', text }]);
    expect(strictProblems(policies, world.schema)).toEqual([]);
    const engine = loadPolicies([{ file: 'p.cedar', text }], world.schema);
    for (const one of world.requests) {
      expect(engine.decide(one).errors).toEqual([]);
      decided++;
    }
  }), { numRuns: 100 });
  expect(decided).toBeGreaterThanOrEqual(100);
}, 60_000);

/** Tools that differ in what policies can see of them, and some that do not. */
const shapes: JsonObject[] = [
  object({ amount: { type: 'integer' } }), object({ amount: { type: 'integer' } }, ['amount']), object({ amount: { type: 'string' } }),
  object({ amount: { type: 'integer' }, note: { type: 'string' } }, ['note']), object({ amount: { type: ['string', 'integer'] } }), object({}),
];
const several = fc.array(fc.tuple(fc.constantFrom(...shapes), fc.constantFrom('thing', 'other', undefined)), { minLength: 1, maxLength: 8 });
const catalogues = several.map((tools) => schemaOf(
  Object.fromEntries(tools.map(([args, entity], n) => [`act_${n}`, { args, ...(entity ? { entity } : {}) }])),
  { thing: object({ owner: { type: 'string' } }, ['owner']), other: object({ owner: { type: 'integer' } }, ['owner']) },
));
const heads = fc.constantFrom(
  'principal, action, resource', 'principal, action, resource is thing', 'principal, action, resource is Tool', 'principal, action == Action::"act_0", resource',
  'principal, action in [Action::"act_0", Action::"act_2"], resource is thing',
);
const tests = fc.constantFrom(
  'context.args.amount > 3', 'context.args has amount && context.args.amount > 3', 'context.args has note', 'context.args.note == "a"',
  'context.args has nothing', 'context.args == context.args', 'context.untrusted', 'resource.owner == "a"', 'resource is thing && resource.owner == "a"',
  'action == Action::"act_1" && context.args.amount > 3', 'action != Action::"act_1"', 'action == Action::"act_9"', 'false',
);
const policyTexts = fc.array(fc.tuple(heads, tests).map(([head, test]) => `forbid (${head}) when { ${test} };`), { minLength: 1, maxLength: 2 });

/** In which order, and of which of several tools, Cedar says something is not always the same. */
function places(problems: readonly StrictProblem[]): string[] {
  return [...new Set(problems.map(({ file, line, column, kind }) => `${file}:${line}:${column} ${kind}`))].sort();
}

test('tools that no policy tells apart are checked as one, and nothing that is wrong with a policy is missed', () => {
  const seen = { wrong: 0, right: 0 };
  fc.assert(fc.property(catalogues, policyTexts, (schema, texts) => {
    const { policies } = readPolicies([{ file: 'p.cedar', text: texts.join('\n') }]);
    const told = strictProblems(policies, schema);
    // A policy that names every tool tells all of them apart.
    const names = [...schema.actions.keys()].map((name) => `Action::"${name}"`).join(', ');
    const naming = `forbid (principal, action in [${names}], resource) when { context.untrusted };`;
    const { policies: all } = readPolicies([{ file: 'p.cedar', text: texts.join('\n') }, { file: 'all.cedar', text: naming }]);
    expect(places(told)).toEqual(places(strictProblems(all, schema)));
    seen[told.length > 0 ? 'wrong' : 'right']++;
  }), { numRuns: 300 });
  expect(Math.min(seen.wrong, seen.right)).toBeGreaterThan(20);
}, 60_000);

test('a schema without a Cedar type is left out with its reason, and what is beside it is kept', () => {
  const result: JsonObject = {
    type: 'object',
    properties: {
      plain: { type: 'string' }, either: { type: ['string', 'integer'] }, loose: { anyOf: [{ type: 'string' }, { minLength: 3 }] }, any: { description: 'any' },
      map: { type: 'object', additionalProperties: { type: 'integer' } }, tuple: { type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'string' } },
      list: { type: 'array' }, lists: { type: 'array', items: { type: ['string', 'integer'] } }, self: { $ref: '#/properties/self' },
      nothing: { type: 'null' }, __entity: { type: 'string' }, deep: { type: 'object', properties: { kept: { type: 'integer' }, map: { type: 'object' } }, required: ['kept'] },
    },
    anyOf: [{ properties: { sometimes: { type: 'string' } } }, { required: ['plain'] }],
    required: ['plain', 'deep'],
  };
  const thing = schemaOf({ act: { entity: 'thing' } }, { thing: result }).entities.get('thing') as RecordType;
  expect([...thing.members.keys()]).toEqual(['plain', 'deep']);
  expect(Object.fromEntries(thing.leftOut)).toEqual({
    either: 'it may be integer or string', loose: expect.stringContaining('it may be'), any: expect.stringContaining('it may be'), map: 'its members are not named',
    tuple: 'its items are described by their position', list: 'its items are not described', lists: 'of its items it may be integer or string',
    self: expect.any(String), nothing: 'no value satisfies its schema', __entity: 'Cedar reserves its name', sometimes: 'only an alternative of the schema declares it',
  });
  const deep = thing.members.get('deep')!.type as RecordType;
  expect([[...deep.members.keys()], Object.fromEntries(deep.leftOut)]).toEqual([['kept'], { map: 'its members are not named' }]);
});

test('what two services call by one name has the attributes that both give in the same form', () => {
  const tool = (name: string, resultSchema: JsonObject): Governed => ({
    name, argsSchema: { type: 'object' }, entity: { name: 'thing', observation: { tool: { resultSchema }, version: null } } as unknown as EntityPlan,
  });
  const text: JsonObject = { type: 'string' };
  const { entities } = policySchemaOf([
    tool('a', object({ id: text, total: { type: 'integer' }, note: text }, ['id', 'total', 'note'])),
    tool('b', object({ id: text, total: text }, ['id', 'total'])),
  ]);
  const { members, leftOut } = entities.get('thing') as RecordType;
  expect([...members].map(([name, { required }]) => [name, required])).toEqual([['id', true], ['note', false]]);
  expect([...leftOut]).toEqual([['total', 'two services give it different types']]);
});
