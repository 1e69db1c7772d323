/** Schemas of the contract language and values that may fit them, for properties over all of it. */
import fc from 'fast-check';
import { resolve } from '../../../src/contract/schema-subset.js';
import type { Json, JsonObject } from '../../../src/model.js';

const names = ['a', 'b', 'c', 'kind'];
const name = fc.constantFrom(...names);
const small = fc.integer({ min: 0, max: 3 });
const text = fc.constantFrom('', 'a', 'O-1', 'EUR', '2026-01-02');
const scalar: fc.Arbitrary<Json> = fc.oneof(text, fc.integer({ min: -2, max: 3 }), fc.constantFrom(0.5, true, false, null));

function merged(...parts: fc.Arbitrary<JsonObject>[]): fc.Arbitrary<JsonObject> {
  return fc.tuple(...parts).map((all) => Object.assign({}, ...all) as JsonObject);
}

const sometimes = (part: fc.Arbitrary<JsonObject>, weight = 1): fc.Arbitrary<JsonObject> =>
  fc.oneof({ arbitrary: fc.constant({} as JsonObject), weight: 3 }, { arbitrary: part, weight });

const texts = merged(
  fc.constant({ type: 'string' }),
  sometimes(small.map((maxLength) => ({ maxLength }))),
  sometimes(small.map((minLength) => ({ minLength }))),
  sometimes(fc.constantFrom('^O-[0-9]+$', 'a').map((pattern) => ({ pattern }))),
  sometimes(fc.constantFrom('date', 'date-time', 'uri').map((format) => ({ format }))),
);
const numbers = merged(
  fc.constantFrom({ type: 'integer' }, { type: 'number' }),
  sometimes(small.map((minimum) => ({ minimum }))),
  sometimes(fc.constantFrom(0, 0.5, -1).map((exclusiveMinimum) => ({ exclusiveMinimum }))),
  sometimes(small.map((exclusiveMaximum) => ({ exclusiveMaximum: exclusiveMaximum + 1 }))),
  sometimes(fc.constantFrom(1, 0.5).map((multipleOf) => ({ multipleOf }))),
);
const enums = fc.oneof(
  fc.uniqueArray(scalar, { minLength: 1, maxLength: 3 }).map((values) => ({ enum: values })),
  scalar.map((value) => ({ const: value })),
  fc.uniqueArray(text, { minLength: 1, maxLength: 3 }).map((values) => ({ type: 'string', enum: values })),
);
const others = fc.constantFrom<JsonObject>({ type: 'boolean' }, { type: 'null' }, { type: ['string', 'null'], maxLength: 2 }, { type: ['integer', 'boolean'] }, { $ref: '#/$defs/one' }, { $ref: '#/$defs/two' });
const leaf = fc.oneof(texts, numbers, enums, others);

const schema = (depth: number): fc.Arbitrary<JsonObject> =>
  depth === 0 ? leaf : fc.oneof({ arbitrary: leaf, weight: 3 }, object(depth - 1), list(depth - 1), union(depth - 1), { arbitrary: described(depth - 1), weight: 1 });

function described(depth: number): fc.Arbitrary<JsonObject> {
  return merged(schema(depth), fc.constant({ description: 'Said.' }));
}

function list(depth: number): fc.Arbitrary<JsonObject> {
  return merged(
    fc.constant({ type: 'array' }),
    schema(depth).map((items) => ({ items })),
    sometimes(small.map((maxItems) => ({ maxItems }))),
    sometimes(fc.constant({ uniqueItems: true, maxItems: 5 })),
    // Not both: beside `prefixItems` ajv's verdict skips `contains` for an empty list.
    sometimes(
      fc.oneof(
        fc.array(schema(depth), { minLength: 1, maxLength: 2 }).map((prefixItems): JsonObject => ({ prefixItems })),
        schema(0).map((contains): JsonObject => ({ contains })),
      ),
      2,
    ),
  );
}

function union(depth: number): fc.Arbitrary<JsonObject> {
  return fc.tuple(fc.constantFrom('anyOf', 'oneOf', 'allOf'), fc.array(schema(depth), { minLength: 1, maxLength: 3 })).map(([keyword, parts]) => ({ [keyword]: parts }));
}

function members(depth: number): fc.Arbitrary<JsonObject> {
  return fc.dictionary(name, schema(depth), { minKeys: 0, maxKeys: 3, noNullPrototype: true }).map((properties) => ({ properties: properties as JsonObject }));
}

const required = fc.uniqueArray(name, { maxLength: 3 }).map((names_) => ({ required: names_ }));

/** A part of an object: what a branch of a combination says of it. */
function partial(depth: number): fc.Arbitrary<JsonObject> {
  return merged(sometimes(members(depth), 3), sometimes(required, 2), sometimes(fc.constant({ additionalProperties: false })));
}

export function object(depth: number): fc.Arbitrary<JsonObject> {
  return merged(
    fc.constantFrom<JsonObject>({ type: 'object' }, { type: 'object' }, { type: 'object' }, { type: ['object', 'null'] }, {}),
    members(depth),
    sometimes(required, 3),
    sometimes(fc.array(partial(depth), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf }))),
    sometimes(fc.array(partial(depth), { minLength: 1, maxLength: 3 }).map((oneOf) => ({ oneOf }))),
    sometimes(fc.array(partial(depth), { minLength: 1, maxLength: 2 }).map((allOf) => ({ allOf }))),
    sometimes(fc.tuple(partial(depth), partial(depth), partial(depth)).map(([condition, then, otherwise]) => ({ if: condition, then, else: otherwise }))),
    sometimes(fc.tuple(name, name).map(([a, b]) => ({ dependentRequired: { [a]: [b] } }))),
    sometimes(fc.constantFrom<JsonObject>({ additionalProperties: { type: 'integer' } }, { additionalProperties: false }, { maxProperties: 3 }, { not: { required: ['kind'] } })),
  ).map(withPlainCondition);
}

/** A condition asks about members that the object has: ajv takes what a failed `if` names for evaluated, and would admit it unchecked. */
function withPlainCondition(whole: JsonObject): JsonObject {
  if (whole['if'] === undefined) return whole;
  const { additionalProperties: _, properties, ...condition } = whole['if'] as JsonObject;
  const own = Object.entries((properties ?? {}) as JsonObject).filter(([key]) => Object.hasOwn(whole['properties'] as JsonObject, key));
  return { ...whole, if: { ...condition, properties: Object.fromEntries(own) } };
}

/** Arguments of a tool: an object, with two definitions that refer to one another now and then. */
export const argumentSchemas: fc.Arbitrary<JsonObject> = fc.tuple(object(2), schema(1), object(1)).map(([root, one, two]) => ({
  ...root,
  type: 'object',
  $defs: { one, two: { ...two, properties: { ...(two['properties'] as JsonObject), c: { anyOf: [{ $ref: '#/$defs/two' }, { type: 'null' }] } } } },
}));

/** True where a reference leads back to its own place without a step into the value: nothing can be checked against that. */
export function isEndless(root: JsonObject): boolean {
  const within = (node: Json | undefined, above: readonly Json[]): boolean => {
    if (typeof node !== 'object' || node === null || Array.isArray(node)) return false;
    if (above.includes(node)) return true;
    const around = [...above, node];
    const here = [node['$ref'] === undefined ? undefined : resolve(root, node['$ref']), ...['if', 'then', 'else', 'not'].map((key) => node[key])];
    const listed = ['allOf', 'anyOf', 'oneOf'].flatMap((key) => (node[key] ?? []) as Json[]);
    return [...here, ...listed].some((each) => within(each, around));
  };
  return [root, ...Object.values(root['$defs'] as JsonObject)].some((each) => within(each, []));
}

/** A value that has a fair chance to fit. @param pick a whole number below its argument. */
export function guess(root: JsonObject, node: Json | undefined, pick: (bound: number) => number, depth = 0): Json {
  if (typeof node !== 'object' || node === null || Array.isArray(node) || depth > 6) return pick(2) === 0 ? 1 : 'a';
  if (typeof node['$ref'] === 'string') return guess(root, resolve(root, node['$ref']), pick, depth + 1);
  if (Array.isArray(node['enum'])) return node['enum'][pick(node['enum'].length)]!;
  if ('const' in node) return node['const']!;
  const branches = ['anyOf', 'oneOf', 'allOf'].flatMap((keyword) => (Array.isArray(node[keyword]) ? (node[keyword] as Json[]) : []));
  const types = node['type'] === undefined ? [] : ([node['type']].flat() as string[]);
  if (branches.length > 0 && !types.includes('object') && node['properties'] === undefined) return guess(root, branches[pick(branches.length)], pick, depth + 1);
  const type = types[pick(types.length)] ?? 'object';
  if (type === 'object') return guessObject(root, [node, ...branches, ...['if', 'then', 'else'].map((each) => node[each])], pick, depth);
  if (type === 'array') return [...Array(pick(3)).keys()].map((index) => guess(root, (node['prefixItems'] as Json[] | undefined)?.[index] ?? node['items'], pick, depth + 1));
  if (type === 'string') return ['', 'a', 'O-1', 'EUR', '2026-01-02', '2026-01-02T03:04:05Z', 'https://x.test/'][pick(7)]!;
  if (type === 'boolean') return pick(2) === 0;
  return type === 'null' ? null : [0, 1, 2, 3, -1, 0.5][pick(type === 'integer' ? 5 : 6)]!;
}

function guessObject(root: JsonObject, parts: (Json | undefined)[], pick: (bound: number) => number, depth: number): JsonObject {
  const value: JsonObject = {};
  for (const part of parts) {
    const properties = (part as JsonObject | undefined)?.['properties'];
    for (const [key, member] of Object.entries((properties ?? {}) as JsonObject)) if (pick(3) > 0) value[key] = guess(root, member, pick, depth + 1);
  }
  if (pick(4) === 0) value[names[pick(names.length)]!] = pick(2);
  return value;
}
