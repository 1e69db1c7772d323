/**
 * A change that is called compatible is published without a word to callers. So no argument that was valid may become invalid by
 * it, and no result may come that the old schema would not have let through.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { schemaChanges } from '../../src/contract/diff/schema-change.js';
import { SchemaCompiler } from '../../src/contract/schemas.js';
import type { Json, JsonObject } from '../../src/model.js';

const bound = fc.integer({ min: 0, max: 4 });
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const defined = (value: Record<string, unknown>): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as JsonObject;
/** A member that is required and not named can never be there. */
const possible = (object: JsonObject): JsonObject =>
  defined({ ...object, required: (object['required'] as string[] | undefined)?.filter((name) => Object.hasOwn(object['properties'] as JsonObject, name)) });

/** Few names and small bounds, so that two schemas often have to do with each other. */
const { schema } = fc.letrec<{ schema: JsonObject; object: JsonObject }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record({ type: fc.constantFrom('integer', 'number'), minimum: optional(bound), maximum: optional(bound) }).map(defined),
    fc.record({ type: fc.constant('string'), minLength: optional(bound), maxLength: optional(bound) }).map(defined),
    fc.record({ enum: fc.uniqueArray(fc.constantFrom('a', 'b', 1, null), { minLength: 1 }) }).map(defined),
    fc.record({ type: fc.constantFrom('boolean', ['string', 'null'], 'null') }).map((value) => value as JsonObject),
    fc.record({ type: fc.constant('array'), items: tie('schema'), minItems: optional(bound), maxItems: optional(bound) }).map(defined),
    fc.uniqueArray(tie('schema'), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf }) as JsonObject),
    fc.record({ $ref: fc.constantFrom('#/$defs/one', '#/$defs/two'), description: optional(fc.constantFrom('x', 'y')) }).map(defined),
    tie('object'),
  ),
  object: fc
    .record({
      type: fc.constant('object'),
      properties: fc.dictionary(fc.constantFrom('p', 'q', 'r'), tie('schema'), { noNullPrototype: true }),
      required: optional(fc.uniqueArray(fc.constantFrom('p', 'q'))),
      additionalProperties: optional(tie('schema')),
    })
    .map(defined)
    .map(possible),
}));
const root = fc
  .record({ properties: fc.dictionary(fc.constantFrom('p', 'q'), schema, { noNullPrototype: true }), required: optional(fc.uniqueArray(fc.constantFrom('p', 'q'))), one: schema, two: schema })
  .filter(({ one, two }) => !JSON.stringify([one, two]).includes('$ref'))
  .map(({ properties, required, one, two }) => possible({ type: 'object', properties, ...defined({ required }), $defs: { one, two } }));

const value: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom<Json>('', 'a', 'b', 'ccc', 0, 1, 2, 3, 1.5, true, null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('p', 'q', 'r'), tie('value'), { noNullPrototype: true }),
  ),
})).value;
const objects = fc.dictionary(fc.constantFrom('p', 'q', 'r'), value, { noNullPrototype: true }) as fc.Arbitrary<JsonObject>;

/** The second is the first with one of its members replaced as often as not: unrelated schemas are nearly always breaking. */
const pair = fc.tuple(root, root, fc.constantFrom('p', 'q', 'both', '$defs')).map(([old, other, part]): [JsonObject, JsonObject] => {
  if (part === 'both') return [old, other];
  if (part === '$defs') return [old, { ...old, $defs: other['$defs']! }];
  const properties = { ...(old['properties'] as JsonObject) };
  const replaced = (other['properties'] as JsonObject)[part];
  if (replaced === undefined) delete properties[part];
  else properties[part] = replaced;
  return [old, possible({ ...old, properties })];
});

const schemas = new SchemaCompiler();

/** Pairs of which the first is the narrower, with values that meet both: how many of those that are drawn do so is chance. */
const of = (p: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'object', properties: { p }, ...more });
const nested: [narrow: JsonObject, wide: JsonObject, value: Json][] = [
  [of({ type: 'integer', minimum: 1 }), of({ type: 'integer' }), 2], [of({ type: 'string' }, { required: ['p'] }), of({ type: 'string' }), 'a'], [of({ enum: ['a'] }), of({ enum: ['a', 'b'] }), 'a'],
];
const thirty = (value: Json): JsonObject[] => Array.from({ length: 30 }, () => ({ p: value }));

describe('schema changes', () => {
  test('that are compatible for arguments never refuse what was valid', () => {
    let compared = 0;
    fc.assert(
      fc.property(pair, fc.array(objects, { minLength: 30, maxLength: 30 }), ([old, now], values) => {
        if (schemaChanges(old, now, 'args').some(({ relation }) => relation === 'narrower' || relation === 'other')) return;
        const [before, after] = [schemas.arguments(old, 'none'), schemas.arguments(now, 'none')];
        for (const args of values.filter((one) => before.check(one).ok)) {
          compared++;
          expect(after.check(args)).toMatchObject({ ok: true });
        }
      }),
      { numRuns: 400, examples: nested.map(([narrow, wide, value]) => [[narrow, wide], thirty(value)]) },
    );
    expect(compared).toBeGreaterThan(40);
  });

  test('that are compatible for results never let through what the old schema did not', () => {
    let compared = 0;
    fc.assert(
      fc.property(pair, fc.array(objects, { minLength: 30, maxLength: 30 }), ([old, now], values) => {
        if (schemaChanges(old, now, 'result').some(({ relation }) => relation === 'wider' || relation === 'other')) return;
        const [before, after] = [schemas.result(old), schemas.result(now)];
        for (const result of values.filter((one) => after(one) !== null)) {
          compared++;
          expect(before(result)).not.toBeNull();
        }
      }),
      { numRuns: 400, examples: nested.map(([narrow, wide, value]) => [[wide, narrow], thirty(value)]) },
    );
    expect(compared).toBeGreaterThan(40);
  });

  test('of a definition that refers to itself are found, and the search ends', () => {
    const tree = (maxLength: number): JsonObject => ({
      type: 'object',
      properties: { tree: { $ref: '#/$defs/node' } },
      $defs: { node: { type: 'object', properties: { name: { type: 'string', maxLength }, children: { type: 'array', items: { $ref: '#/$defs/node' } } } } },
    });
    expect(schemaChanges(tree(9), tree(5), 'args')).toEqual([{ path: ['properties', 'tree', 'properties', 'name', 'maxLength'], old: 9, now: 5, relation: 'narrower' }]);
    const combined = (maxLength: number): JsonObject => ({ ...tree(maxLength), allOf: [{ $ref: '#/$defs/node' }] });
    expect(schemaChanges(combined(5), combined(9), 'args').map(({ relation }) => relation)).toContain('other');
  });
});
