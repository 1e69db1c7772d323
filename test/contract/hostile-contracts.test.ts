/**
 * Contracts are written by people, by importers and by models. One that would stall or end the process takes `check`, the editor and, at a
 * reload, the gateway with it. So each is refused with a place and a reason, or compiled, in bounded work: CPU time, which a busy machine
 * does not lengthen.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { type Diagnostic, formatDiagnostics } from '../../src/contract/diagnostics.js';
import type { Catalogue } from '../../src/contract/plan.js';
import type { Json, JsonObject } from '../../src/model.js';
import { retailText } from './fixture.js';

const maxCpuMs = 5000;

function compiled(text: string): { catalogue: Catalogue | null; diagnostics: readonly Diagnostic[] } {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-hostile-'));
  writeFileSync(join(dir, 'hostile.yaml'), text);
  const before = process.cpuUsage();
  const result = compileFolder(dir, {});
  const diagnostics = 'diagnostics' in result ? result.diagnostics : result.warnings;
  const told = formatDiagnostics(diagnostics, () => text);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(maxCpuMs);
  expect(told.length).toBeLessThan(40_000_000);
  for (const { line, message } of diagnostics) {
    expect(line).toBeGreaterThan(0);
    expect(message).not.toMatch(/call stack|undefined|\[object/);
    expect(message.length).toBeLessThan(2000);
  }
  return { catalogue: 'catalogue' in result ? result.catalogue : null, diagnostics };
}

const plain: JsonObject = { type: 'object', properties: { a: { type: 'string', maxLength: 5 } } };
const contract = (tool: JsonObject, more: JsonObject = {}): string =>
  JSON.stringify({
    callgate: 1, service: 's', upstream: { base_url: 'http://127.0.0.1:1' },
    tools: { t: { version: '1.0.0', effect: 'none', purpose: 'p', args: plain, result: plain, http: { method: 'GET', path: '/x' }, ...tool } }, ...more,
  });
const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));
const named = (count: number, make: (index: number) => [string, Json]): JsonObject => Object.fromEntries(many(count, make));
const nested = (depth: number, around: (inner: Json) => Json, inmost: Json): Json => many(depth, () => 0).reduce<Json>(around, inmost);
const withDefs = ($defs: JsonObject): JsonObject => ({ args: { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs } });
const ref = (index: number): JsonObject => ({ $ref: `#/$defs/d${index}` });
const doubled = withDefs(named(40, (i) => [`d${i}`, i < 39 ? { type: 'object', properties: { a: ref(i + 1), b: ref(i + 1) } } : { type: 'integer' }]));

describe('text that a parser could stall or fall over on', () => {
  test.each<[string, string, string, RegExp]>([
    ['lists in lists', `a: ${'['.repeat(20_000)}${']'.repeat(20_000)}`, 'CG003', /more than 256 deep/],
    ['lists that nobody closes', '['.repeat(50_000), 'CG003', /more than 256 deep/],
    ['dashes without end', `${'- '.repeat(20_000)}a`, 'CG003', /more than 256 deep/],
    ['indentation without end', many(3000, (index) => `${' '.repeat(index)}a:`).join('\n'), 'CG003', /more than 256 deep/],
    ['objects 300 deep', contract({ args: nested(300, (inner) => ({ not: inner }), true) as JsonObject }), 'CG003', /more than 256 deep/],
    ['an alias bomb', `a: &a [x]\n${many(12, (i) => `b${i}: &b${i} [${Array(9).fill(i ? `*b${i - 1}` : '*a').join(',')}]`).join('\n')}`, 'CG003', /alias/],
    ['something that holds itself', 'a: &a [*a]', 'CG003', /`\*a` stands for something that holds it/],
    ['20,000 aliases', `a: &a x\n${many(20_000, (i) => `k${i}: *a`).join('\n')}`, 'CG003', /more than 1000 aliases/],
    ['a file of 17 MB', `# ${'x'.repeat(17 * 1024 * 1024)}`, 'CG003', /larger than 16 MB/],
    ['5,000 members that nobody knows', JSON.stringify(named(5000, (i) => [`k${i}`, 1])), 'CG004', /no member/],
    ['5,000 times the same member', `{${many(5000, () => '"k": 1').join(',')}}`, 'CG002', /`k` is written twice/],
    ['5,000 directives', many(5000, () => '%x: "').join('\n'), 'CG001', /directive/],
    ['bytes that are no text', Buffer.from(many(50_000, (i) => (i * 7919) % 256)).toString('latin1'), 'CG006', /must be object/],
  ])('%s', (_, text, code, says) => {
    const { catalogue, diagnostics } = compiled(text);
    expect(catalogue).toBeNull();
    expect(diagnostics.find((found) => found.code === code && says.test(found.message)), JSON.stringify(diagnostics.slice(0, 3))).toBeDefined();
  });
});

describe('schemas that could stall or fall over', () => {
  test.each<[string, JsonObject, string | null]>([
    ['100,000 values, and a comparison with none of them', { args: { type: 'object', properties: { a: { enum: many(100_000, (i) => `v${i}`) } } }, http: { method: 'GET', path: '/x', query: { q: '{args.a == "no" ? "1" : "2"}' } } }, 'CG101'],
    ['5,000 members, and one that is misspelt', { args: { type: 'object', properties: named(5000, (i) => [`p${i}`, { type: 'string', maxLength: 5 }]) }, http: { method: 'GET', path: '/{args.p4999x}' } }, 'CG101'],
    ['3,000 references, one to the next', withDefs(named(3000, (i) => [`d${i}`, i < 2999 ? ref(i + 1) : { type: 'string', maxLength: 1 }])), 'CG605'],
    ['a reference to itself', withDefs({ d0: ref(0) }), 'CG605'],
    ['a circle of 150 references', withDefs(named(150, (i) => [`d${i}`, ref((i + 1) % 150)])), 'CG605'],
    ['a web of 200 `allOf`', withDefs(named(200, (i) => [`d${i}`, { properties: { [`p${i}`]: { type: 'integer' } }, ...(i < 199 ? { allOf: many(Math.min(8, 199 - i), (j) => ref(i + 1 + j)) } : {}) }])), 'CG605'],
    ['thirty definitions, each of all thirty', withDefs(named(30, (i) => [`d${i}`, { type: 'object', properties: named(30, (j) => [`p${j}`, ref(j)]) }])), null],
    ['forty definitions, each twice in the one before', doubled, null],
    ['the same, and an expression that reads them', { ...doubled, http: { method: 'GET', path: '/x', query: { q: '{has(args.a)}' } } }, null],
    ['150 definitions, one inside the other', withDefs(named(150, (i) => [`d${i}`, i < 149 ? { type: 'object', properties: { a: ref(i + 1) } } : { type: 'integer' }])), null],
    ['a pattern that back-tracks', { args: { type: 'object', properties: { a: { type: 'string', pattern: '(a+)+$', maxLength: 5 } } } }, null],
    ['a pattern that repeats repeats', { args: { type: 'object', properties: { a: { type: 'string', pattern: '((((a{1,100}){1,100}){1,100}){1,100}){1,100}', maxLength: 5 } } } }, 'CG606'],
    ['a pattern of 20,000 parentheses', { args: { type: 'object', properties: { a: { type: 'string', pattern: `${'('.repeat(20_000)}${')'.repeat(20_000)}`, maxLength: 5 } } } }, 'CG606'],
  ])('%s', (_, tool, code) => {
    const { catalogue, diagnostics } = compiled(contract(tool));
    if (code !== null) expect(diagnostics.map((found) => found.code)).toContain(code);
    else {
      expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
      catalogue!.tools.get('t')!.checkArguments({ a: 'x' }); // and what is generated at the first use can be
    }
  });
});

test('a result schema that is none is reported where it stands, also when an answer is put together for it', () => {
  const { diagnostics } = compiled(retailText.replaceAll('required: [receipt_id, amount]', 'required: 7'));
  expect(diagnostics.map(({ code }) => code)).toContain('CG605');
});

describe('expressions that could stall or fall over', () => {
  const write: JsonObject = { effect: 'write', http: { method: 'POST', path: '/x' }, effects: { creates: 'x', never: [] }, idempotency: { honoured: true, window: '1d' } };
  const check = (text: string): JsonObject => ({ preconditions: [{ id: 'p', check: text, otherwise: { code: 'X' } }] });

  test.each<[string, JsonObject, string]>([
    ['900 parentheses', check(`${'('.repeat(900)}true${')'.repeat(900)}`), 'CG105'],
    ['1,900 negations', check(`${'!'.repeat(1900)}true`), 'CG105'],
    ['5,000 names', { ...write, let: named(5000, (i) => [`l${i}`, '1']) }, 'CG006'],
    ['100 names in a circle', { ...write, let: named(100, (i) => [`l${i}`, `l${(i + 1) % 100}`]) }, 'CG101'],
    ['5,000 preconditions', { preconditions: many(5000, (i) => ({ id: `p${i}`, check: 'true', otherwise: { code: 'X' } })) }, 'CG006'],
    ['a template of 50,000 braces', { http: { method: 'GET', path: `/${'{'.repeat(50_000)}` } }, 'CG112'],
    ['a body 200 deep with something wrong in it', { ...write, http: { method: 'POST', path: '/x', body: nested(200, (inner) => ({ a: inner }), 'args.gone') } }, 'CG101'],
  ])('%s', (_, tool, code) => {
    expect(compiled(contract(tool)).diagnostics.map((found) => found.code)).toContain(code);
  });

  test('names that each rest twice on those before them are worked out once for each evaluation', () => {
    const lets = named(60, (i) => [`l${i}`, i < 2 ? 'size(args.a)' : `l${i - 1} > l${i - 2} ? l${i - 1} : l${i - 2}`]);
    const { catalogue } = compiled(contract({ ...write, let: lets, preconditions: [{ id: 'p', check: 'l59 == 3', otherwise: { code: 'X' } }] }));
    const { check: last } = catalogue!.tools.get('t')!.preconditions[0] ?? catalogue!.tools.get('t')!.relations[0]!;
    expect(last.evaluate({ args: { a: 'abc' } })).toBe(true);
    expect(last.evaluate({ args: { a: 'abcd' } })).toBe(false);
  });
});

test('any text, and the example with any piece cut out, doubled or replaced by noise, is compiled or refused, never thrown over', () => {
  const noise = fc.oneof(fc.string({ maxLength: 200, unit: 'binary' }), fc.constantFrom('&a ', '*a', '{', '}', '[', '!!js/function ', '%', '\t', '? ', ': ', '- ', '|', '>', '"', '\0', '${A}', '<<: *a', '__proto__: ', 'constructor: '));
  const piece = fc.tuple(fc.nat(retailText.length), fc.nat(200), noise).map(([at, length, put]) => retailText.slice(0, at) + put + retailText.slice(at + length));
  fc.assert(fc.property(fc.oneof(noise, piece), (text) => void compiled(text)), { numRuns: 100 });
}, 60_000);
