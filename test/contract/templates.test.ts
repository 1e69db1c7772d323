/** What a model writes into an argument must never choose the host, the resource, a header or a parameter of a request. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { celClass, celDyn, celString } from '../../src/contract/cel-types.js';
import { Names } from '../../src/contract/expressions.js';
import { EvaluationError } from '../../src/contract/plan.js';
import { parseTemplate, pathProblem, renderRequest, type CompiledTemplate } from '../../src/contract/templates.js';
import { retailTool } from './fixture.js';

const names = Names.of({
  args: celClass(
    'args',
    new Map([
      ['v', celString],
      ['w', celDyn],
    ]),
  ),
});
function template(text: string): CompiledTemplate {
  return parseTemplate(text).map((part) => {
    if ('text' in part) return part.text;
    const compiled = names.compile(part.expression, 'text');
    if ('problems' in compiled) throw new Error(compiled.problems[0]!.message);
    return compiled;
  });
}
const request = {
  method: 'POST',
  base: 'https://up.test/base',
  path: template('/orders/{args.v}/lines'),
  query: [{ name: 'q', value: template('{args.v}') }],
  headers: [{ name: 'x-key', value: template('k-{args.v}') }],
  body: null,
};
const hostile = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: fc.constantFrom(...'./\\%?#&=@:;\r\n\0 \t2eEfF{}') }),
  fc.constantFrom(
    '..',
    '.',
    '',
    '../..',
    '%2e%2e',
    '..%2f',
    '//evil.test',
    '\\evil.test',
    '?x=1',
    '#f',
    'a\r\nhost: evil',
    'a&q=2',
    '\u2028',
    '\ud800',
  ),
);
const without = (part: 'path' | 'query' | 'headers') => ({
  ...request,
  path: part === 'path' ? request.path : template('/orders/1/lines'),
  query: part === 'query' ? request.query : [],
  headers: part === 'headers' ? request.headers : [],
});

/** Undefined when the value was refused. */
function rendered(part: 'path' | 'query' | 'headers', v: string) {
  try {
    return renderRequest(without(part), { args: { v } });
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(EvaluationError);
    return undefined;
  }
}

describe('no argument', () => {
  test('can change host, depth or any other segment of a path, and what is sent is what URL parsers read', () => {
    fc.assert(
      fc.property(hostile, (v) => {
        const sent = rendered('path', v);
        if (!sent) return;
        const url = new URL(sent.url);
        expect(url.href).toBe(sent.url);
        expect([url.origin, url.search, url.hash]).toEqual(['https://up.test', '', '']);
        const segments = url.pathname.split('/');
        expect([segments.length, segments[1], segments[2], segments[4]]).toEqual([5, 'base', 'orders', 'lines']);
        expect(decodeURIComponent(segments[3]!)).toBe(v);
      }),
      { numRuns: 1000 },
    );
  });

  test('that is empty, `.`, `..` or not Unicode becomes part of a path', () => {
    for (const v of ['', '.', '..', '\ud800']) expect(rendered('path', v), JSON.stringify(v)).toBeUndefined();
    for (const v of ['...', 'a.b', '%2e%2e', 'O-417']) expect(rendered('path', v), v).toBeDefined();
  });

  test('can add, drop or change a parameter of a query', () => {
    fc.assert(
      fc.property(hostile, (v) => {
        const sent = rendered('query', v);
        if (!sent) return;
        const url = new URL(sent.url);
        expect(url.href).toBe(sent.url);
        expect(url.pathname).toBe('/base/orders/1/lines');
        expect([...url.searchParams]).toEqual([['q', v]]);
      }),
      { numRuns: 1000 },
    );
  });

  test('can add a header or end one', () => {
    fc.assert(
      fc.property(hostile, (v) => {
        const sent = rendered('headers', v);
        if (!sent) return;
        expect(Object.keys(sent.headers)).toEqual(['x-key']);
        expect(sent.headers['x-key']).toBe(`k-${v}`);
        expect(sent.headers['x-key']).toMatch(/^[\x20-\x7e]+$/);
      }),
      { numRuns: 1000 },
    );
    for (const v of ['a\r\nhost: evil', 'a\n', 'a\0', 'a ']) expect(rendered('headers', v), JSON.stringify(v)).toBeUndefined();
  });

  test('can change the shape of a body: every value stays the value of its member', () => {
    const credit = retailTool('issue_credit');
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (currency) => {
        const { body } = credit.render({
          args: { order_id: 'O-1', amount: 9007199254740991, currency },
          bound: { customer_id: 'c' },
          operation: { id: 'op' },
          order: { version: '"1"' },
        });
        expect(JSON.parse(body!)).toEqual({ amount: 9007199254740991, currency, customer_id: 'c' });
      }),
      { numRuns: 300 },
    );
  });
});

describe('the grammar', () => {
  test('finds the end of an expression that has braces and quotes of its own', () => {
    expect(parseTemplate('a {{b}} c{args.v}')).toEqual([{ text: 'a {b} c' }, { expression: 'args.v', offset: 10 }]);
    expect(parseTemplate('x{ {"a": "}"}["a"] }y')).toEqual([{ text: 'x' }, { expression: ' {"a": "}"}["a"] ', offset: 2 }, { text: 'y' }]);
    expect(parseTemplate('{{}}')).toEqual([{ text: '{}' }]);
  });

  test('refuses what is open, closed too often, or empty', () => {
    for (const text of ['{a', 'a}', '{}', '{ }', '{"}', 'a{b}c}']) expect(() => parseTemplate(text), text).toThrow(SyntaxError);
  });

  test('a literal path holds no query, no dots, nothing that a parser would rewrite', () => {
    for (const path of ['/a/{args.v}', '/a.b/%7Ec', '/']) expect(pathProblem(parseTemplate(path)), path).toBeUndefined();
    for (const path of ['/a?b', '/a#b', '/a/../b', '/./a', '/%2e%2E/a', '/a b', '/a\\b', '/ä', '/%zz'])
      expect(pathProblem(parseTemplate(path)), path).toBeDefined();
  });
});

test('a template over an absent value is an error, not an empty text', () => {
  expect(() => renderRequest(request, { args: {} })).toThrow(EvaluationError);
});
