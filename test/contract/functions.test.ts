/** The functions that CEL does not have, and the bound on what an expression may cost: a check must stay cheap whatever was sent. */
import { describe, expect, test } from 'vitest';
import { celTypeOf } from '../../src/contract/cel-types.js';
import { Names } from '../../src/contract/expressions.js';
import { EvaluationError } from '../../src/contract/plan.js';
import type { JsonObject } from '../../src/model.js';

const list = (items: JsonObject, more: JsonObject = {}): JsonObject => ({ type: 'array', items, ...more });
const schema: JsonObject = {
  type: 'object',
  properties: {
    ids: list({ type: 'string' }, { maxItems: 20 }),
    numbers: list({ type: 'integer' }, { maxItems: 20 }),
    rates: list({ type: 'number' }, { maxItems: 20 }),
    objects: list({ type: 'object', properties: { tags: list({ type: 'string' }, { maxItems: 5 }) } }, { maxItems: 20 }),
    endless: list({ type: 'string' }),
    stock: { type: 'object', additionalProperties: { type: 'integer' }, maxProperties: 20 },
    shared: { $ref: '#/$defs/few' },
  },
  $defs: { few: list({ type: 'string' }, { maxItems: 3 }) },
};
const names = Names.of({ args: celTypeOf(schema, schema, 'args') });
const args = { ids: ['a', 'b', 'a'], numbers: [3, 4, 3], rates: [0.5, 0.25], objects: [{ tags: ['x'] }], endless: ['z'], stock: { a: 1 }, shared: [] };

function compiled(source: string) {
  const result = names.compile(source, 'json');
  if ('problems' in result) throw new Error(result.problems.map(({ code, message }) => `${code} ${message}`).join('; '));
  return result;
}
const value = (source: string, over: object = args) => compiled(source).evaluate({ args: over as JsonObject });
const problems = (source: string) => {
  const result = names.compile(source, 'json');
  return 'problems' in result ? result.problems.map(({ code, message }) => `${code} ${message}`).join('; ') : '';
};

describe('functions', () => {
  test.each([
    ['indices(args.ids)', [0, 1, 2]],
    ['indices(args.shared)', []],
    ['count(args.ids, "a")', 2],
    ['count(args.numbers, 4)', 1],
    ['count(args.ids, "c")', 0],
    ['distinct(args.ids)', ['a', 'b']],
    ['distinct(args.numbers + [5, 5])', [3, 4, 5]],
    ['sum(args.numbers)', 10],
    ['sum(args.rates)', 0.75],
    ['sum(args.numbers.filter(n, n > 9))', 0],
    ['distinct(args.objects.map(o, o.tags[0]))', ['x']],
  ])('%s', (source, expected) => {
    expect(value(source)).toEqual(expected);
  });

  test('a sum beyond 64 bits fails as every other arithmetic does, and is never a rounded number', () => {
    expect(() => value('sum([9223372036854775807, args.numbers[0]]) > 0')).toThrow(EvaluationError);
    expect(value('sum([9223372036854775804, args.numbers[0]]) > 0')).toBe(true);
  });

  test.each(['count(args.ids, 1)', 'sum(args.ids)', 'distinct(args.objects)', 'indices(args.stock)', 'sum(args.numbers) + 0.5'])(
    '%s does not type-check',
    (source) => {
      expect(problems(source)).toMatch(/^CG101/);
    },
  );
});

describe('decimals', () => {
  test.each([
    ['decimal("12.3", 2)', '12.30'],
    ['decimal(-1, 2) - decimal("0.05", 2)', '-1.05'],
    ['decimal(0.1 + 0.2, 2) == decimal("0.3", 2)', true],
    ['decimal(args.rates[0] * 7.519999999999982, 2)', '3.76'],
    ['sum(args.rates.map(rate, decimal(rate, 3)))', '0.750'],
    ['decimal("19.99", 2) * size(args.ids) <= decimal("59.97", 2)', true],
    ['decimal("19.99", 2) * size(args.ids) < decimal("59.97", 2)', false],
    ['sum(args.rates.filter(rate, rate > 9.0).map(rate, decimal(rate, 2)))', '0.00'],
  ])('%s is %j', (source, expected) => {
    expect(value(source)).toEqual(expected);
  });

  test('are exact where floats are not, as lets too', () => {
    const total = compiled('sum(args.rates.map(rate, decimal(rate, 2)))');
    const check = names.withLazy('total', total).compile('total == decimal("0.30", 2)', 'bool');
    if ('problems' in check) throw new Error(check.problems[0]!.message);
    expect(check.evaluate({ args: { ...args, rates: [0.1, 0.2] } as never })).toBe(true);
    expect(0.1 + 0.2 === 0.3).toBe(false);
  });

  test.each([
    ['decimal("1.00", 2) + 1', 'CG101'],
    ['decimal("1.00", 2) < 1.5', 'CG101'],
    ['decimal("1.00", 2) == decimal("1.000", 3)', 'CG101'],
    ['decimal("1.00", 2) * 1.5', 'CG101'],
    ['decimal("1.00", 2).units', 'CG101'],
    ['decimal("1.005", 2)', 'CG102'],
    ['decimal("one", 2)', 'CG102'],
    ['decimal("1", args.numbers[0])', 'CG104'],
    ['decimal("1", 7)', 'CG104'],
  ])('%s does not compile', (source, code) => {
    expect(problems(source)).toMatch(new RegExp(`^${code}`));
  });

  test('a number beyond what a float carries to the cent is not taken', () => {
    expect(() => value('decimal(args.rates[0], 2)', { rates: [1e15] })).toThrow(EvaluationError);
  });
});

describe('the bound on steps', () => {
  test('comes from maxItems, through references, maps, lets and what is made of a list', () => {
    const most = (source: string) => compiled(source).maxItems;
    expect(most('args.ids')).toBe(20);
    expect(most('args.shared')).toBe(3);
    expect(most('args.stock')).toBe(20);
    expect(most('args.endless')).toBeUndefined();
    expect(most('args.ids.map(id, [id])')).toBe(20);
    expect(most('indices(args.ids) + [1]')).toBe(21);
    expect(most('distinct(args.ids.filter(id, id != ""))')).toBe(20);
    expect(most('args.objects[0].tags')).toBe(5);
    expect(most('true ? args.ids : args.endless')).toBeUndefined();
    expect(most('cel.bind(all, args.ids, all)')).toBe(20);
    const withLet = names.withLazy('own', compiled('args.ids.map(id, id)')).compile('own', 'json');
    expect('maxItems' in withLet && withLet.maxItems).toBe(20);
  });

  test('one loop over what no schema bounds is let through, one inside another is not', () => {
    expect(problems('args.endless.all(a, a != "")')).toBe('');
    expect(problems('args.endless.all(a, args.endless.exists(b, b != a))')).toMatch(/^CG105 .*steps/);
    expect(problems('args.endless.all(a, count(args.endless, a) == 1)')).toMatch(/^CG105 .*steps/);
    expect(problems('args.endless.all(a, a in args.endless)')).toMatch(/^CG105 .*steps/);
    expect(problems('args.ids.all(a, args.objects.exists(o, o.tags.size() > 0 && a in o.tags))')).toBe('');
  });

  test('holds because a list longer than what was assumed cannot be read', () => {
    expect(value('args.endless.all(a, a == "z")', { endless: Array(10_000).fill('z') })).toBe(true);
    expect(() => value('args.endless.all(a, a == "z")', { endless: Array(10_001).fill('z') })).toThrow(EvaluationError);
    expect(() => value('size(args.ids) > 0', { ids: Array(21).fill('z') })).toThrow(EvaluationError);
  });
});
