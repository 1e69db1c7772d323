import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { celClass, celDyn, celInt, celList, celMap, celString, celTimestamp, celTypeOf } from '../../src/contract/cel-types.js';
import { Names, type Wanted } from '../../src/contract/expressions.js';
import { EvaluationError, type Scope } from '../../src/contract/plan.js';
import type { JsonObject } from '../../src/model.js';
import { cpuMs } from '../support/cpu.js';

const schema: JsonObject = {
  type: 'object',
  properties: {
    status: { enum: ['PENDING', 'DELIVERED'] },
    amount: { type: 'integer' },
    rate: { type: 'number' },
    note: { type: ['string', 'null'] },
    id: { type: 'string' },
    items: { type: 'array', items: { type: 'object', properties: { sku: { type: 'string' }, quantity: { type: 'integer' } } } },
    stock: { type: 'object', additionalProperties: { type: 'integer' } },
    mixed: { type: ['string', 'integer'] },
    shipping: { $ref: '#/$defs/address' },
    parent: { $ref: '#' },
  },
  $defs: { address: { type: 'object', properties: { city: { type: 'string' } } } },
};
const names = Names.of({
  order: celTypeOf(schema, schema, 'order'),
  status: celInt,
  headers: celMap(celString),
  body: celDyn,
  now: celTimestamp,
});
const order = {
  status: 'DELIVERED',
  amount: 250,
  rate: 0.5,
  note: null,
  id: 'O-1',
  items: [
    { sku: 'a', quantity: 2 },
    { sku: 'b', quantity: 3 },
  ],
  stock: { a: 4 },
  mixed: 7,
  shipping: { city: 'Leeds' },
};

function compiled<K extends keyof Wanted>(source: string, wanted: K) {
  const result = names.compile(source, wanted);
  if ('problems' in result) throw new Error(result.problems.map(({ code, message }) => `${code} ${message}`).join('; '));
  return result;
}
const value = (source: string, scope: Scope = { order }) => compiled(source, 'json').evaluate(scope);
const codes = (source: string, wanted: keyof Wanted = 'json') => {
  const result = names.compile(source, wanted);
  return 'problems' in result ? result.problems.map(({ code }) => code) : [];
};

describe('values', () => {
  test('integers are exact, come back as JSON numbers, and are never floats', () => {
    expect(value('order.amount * 3')).toBe(750);
    expect(value('order.amount / 100')).toBe(2);
    expect(codes('order.amount == order.rate')).toEqual(['CG101']);
    expect(() => value('order.amount * 9007199254740993')).toThrow(EvaluationError);
    expect(() => value('order.amount * 9223372036854775807')).toThrow(EvaluationError);
  });

  test('a value off its schema is a failure and never an answer', () => {
    for (const off of [{ amount: '250' }, { amount: 2.5 }, { amount: 2 ** 53 }, { items: {} }, { shipping: 'Leeds' }]) {
      expect(() => value('order.amount + size(order.items)', { order: { ...order, ...off } as never }), JSON.stringify(off)).toThrow(
        EvaluationError,
      );
    }
  });

  test('an absent member and a null one can be asked for and cannot be read', () => {
    expect(value('has(order.note)')).toBe(false);
    expect(value('has(order.note) ? order.note : "none"')).toBe('none');
    expect(() => value('order.note')).toThrow(EvaluationError);
    expect(() => value('order.status', {})).toThrow(EvaluationError);
    expect(() => value('order.status', { order: null })).toThrow(EvaluationError);
  });

  test('lists, maps, references and nested objects are typed all the way', () => {
    expect(value('order.items.map(i, i.quantity)')).toEqual([2, 3]);
    expect(value('order.items.all(i, i.quantity > 1 && has(i.sku))')).toBe(true);
    expect(value('order.stock["a"] + order.items[0].quantity')).toBe(6);
    expect(value('order.shipping.city')).toBe('Leeds');
    expect(value('order.items')).toBe(order.items);
    expect(codes('order.items.all(i, i.qty > 1)')).toEqual(['CG101']);
    expect(codes('order.items.all(i, has(i.qty))')).toEqual(['CG101']);
    expect(codes('order.shipping.town')).toEqual(['CG101']);
  });

  test('what holds itself is typed at every depth, wherever one begins to read it', () => {
    const tree: JsonObject = {
      type: 'object',
      properties: { root: { $ref: '#/$defs/node' }, forest: { $ref: '#/$defs/nodes' } },
      $defs: {
        node: { type: 'object', properties: { size: { type: 'integer' }, below: { $ref: '#/$defs/nodes' }, named: { type: 'object', additionalProperties: { $ref: '#/$defs/node' } } } },
        nodes: { type: 'array', items: { $ref: '#/$defs/node' } },
      },
    };
    const leaf = { size: 3, below: [], named: {} };
    const given = { tree: { root: { size: 1, below: [{ size: 2, below: [leaf] }], named: { a: { named: { b: leaf } } } }, forest: [{ below: [leaf] }] } };
    const shuffled = { ...tree, properties: Object.fromEntries(Object.entries(tree['properties'] as JsonObject).reverse()) };
    for (const written of [tree, shuffled]) {
      const trees = Names.of({ tree: celTypeOf(written, written, 'tree') });
      const read = (source: string) => {
        const result = trees.compile(source, 'json');
        return 'problems' in result ? result.problems.map(({ code }) => code) : result.evaluate(given);
      };
      expect(read('tree.root.below[0].below[0].size + tree.forest[0].below[0].size')).toBe(6);
      expect(read('tree.root.named["a"].named["b"]')).toBe(leaf);
      expect(read('has(tree.root.below[0].below[0].sice)')).toEqual(['CG101']);
      expect(read('tree.forest[0].below[0].below[0].sise')).toEqual(['CG101']);
    }
  });

  test('a list of itself, with no object between, has no type that could be said', () => {
    const endless: JsonObject = { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: { type: 'array', items: { $ref: '#/$defs/b' } }, b: { type: 'array', items: { $ref: '#/$defs/a' } } } };
    expect(celTypeOf(endless, endless, 'endless').fields!.get('a')!.name).toBe('list<list<dyn>>');
  });

  test('a body is read without types, missing members fail, and its integers compare with literals', () => {
    const body = { code: 'LIMIT', n: 3, constructor: 'x', list: [{ a: 1 }] };
    expect(value('body.code == "LIMIT" && body.n == 3 && body.list[0].a == 1 && body.constructor == "x"', { body })).toBe(true);
    expect(() => value('body.gone == "LIMIT"', { body })).toThrow(EvaluationError);
    expect(() => value('body.code == "LIMIT"', { body: null })).toThrow(EvaluationError);
    expect(compiled('status == 422 && body.code == "LIMIT"', 'bool').evaluate({ status: 500, body: null })).toBe(false);
    expect(value('headers.etag', { headers: { etag: '"7"' } })).toBe('"7"');
    expect(() => value('headers.constructor', { headers: {} })).toThrow(EvaluationError);
  });

  test('what a scope holds is not changed by evaluating over it', () => {
    const before = structuredClone(order);
    value('order.items.map(i, i.sku)');
    expect(order).toEqual(before);
  });

  test('any JSON goes through an untyped name and comes back as it was', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (body) => {
        if (body === null) return;
        const exact =
          JSON.stringify(body) ===
          JSON.stringify(
            JSON.parse(JSON.stringify(body), (_, v: unknown) =>
              typeof v === 'number' && Number.isInteger(v) && !Number.isSafeInteger(v) ? null : v,
            ),
          );
        if (exact) expect(JSON.stringify(value('body', { body: body as never }))).toBe(JSON.stringify(body));
      }),
      { numRuns: 200 },
    );
  });

  test('lets are worked out when they are read, exactly, and count as what they read', () => {
    const total = compiled('order.items.map(i, i.quantity)', 'json');
    const extended = names.withLazy('quantities', total);
    const sum = extended.compile('quantities[0] + quantities[1] == 5', 'bool');
    if ('problems' in sum) throw new Error(sum.problems[0]!.message);
    expect(sum.evaluate({ order })).toBe(true);
    expect([...sum.names]).toEqual(['order']);
  });
});

describe('refusals at compile time', () => {
  test.each([
    ['dyn(order.amount) > 1', 'CG104'],
    ['type(order.amount) == int', 'CG104'],
    ['b"x".json().a == 1', 'CG104'],
    ['order.id.matches(order.status)', 'CG104'],
    ['order.id.matches("(?=a)")', 'CG104'],
    ['order.constructor', 'CG101'],
    ['order["typo"]', 'CG101'],
    ['order[order.id]', 'CG101'],
    ['order.toString', 'CG101'],
    ['has(order.typo)', 'CG101'],
    ['has(order.shipping.town)', 'CG101'],
    ['missing', 'CG101'],
    ['order.amount +', 'CG103'],
    [`${'('.repeat(200)}1${')'.repeat(200)}`, 'CG105'],
    [`"${'x'.repeat(2000)}" == order.id`, 'CG105'],
    ['order.items.all(a, order.items.all(b, order.items.all(c, c.quantity > 0)))', 'CG105'],
    ['timestamp("2023-02-29T00:00:00Z") < now', 'CG102'],
    ['timestamp(order.amount) < now', 'CG101'],
    ['timestamp("2023-03-01T24:00:00Z") < now', 'CG102'],
    ['timestamp("2023-03-01T23:59:60Z") < now', 'CG102'],
    ['timestamp("yesterday") < now', 'CG102'],
    ['now - timestamp("2023-03-01T00:00:00Z") < duration("1 day")', 'CG102'],
    ['now + duration("87660001h") > now', 'CG102'],
    ['order.amount < 9223372036854775808', 'CG102'],
    ['order.amount < 9223372036854775807 + 1', 'CG102'],
    ['order.amount > 1 / (2 - 2)', 'CG102'],
    ['order.amount > int("ten")', 'CG102'],
    ['order.id == ["a", "b"][2]', 'CG102'],
    ['now', 'CG102'],
  ])('%s is refused', (source, code) => {
    expect(codes(source)).toContain(code);
  });

  test('literals that can be evaluated are let through, at their bounds too', () => {
    for (const source of [
      'order.amount < 9223372036854775807',
      'now + duration("87660000h") > timestamp("2024-02-29T23:59:59.999Z")',
      'order.amount > int("10") + size("abc")',
      'order.id.matches("^O-[0-9]+$") && order.id in ["a", "b"]',
      'order.items.map(i, {"a": 1, "b": [1, "x"]})',
    ]) {
      expect(names.compile(source, 'json'), source).not.toHaveProperty('problems');
    }
  });

  test('the type is held against what the place needs', () => {
    expect(codes('order.amount', 'bool')).toEqual(['CG102']);
    expect(codes('order.amount', 'string')).toEqual(['CG102']);
    expect(codes('order.items', 'text')).toEqual(['CG102']);
    expect(codes('body.x', 'text')).toEqual(['CG102']);
    expect(() => compiled('body.x', 'bool').evaluate({ body: { x: 'true' } })).toThrow(EvaluationError);
  });

  test('top-level names and direct members are known, loop variables are not among them', () => {
    const { names: read, paths } = compiled('order.items.exists(order2, order2.quantity > status) && has(order.note)', 'bool');
    expect([...read].sort()).toEqual(['order', 'status']);
    expect([...paths].sort()).toEqual(['order.items', 'order.note']);
  });
});

describe('bounds', () => {
  test('matches runs in linear time on a hostile text', () => {
    const { evaluate } = compiled('order.id.matches("^(a+)+$")', 'bool');
    expect(cpuMs(() => expect(evaluate({ order: { id: `${'a'.repeat(50_000)}!` } })).toBe(false))).toBeLessThan(500);
  });

  test('matches searches anywhere, as in CEL', () => {
    expect(compiled('order.id.matches("[0-9]")', 'bool').evaluate({ order })).toBe(true);
  });

  test('a recursive schema ends', () => {
    expect(value('has(order.parent)', { order: { ...order, parent: { amount: 1 } } })).toBe(true);
  });

  test('classes of equal names in different places do not meet', () => {
    const a = celClass('thing', new Map([['x', celInt]]));
    const b = celClass('thing', new Map([['x', celString]]));
    const both = Names.of({ a, b: celList(b) }).compile('string(a.x) == b[0].x', 'bool');
    if ('problems' in both) throw new Error(both.problems[0]!.message);
    expect(both.evaluate({ a: { x: 1 }, b: [{ x: '1' }] })).toBe(true);
  });
});
