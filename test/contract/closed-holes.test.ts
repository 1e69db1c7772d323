import { describe, expect, it } from 'vitest';
import { schemaProblems } from '../../src/contract/schema-subset.js';
import { SchemaCompiler } from '../../src/contract/schemas.js';
import type { JsonObject } from '../../src/model.js';

/** Arguments are closed at every level. Where the validator beneath counts differently, an invented argument would slip through unseen. */
describe('what ajv would let through', () => {
  it('an empty list in the place of one that has to contain something', () => {
    const schema: JsonObject = { type: 'object', properties: { xs: { type: 'array', maxItems: 3, prefixItems: [{ type: 'integer' }], items: { type: 'integer' }, contains: { const: 7 } } } };
    const { check } = new SchemaCompiler().arguments(schema, 'none');
    expect(check({ xs: [] }).ok).toBe(false);
    expect(check({ xs: [7] }).ok).toBe(true);
  });

  it('members that a failed alternative names within alternatives of its own', () => {
    const nested: JsonObject = { oneOf: [{ required: ['zz'] }, { properties: { b: { type: 'string' } } }], required: ['a'] };
    for (const keyword of ['oneOf', 'anyOf']) {
      const schema: JsonObject = { type: 'object', properties: { c: { [keyword]: [nested, { type: 'object', properties: { d: { type: 'string' } } }] } } };
      const { check } = new SchemaCompiler().arguments(schema, 'none');
      expect(check({ c: { b: 'invented' } }).ok).toBe(false);
      expect(check({ c: { d: 'known' } }).ok).toBe(true);
    }
  });

  it('members that only an `if` names, or that its `additionalProperties` admits: refused where they are written', () => {
    const base: JsonObject = { type: 'object', properties: { kind: { enum: ['a', 'b'] }, n: { type: 'integer' } } };
    const problems = (condition: JsonObject): string[] => schemaProblems({ ...base, if: condition, else: { required: ['n'] } }, 'args').map(({ code }) => code);
    expect(problems({ properties: { kind: { const: 'a' } } })).toEqual([]);
    expect(problems({ properties: { kind: { const: 'a' } }, additionalProperties: false })).toEqual(['CG604']);
    expect(problems({ properties: { invented: { const: 'a' } } })).toEqual(['CG604']);
  });
});
