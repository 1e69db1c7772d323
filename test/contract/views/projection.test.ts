/** A schema that one provider refuses fails every request to it; a schema that says too much hides calls that are allowed. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { schemaProblems } from '../../../src/contract/schema-subset.js';
import { SchemaCompiler } from '../../../src/contract/schemas.js';
import { dialects, openaiStrict, rules } from '../../../src/contract/views/dialects.js';
import { projectSchema } from '../../../src/contract/views/project-schema.js';
import type { Json, JsonObject } from '../../../src/model.js';
import { refusals } from './provider-subsets.js';
import { argumentSchemas, guess, isEndless } from './random-schemas.js';

const subsets = { ...Object.fromEntries(dialects.map((dialect) => [dialect, rules[dialect].subset])), 'openai-strict': openaiStrict };

/** OpenAPI's `nullable` and upper-case types as JSON Schema says them. */
function asJsonSchema(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(asJsonSchema);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { nullable, ...rest } = schema;
  const converted = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, key === 'properties' ? mapped(value as JsonObject) : key === 'enum' ? value : asJsonSchema(value)]));
  if (typeof rest['type'] === 'string') converted['type'] = rest['type'].toLowerCase();
  if (!nullable) return converted;
  return { anyOf: [converted, { type: 'null' }] };
}

function mapped(properties: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(properties).map(([name, member]) => [name, asJsonSchema(member)]));
}

/** Why a value is not admitted; empty when it is. */
function admission(schema: JsonObject): (value: Json) => string {
  const ajv = new Ajv2020({ strict: false, validateSchema: false });
  addFormats.default(ajv);
  const validate = ajv.compile(asJsonSchema(schema) as object);
  return (value) => (validate(value) ? '' : ajv.errorsText(validate.errors));
}

describe('a projection of any schema of the language', () => {
  test('is taken by its provider, admits every argument object that the contract admits, and says so where it admits more', () => {
    const seen = Object.fromEntries(Object.keys(subsets).map((name) => [name, { taken: 0, values: 0, exact: 0 }]));
    const compiler = new SchemaCompiler();
    fc.assert(
      fc.property(argumentSchemas, fc.array(fc.nat(), { minLength: 200, maxLength: 200 }), (schema, choices) => {
        fc.pre(schemaProblems(schema, 'args').length === 0 && !isEndless(schema));
        const authority = compiler.arguments(schema, 'none');
        let next = 0;
        const pick = (bound: number): number => (bound === 0 ? 0 : choices[next++ % choices.length]! % bound);
        const guesses = [...Array(12)].map(() => guess(schema, schema, pick) as JsonObject);
        const verdicts = guesses.map((value) => ({ value, verdict: authority.check(value) }));
        const values = verdicts.flatMap(({ value, verdict }) => (verdict.ok && verdict.repaired.length === 0 ? [value] : []));
        const refused = verdicts.flatMap(({ value, verdict }) => (verdict.ok ? [] : [value]));
        for (const [name, subset] of Object.entries(subsets)) {
          const projected = projectSchema(authority.schema, subset);
          if (!projected.ok) continue;
          const counts = seen[name]!;
          counts.taken++;
          const provider = name as keyof typeof subsets & Parameters<typeof refusals>[0];
          const empty = name === 'gemini' && Object.keys(projected.schema['properties'] as object).length === 0;
          if (!empty) expect(refusals(provider, projected.schema), `${name}: ${JSON.stringify(projected.schema)}`).toEqual([]);
          const admits = admission(projected.schema);
          for (const value of values) {
            counts.values++;
            expect(admits(value), `${name}: ${JSON.stringify(value)}\n${JSON.stringify(projected.schema)}`).toBe('');
          }
          for (const value of projected.dropped.length === 0 ? refused : []) {
            seen[name]!.exact++;
            expect(admits(value), `${name} tells less than the contract and does not say so: ${JSON.stringify(value)}\n${JSON.stringify(projected.schema)}`).not.toBe('');
          }
        }
      }),
      { numRuns: 150, endOnFailure: true },
    );
    // The property says something only where projections and fitting values there were.
    for (const [name, { taken, values }] of Object.entries(seen)) expect([name, taken > 10, values > 10], JSON.stringify(seen)).toEqual([name, true, true]);
    expect(seen['anthropic']!.exact, JSON.stringify(seen)).toBeGreaterThan(10);
  });
});
