/** Validators are generated at their first use, so whatever could stop that has to be found while the contract compiles. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { evidentlyAdmits } from '../../src/contract/evident.js';
import { admittedFormats, schemaProblems } from '../../src/contract/schema-subset.js';
import { SchemaCompiler, type Validator } from '../../src/contract/schemas.js';
import type { Json, JsonObject } from '../../src/model.js';
import { compileFolder } from '../../src/contract/compile.js';
import { catalogueOf, retailFolder } from './fixture.js';
import { guess, object } from './views/random-schemas.js';

const codes = (schema: JsonObject): string[] => schemaProblems({ type: 'object', ...schema }, 'args').map(({ code, path }) => `${code} ${path.join('.')}`);

describe('a schema that could not be generated', () => {
  test.each([
    [{ properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: { $ref: '#/$defs/a' } } }, 'CG605 $defs.a.$ref'],
    [{ properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: { type: 'string', allOf: [{ $ref: '#/$defs/b' }] }, b: { anyOf: [{ $ref: '#/$defs/a' }] } } }, 'CG605 $defs.b.anyOf.0.$ref'],
    [{ properties: { a: { $ref: '#/properties' } } }, 'CG605 properties.a.$ref'],
    [{ properties: { a: { $ref: '#/required' } }, required: ['a'] }, 'CG605 properties.a.$ref'],
    [{ properties: { a: { type: 'array', items: { type: 'string' }, maxContains: 2 } } }, 'CG605 properties.a.maxContains'],
    [{ properties: { a: { enum: [] } } }, 'CG605 properties.a.enum'],
    [{ if: { properties: { a: { const: 1 } } } }, 'CG605 if'],
    [{ else: { required: ['a'] } }, 'CG605 else'],
  ] as [JsonObject, string][])('%j is refused at its place', (schema, expected) => {
    expect(codes(schema)).toContain(expected);
  });

  test('a schema may contain itself one level down', () => {
    const schema: JsonObject = { type: 'object', properties: { name: { type: 'string' }, parent: { $ref: '#' } }, required: ['name'] };
    expect(schemaProblems(schema, 'args')).toEqual([]);
    const { check } = new SchemaCompiler().arguments(schema, 'none');
    expect(check({ name: 'a', parent: { name: 'b' } }).ok).toBe(true);
    expect(check({ name: 'a', parent: { nam: 'b' } })).toMatchObject({ ok: false });
  });
});

/** Some of the members, so that most schemas have nothing wrong. */
const some = (members: fc.Arbitrary<object>, most: number): fc.Arbitrary<JsonObject> =>
  fc.tuple(members, fc.array(fc.nat(20), { maxLength: most })).map(([all, kept]) => Object.fromEntries(Object.entries(all).filter((_, index) => kept.includes(index))) as JsonObject);

const leaf = some(fc.record(
  {
    type: fc.constantFrom<Json>('string', 'integer', 'number', 'boolean', 'array', 'object', 'null', ['string', 'null'], ['integer', 'array']),
    enum: fc.array(fc.constantFrom<Json>('a', 1, null, true), { maxLength: 3 }),
    const: fc.constantFrom<Json>('a', 1, null),
    minimum: fc.integer({ min: -5, max: 5 }),
    multipleOf: fc.constantFrom(0, 1, 2, 0.5),
    maxLength: fc.integer({ min: -1, max: 5 }),
    pattern: fc.constantFrom('^a+$', '(?=a)', '['),
    format: fc.constantFrom(...admittedFormats, 'gone'),
    required: fc.array(fc.constantFrom('a', 'b'), { maxLength: 2 }),
    uniqueItems: fc.boolean(),
    minContains: fc.integer({ min: 0, max: 3 }),
    maxContains: fc.integer({ min: 0, max: 3 }),
    $ref: fc.constantFrom('#', '#/$defs/a', '#/properties/a', '#/$defs', '#/properties'),
  }), 3);

const schemas = fc.letrec<{ schema: JsonObject }>((tie) => ({
  schema: fc
    .tuple(
      leaf,
      some(fc.record(
        {
          properties: fc.dictionary(fc.constantFrom('a', 'b'), fc.oneof({ depthSize: 'small' }, leaf, tie('schema')), { maxKeys: 2 }),
          items: fc.oneof({ depthSize: 'small' }, leaf, tie('schema')),
          prefixItems: fc.array(leaf, { minLength: 1, maxLength: 2 }),
          contains: leaf,
          anyOf: fc.array(fc.oneof({ depthSize: 'small' }, leaf, tie('schema')), { maxLength: 2 }),
          allOf: fc.array(leaf, { maxLength: 2 }),
          not: leaf,
          if: leaf,
          else: leaf,
          additionalProperties: fc.oneof(leaf, fc.boolean()),
          propertyNames: leaf,
          $defs: fc.record({ a: leaf }),
        }), 4),
    )
    .map(([own, more]) => ({ ...own, ...more }) as JsonObject),
}));

test('whatever is found to be valid is generated, and gives a verdict on any value, with reasons when and only when it fails', () => {
  let generated = 0;
  const compiler = new SchemaCompiler();
  fc.assert(
    fc.property(schemas.schema, fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>, (schema, value) => {
      if (schemaProblems(schema, 'result').length > 0) return;
      let validator: Validator;
      try {
        validator = compiler.validator(schema);
      } catch {
        return;
      }
      generated++;
      expect(validator.errors(value).length === 0).toBe(validator.holds(value));
    }),
    { numRuns: 1000 },
  );
  expect(generated).toBeGreaterThan(100);
});

const withoutCombinations = object(1).map(({ properties, required = [] }) => ({ type: 'object', properties, required }) as JsonObject);

test('what is evident without a validator is what the validator says, and the examples of the example are', () => {
  const seen = { evident: 0, refused: 0 };
  const schemas = new SchemaCompiler();
  fc.assert(
    fc.property(fc.oneof(object(1), withoutCombinations), fc.infiniteStream(fc.nat(1_000)), (schema, picks) => {
      if (schemaProblems(schema, 'args').length > 0) return;
      const { schema: closed, check, checkOnce } = schemas.arguments(schema, 'none');
      for (let round = 0; round < 5; round++) {
        const value = guess(schema, schema, (bound) => (picks.next().value as number) % bound) as JsonObject;
        const verdict = check(value);
        expect(checkOnce(value)).toEqual(verdict);
        if (evidentlyAdmits(closed, value)) seen.evident++;
        else if (!verdict.ok) seen.refused++;
      }
    }),
    { numRuns: 500 },
  );
  expect(seen.evident).toBeGreaterThan(100);
  expect(seen.refused).toBeGreaterThan(100);
  const examples = [...catalogueOf(compileFolder(retailFolder, {})).tools.values()].flatMap(({ argsSchema, examples: shown }) => shown.map(({ args }) => evidentlyAdmits(argsSchema, args)));
  expect(new Set(examples)).toEqual(new Set([true]));
});
