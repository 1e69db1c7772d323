/**
 * Whoever imports did not write the document. It may be damaged, enormous in meaning or hostile, and must never hang the command,
 * crash it, or become a draft that is no contract: the answer is a draft with questions, or what is wrong and where.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseContractFile } from '../../src/contract/yaml-file.js';
import { type ImportResult, importOpenapi } from '../../src/contract/importers/openapi/import.js';
import { checkShape } from '../../src/contract/shape.js';
import { indexTools } from '../../src/contract/tool-entry.js';
import { Findings } from '../../src/contract/findings.js';
import { SchemaCompiler } from '../../src/contract/schemas.js';
import type { Json, JsonObject } from '../../src/model.js';

const guardMs = 10_000;
const run = (text: string): ImportResult => {
  const began = performance.now();
  const result = importOpenapi(text, { file: 'fuzz', select: ['*'] });
  expect(performance.now() - began).toBeLessThan(guardMs);
  return result;
};

/** What the compiler says of a draft besides its open questions. */
function complaints(result: ImportResult): string[] {
  if (!('draft' in result)) return [];
  const parsed = parseContractFile('draft.yaml', result.draft);
  if ('diagnostics' in parsed) return parsed.diagnostics.map(({ code, message }) => `${code} ${message}`);
  const findings = new Findings();
  indexTools([parsed.source], new SchemaCompiler(), findings);
  return [...checkShape(parsed.source).diagnostics, ...findings.list].filter(({ code }) => code !== 'CG901').map(({ code, message }) => `${code} ${message}`);
}

const base: JsonObject = parse(`
openapi: 3.0.3
info: { title: Fuzz }
servers: [{ url: https://a.test }]
components:
  securitySchemes: { k: { type: apiKey, in: header, name: X-Key } }
  schemas:
    A: { type: object, properties: { b: { $ref: "#/components/schemas/B" }, n: { type: integer, minimum: 1, exclusiveMinimum: true } }, required: [b], additionalProperties: { type: string } }
    B: { oneOf: [{ $ref: "#/components/schemas/A" }, { type: string, nullable: true, pattern: "^a+$", enum: [a, aa] }], discriminator: { propertyName: t } }
security: [{ k: [] }]
paths:
  /a/{id}:
    parameters: [{ name: id, in: path, required: true, schema: { type: string } }]
    get: { operationId: getA, responses: { "200": { description: ok, content: { application/json: { schema: { $ref: "#/components/schemas/A" } } } } } }
    post:
      operationId: postA
      parameters: [{ name: Idempotency-Key, in: header, schema: { type: string, maxLength: 64 } }, { name: q, in: query, required: true, schema: { type: integer } }, { name: If-Match, in: header, schema: { type: string } }]
      requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/A" } } } }
      responses: { "201": { description: made, content: { application/json: { schema: { type: array, items: { $ref: "#/components/schemas/B" } } } } }, "409": { description: no }, default: { $ref: "#/gone" } }
`) as JsonObject;

function places(value: Json, path: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([name, member]) => places(member, [...path, Array.isArray(value) ? Number(name) : name]))];
}

/** Values that mean something, or nothing, in an OpenAPI document. */
const strange: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(null, true, false, '', 0, -1, 1e300, 2 ** 63, 0.1, [], {}, [[]], [null], 'GAP: x', '${HOME}', '__proto__', '#', '#/', '#/paths', '#/components/schemas/A', '#/%E0%A4%A', 'http://x/y#/z'),
  fc.constantFrom<Json>({ $ref: '#' }, { $ref: '#/components' }, { $ref: '#/components/schemas/A' }, { $ref: 7 }, { $ref: '#/components/schemas/A/properties/b' }, { allOf: [{ $ref: '#/components/schemas/B' }] }, { type: ['object', 'string', 'null', 7] }),
  fc.constantFrom<Json>('string', 'object', 'array', 'nope', ['string', 'array'], 'get', 'POST', '200', '/x/{', '/x?y=1', '/{a}{b}', 'query', 'path', 'cookie', '^(a+)+$', '(?=a)', '(', 'uuid', 'application/xml'),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>,
);
const names = fc.oneof(
  fc.constantFrom('$ref', 'type', 'nullable', 'items', 'properties', 'required', 'enum', 'allOf', 'anyOf', 'oneOf', 'not', 'additionalProperties', 'default', 'const', 'pattern', 'format', 'minLength', 'maxItems', 'uniqueItems', 'exclusiveMaximum', 'parameters', 'requestBody', 'responses', 'content', 'schema', 'in', 'name', 'put', 'delete', '__proto__', 'constructor', '?x', 'readOnly'),
  fc.string({ unit: 'binary', maxLength: 10 }),
);
const mutations = fc.array(fc.record({ at: fc.nat(), name: fc.option(names), value: fc.option(strange, { nil: undefined }) }), { minLength: 1, maxLength: 8 });

function mutated(changes: { at: number; name: string | null; value: Json | undefined }[]): JsonObject {
  const document = structuredClone(base);
  for (const { at, name, value } of changes) {
    const all = places(document).slice(1);
    const path = all[at % all.length]!;
    let parent: Json = document;
    for (const segment of path.slice(0, -1)) parent = (parent as Record<string | number, Json>)[segment]!;
    const [holder, member] = [parent as Record<string | number, Json>, path.at(-1)!];
    if (value === undefined) {
      if (Array.isArray(parent)) parent.splice(Number(member), 1);
      else delete holder[member];
    } else if (name !== null && typeof holder[member] === 'object' && holder[member] !== null && !Array.isArray(holder[member]))
      Object.defineProperty(holder[member], name, { value: structuredClone(value), enumerable: true, configurable: true, writable: true });
    else holder[member] = structuredClone(value);
  }
  return document;
}

describe('a strange document', () => {
  test('that was mutated in up to eight places gives a draft which is a contract but for its questions, or says what is wrong', () => {
    let drafts = 0;
    fc.assert(
      fc.property(mutations, (changes) => {
        const result = run(JSON.stringify(mutated(changes)));
        if ('draft' in result) drafts++;
        expect(complaints(result)).toEqual([]);
      }),
      { numRuns: 200 },
    );
    expect(drafts).toBeGreaterThan(100);
  });

  test('that is no document at all says so', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.json(), fc.string({ unit: fc.constantFrom('{', '}', '[', ']', ':', ' ', '\n', '-', '&a', '*a', '"', '#', 'openapi: 3.0.0\n', 'paths: ', '<<: ') })), (text) => {
        const result = run(text);
        if ('problems' in result) for (const { line, column } of result.problems) expect(line >= 1 && column >= 1).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  test('that was cut anywhere says where', () => {
    const text = JSON.stringify(base, null, 1);
    fc.assert(
      fc.property(fc.nat({ max: text.length - 1 }), (length) => {
        const result = run(text.slice(0, length));
        expect(result).toHaveProperty('problems');
      }),
      { numRuns: 60 },
    );
  });

  const document = (schemas: object, extra: object = {}): string =>
    JSON.stringify({ openapi: '3.1.0', components: { schemas }, paths: { '/a': { post: { operationId: 'a', requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/S0' } } } }, responses: { 200: { description: '', content: { 'application/json': { schema: { $ref: '#/components/schemas/S0' } } } } } } } }, ...extra });
  const schemas = (count: number, schema: (index: number) => object) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`S${index}`, schema(index)]));
  const ref = (index: number) => ({ $ref: `#/components/schemas/S${index}` });

  test.each<[string, () => string]>([
    ['doubles with every reference', () => document(schemas(60, (index) => ({ type: 'object', properties: { a: ref(index + 1), b: ref(index + 1) } })))],
    ['is a chain of 20,000 references', () => document(schemas(20_000, (index) => ({ type: 'object', properties: { next: ref(index + 1) } })))],
    ['is a chain of bare references', () => document(schemas(20_000, (index) => ref(index + 1)))],
    ['refers to itself and nothing else', () => document({ S0: ref(0) })],
    ['refers in a circle through combinations', () => document({ S0: { allOf: [ref(1)] }, S1: { oneOf: [ref(0), ref(1)] } })],
    ['holds itself', () => document({ S0: { $ref: '#' } })],
    ['is nested 5,000 deep', () => document({ S0: 'DEEP' }).replace('"DEEP"', `${'{"type":"array","items":'.repeat(5000)}{}${'}'.repeat(5000)}`)],
    ['has 50,000 members', () => document({ S0: { type: 'object', properties: Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`p${index}`, { type: 'string' }])) } })],
    ['has an enum of 200,000 values', () => document({ S0: { type: 'object', properties: { a: { enum: Array.from({ length: 200_000 }, (_, index) => index) } } } })],
    ['has a description of 10 million characters', () => document({ S0: { type: 'object', description: '<'.repeat(10_000_000), properties: { a: { type: 'string', description: '['.repeat(100_000) } } } })],
    ['has 1,000 operations', () => JSON.stringify({ openapi: '3.0.0', paths: Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`/p${index}`, { get: { responses: {} } }])) })],
    ['is YAML nested 20,000 deep', () => `openapi: 3.0.0\npaths: ${'['.repeat(20_000)}`],
    ['is JSON nested 200,000 deep', () => `{"openapi": "3.0.0", "paths": ${'['.repeat(200_000)}${']'.repeat(200_000)}}`],
    ['is an alias bomb', () => `openapi: 3.0.0\na: &a [x, x, x, x, x, x, x, x, x, x]\n${'bcdefghij'.split('').map((name, index) => `${name}: &${name} [${Array.from({ length: 10 }, () => `*${'abcdefghij'[index]}`).join(', ')}]`).join('\n')}\npaths: *j\n`],
    ['has 30,000 YAML members in one map', () => `openapi: 3.0.0\npaths:\n${Array.from({ length: 30_000 }, (_, index) => `  /p${index}: {}`).join('\n')}\n`],
    ['is larger than anybody’s', () => `openapi: 3.0.0\n# ${'x'.repeat(40_000_000)}`],
    ['has patterns that take exponential time', () => document({ S0: { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' }, b: { type: 'string', pattern: `${'('.repeat(900)}a${')'.repeat(900)}` } } } })],
  ])('that %s is answered within 10 seconds and 1 GB', (_, text) => {
    const result = run(text());
    expect(complaints(result)).toEqual([]);
    expect(process.memoryUsage().heapUsed).toBeLessThan(1e9);
  }, 3 * guardMs);
});
