import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SchemaCompiler } from '../../src/contract/schemas.js';
import { schemaProblems } from '../../src/contract/schema-subset.js';
import type { Json, JsonObject } from '../../src/model.js';
import { retailTool } from './fixture.js';
import { cpuMs } from '../support/cpu.js';

const schemas = new SchemaCompiler();
const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'object', properties, ...more });
const check = (schema: JsonObject, value: JsonObject, coerce: 'none' | 'lossless' = 'none') => {
  expect(schemaProblems(schema, 'args')).toEqual([]);
  return schemas.arguments(schema, coerce).check(value);
};
const errorsOf = (schema: JsonObject, value: JsonObject) => {
  const verdict = check(schema, value);
  return verdict.ok ? [] : verdict.errors;
};
const credit = retailTool('issue_credit');

describe('case-25: an invented or misspelt argument', () => {
  test('is refused with its pointer and the nearest allowed name, at every level', () => {
    const filter = object({
      hours: { type: 'integer' },
      filter: object({ state: { type: 'string' } }),
      rules: { type: 'array', items: object({ key: { type: 'string' } }) },
    });
    expect(errorsOf(filter, { hours: 1, filter: { stat: 'error' } })).toMatchObject([
      { pointer: '/filter/stat', code: 'unknown_argument', nearest: 'state', expected: ['state'] },
    ]);
    expect(errorsOf(filter, { rules: [{ key: 'a' }, { kei: 'b' }] })).toMatchObject([{ pointer: '/rules/1/kei', nearest: 'key' }]);
    expect(errorsOf(object({ dry_run: { type: 'boolean' } }), { dryrun: true })).toMatchObject([
      { pointer: '/dryrun', nearest: 'dry_run' },
    ]);
    expect(errorsOf(object({ a: { type: 'string' } }), { 'x/y~z': 1 })).toMatchObject([{ pointer: '/x~1y~0z' }]);
  });

  test('is refused where members come from several schemas, and the named ones of each are taken', () => {
    const shared = object(
      { a: { type: 'string' } },
      { allOf: [{ properties: { b: { type: 'string' } } }], anyOf: [object({ c: { type: 'string' } }), object({ d: { type: 'string' } })] },
    );
    expect(check(shared, { a: '1', b: '2', c: '3' }).ok).toBe(true);
    expect(errorsOf(shared, { a: '1', x: '2' })).toMatchObject([{ pointer: '/x', code: 'unknown_argument' }]);
    const referred = object({ at: { $ref: '#/$defs/place' } }, { $defs: { place: object({ city: { type: 'string' } }) } });
    expect(check(referred, { at: { city: 'Leeds' } }).ok).toBe(true);
    expect(errorsOf(referred, { at: { city: 'Leeds', cty: 'x' } })).toMatchObject([{ pointer: '/at/cty', nearest: 'city' }]);
  });

  test('is refused under names that every object inherits', () => {
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      const value = JSON.parse(`{"order_id":"O-1","amount":1,"currency":"GBP","${name}":1}`) as JsonObject;
      expect(credit.checkArguments(value), name).toMatchObject({ ok: false, errors: [{ pointer: `/${name}`, code: 'unknown_argument' }] });
    }
    expect(errorsOf(object({ constructor: { type: 'string' } } as JsonObject, { required: ['constructor'] }), {})).toMatchObject([
      { pointer: '/constructor', code: 'required' },
    ]);
  });
});

describe('every error', () => {
  test.each<[JsonObject, JsonObject, object]>([
    [object({ a: { type: 'string' } }, { required: ['a'] }), {}, { pointer: '/a', code: 'required' }],
    [object({ a: { type: 'string' } }), { a: 2.0001 }, { pointer: '/a', code: 'type', expected: 'string' }],
    [object({ a: { enum: ['GBP', 'EUR'] } }), { a: 'GPB' }, { pointer: '/a', code: 'enum', expected: ['GBP', 'EUR'], nearest: 'GBP' }],
    [object({ a: { type: 'string', pattern: '^O-[0-9]+$' } }), { a: 'x' }, { pointer: '/a', code: 'pattern', expected: '^O-[0-9]+$' }],
    [object({ a: { type: 'integer', minimum: 1 } }), { a: 0 }, { pointer: '/a', code: 'minimum', expected: 1 }],
    [object({ a: { type: 'integer', exclusiveMaximum: 5 } }), { a: 5 }, { pointer: '/a', code: 'exclusive_maximum', expected: 5 }],
    [object({ a: { type: 'string', maxLength: 2 } }), { a: 'abc' }, { pointer: '/a', code: 'max_length', expected: 2 }],
    [object({ a: { type: 'string', format: 'date' } }), { a: '2026-02-30' }, { pointer: '/a', code: 'format', expected: 'date' }],
    [object({ a: { const: 3 } }), { a: 4 }, { pointer: '/a', code: 'const', expected: 3 }],
    [
      object({ a: { type: 'array', items: { type: 'integer' }, maxItems: 1 } }),
      { a: [1, 2] },
      { pointer: '/a', code: 'max_items', expected: 1 },
    ],
    [object({ a: { type: 'integer' } }), { a: 2 ** 53 }, { pointer: '/a', code: 'integer_precision' }],
  ])('%j over %j says where, what and what was expected', (schema, value, error) => {
    expect(errorsOf(schema, value)).toMatchObject([error]);
  });

  test('is listed in one answer, and not without bound', () => {
    expect(errorsOf(object({ a: { type: 'integer' }, b: { type: 'string' }, c: { type: 'string' } }, { required: ['a', 'b', 'c'] }), { a: 'x' })).toHaveLength(3);
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`x${index}`, 1]));
    expect(errorsOf(object({ a: { type: 'string' } }), many).length).toBe(20);
  });
});

describe('case-26: JSON inside a string', () => {
  const cart = object({
    items: { type: 'array', items: object({ sku: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } } }) },
    options: object({ gift: { type: 'boolean' } }),
    note: { type: 'string' },
  });

  test('is unwrapped where an object or array is wanted, and recorded', () => {
    expect(check(cart, { items: '[{"sku":"s"}]', options: '{"gift":true}' })).toEqual({
      ok: true,
      args: { items: [{ sku: 's' }], options: { gift: true } },
      repaired: ['/items', '/options'],
    });
    expect(check(cart, { items: '[{"sku":"s","tags":"[\\"x\\"]"}]' })).toEqual({
      ok: true,
      args: { items: [{ sku: 's', tags: ['x'] }] },
      repaired: ['/items', '/items/0/tags'],
    });
  });

  test('stays text where text is wanted or allowed', () => {
    expect(check(cart, { note: '{"a":1}' })).toEqual({ ok: true, args: { note: '{"a":1}' }, repaired: [] });
    const either = object({ a: { anyOf: [{ type: 'string', maxLength: 2 }, object({ b: { type: 'integer' } })] } });
    expect(check(either, { a: '{"b":1}' }).ok).toBe(false);
  });

  test('is refused when it is not one well-formed value of the wanted type, wrapped twice, or has a key twice', () => {
    for (const items of ['[{"sku":"s"}', '{"sku":"s"}', '"[]"', '[] []', '[{"sku":"a","sku":"b"}]', '']) {
      expect(check(cart, { items }).ok, items).toBe(false);
    }
  });

  test('is checked like anything else once it is unwrapped', () => {
    expect(errorsOf(cart, { items: '[{"skew":"s"}]' })).toMatchObject([
      { pointer: '/items/0/skew', code: 'unknown_argument', nearest: 'sku' },
    ]);
  });
});

describe('case-30: numbers as strings', () => {
  const schema = object({ number: { type: 'integer' }, rate: { type: 'number' }, flag: { type: 'boolean' }, code: { type: 'string' } });

  test('are coerced only where the contract says so, only toward the declared type, only without loss', () => {
    expect(check(schema, { number: '5812', rate: '0.5', flag: 'true' }, 'lossless')).toEqual({
      ok: true,
      args: { number: 5812, rate: 0.5, flag: true },
      repaired: ['/number', '/rate', '/flag'],
    });
    expect(check(schema, { number: '5812' })).toMatchObject({ ok: false });
    for (const number of ['05', '1e3', ' 7', '7 ', '+7', '-0', '7.0', '0x7', '9007199254740993', '', '٣']) {
      expect(check(schema, { number }, 'lossless').ok, number).toBe(false);
    }
    for (const rate of ['1.50', '.5', '1e3', 'NaN', 'Infinity']) expect(check(schema, { rate }, 'lossless').ok, rate).toBe(false);
    expect(check(schema, { code: 2.0001 }, 'lossless')).toMatchObject({ ok: false, errors: [{ pointer: '/code', code: 'type' }] });
  });
});

describe('checking', () => {
  test('holds each of several patterns against its own argument', () => {
    const schema = object({ a: { type: 'string', pattern: '^a+$' }, b: { type: 'string', pattern: '^b+$' } });
    expect(check(schema, { a: 'aa', b: 'bb' }).ok).toBe(true);
    expect(errorsOf(schema, { a: 'bb', b: 'aa' }).map(({ pointer, code }) => [pointer, code])).toEqual([
      ['/a', 'pattern'],
      ['/b', 'pattern'],
    ]);
    expect(credit.checkArguments({ order_id: 'order 1', amount: 1, currency: 'GBP' })).toMatchObject({
      ok: false,
      errors: [{ pointer: '/order_id', code: 'pattern' }],
    });
  });

  test('never changes what it was given, and fills in no default', () => {
    const schema = object({ items: { type: 'array', items: { type: 'string' } }, page: { type: 'integer', default: 1 } });
    const given = { items: '["a"]' };
    expect(check(schema, given)).toEqual({ ok: true, args: { items: ['a'] }, repaired: ['/items'] });
    expect(given).toEqual({ items: '["a"]' });
  });

  test('takes linear time on a pattern that JS backtracks on', () => {
    const schema = object({ a: { type: 'string', pattern: '^(a+)+$' } });
    expect(cpuMs(() => expect(check(schema, { a: `${'a'.repeat(60_000)}!` }).ok).toBe(false))).toBeLessThan(500);
  });

  test('agrees with itself: what passes unrepaired passes again, and is the same object', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom('order_id', 'amount', 'currency', 'x'), fc.jsonValue()), (value) => {
        const verdict = credit.checkArguments(value as JsonObject);
        if (verdict.ok && verdict.repaired.length === 0) expect(verdict.args).toBe(value);
        if (verdict.ok) expect(credit.checkArguments(verdict.args)).toMatchObject({ ok: true, repaired: [] });
      }),
      { numRuns: 200 },
    );
  });
});

describe('results', () => {
  const admit = (schema: JsonObject, value: Json) => schemas.result(schema)(value);
  const schema = object(
    {
      id: { type: 'string' },
      lines: { type: 'array', items: object({ sku: { type: 'string' } }) },
      owner: { anyOf: [object({ name: { type: 'string' } }), { type: 'null' }] },
      tags: { type: 'object', additionalProperties: { type: 'string' } },
      n: { type: 'integer' },
    },
    { required: ['id'] },
  );

  test('keep what the schema names at every level and nothing else', () => {
    expect(
      admit(schema, { id: 'a', secret: 1, lines: [{ sku: 's', cost: 9 }], owner: { name: 'n', email: 'e' }, tags: { x: 'y' } }),
    ).toEqual({ result: { id: 'a', lines: [{ sku: 's' }], owner: { name: 'n' }, tags: { x: 'y' } } });
    expect(admit(schema, { id: 'a', owner: null })).toEqual({ result: { id: 'a', owner: null } });
  });

  test('that do not satisfy the schema are none: missing members, wrong types, integers that are not exact', () => {
    for (const value of [{}, { id: 1 }, { id: 'a', n: 9007199254740992 }, { id: 'a', n: 1.5 }, null, [], 'a'] as Json[])
      expect(admit(schema, value), JSON.stringify(value)).toBeNull();
  });

  test('are not changed in place', () => {
    const value = { id: 'a', secret: 1 };
    admit(schema, value);
    expect(value).toEqual({ id: 'a', secret: 1 });
  });
});
