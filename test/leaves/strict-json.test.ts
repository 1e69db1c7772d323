import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/model.js';
import { decodeUtf8, findUnstorable, parseStrict } from '../../src/strict-json.js';

const limits = { maxDepth: 64 };
const parse = (text: string) => parseStrict(text, limits);
const refusal = (text: string) => {
  const result = parse(text);
  if (result.ok) throw new Error(`accepted ${text}`);
  return result;
};

/** The reference: JSON.parse, or undefined where it throws. */
const reference = (text: string): { value: Json } | undefined => {
  try {
    return { value: JSON.parse(text) as Json };
  } catch {
    return undefined;
  }
};

/** Text of a value in which no number is an unsafe integer literal. */
const document = fc
  .jsonValue({ maxDepth: 6, noUnicodeString: false })
  .filter((value) => !/(?<![.\d"])-?\d{16,}(?![.\deE])/.test(JSON.stringify(value)));

describe('strict JSON: agreement with the reference', () => {
  it('reads every document without duplicates as JSON.parse does, compact or spaced', () => {
    fc.assert(fc.property(document, fc.constantFrom(0, 1, '\t'), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      expect(parse(text)).toStrictEqual({ ok: true, value: JSON.parse(text) });
    }), { numRuns: 1000 });
  });

  it('reads numbers as JSON.parse does, minus zero and subnormals included', () => {
    fc.assert(fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom('toString', 'toExponential'), (number, form) => {
      const text = Object.is(number, -0) ? '-0' : number[form]();
      fc.pre(!/^-?\d{16,}$/.test(text));
      expect(parse(text)).toStrictEqual({ ok: true, value: JSON.parse(text) });
    }), { numRuns: 2000 });
    for (const text of ['-0', '-0.0', '0e0', '1E+2', '5e-324', '1e-999', '0.1e1', '9007199254740991', '-9007199254740991']) {
      expect(parse(text)).toStrictEqual({ ok: true, value: JSON.parse(text) });
    }
  });

  it('reads strings as JSON.parse does, whatever mixture of escapes wrote them', () => {
    const unit = fc.nat(0xffff).chain((code) =>
      fc.constantFrom(`\\u${code.toString(16).padStart(4, '0')}`, String.fromCharCode(code), '\\n', '\\\\', '\\"', '\\/', '\\u00E9'));
    const plain = fc.constantFrom('', 'x'.repeat(31), 'y'.repeat(80));
    fc.assert(fc.property(plain, fc.array(unit, { maxLength: 30 }), plain, (before, units, after) => {
      const text = `"${before}${units.join('')}${after}"`;
      const expected = reference(text);
      const result = parse(text);
      if (expected) expect(result).toStrictEqual({ ok: true, value: expected.value });
      else expect(result).toMatchObject({ ok: false, code: 'MALFORMED_JSON' });
    }), { numRuns: 2000 });
  });

  it('accepts nothing that JSON.parse refuses, and never throws, under mutation of good documents', () => {
    const alphabet = [...'{}[]:,"\\/ \t\n\r0123456789.eE+-truefalsnuU\0\ufeff\u00a0\u2028é'];
    const edit = fc.record({ at: fc.nat(), remove: fc.nat(3), insert: fc.array(fc.constantFrom(...alphabet), { maxLength: 3 }) });
    let refusedByBoth = 0;
    fc.assert(fc.property(document, fc.array(edit, { minLength: 1, maxLength: 4 }), (value, edits) => {
      let text = JSON.stringify(value);
      for (const { at, remove, insert } of edits) {
        const offset = at % (text.length + 1);
        text = text.slice(0, offset) + insert.join('') + text.slice(offset + remove);
      }
      const result = parse(text);
      const expected = reference(text);
      if (!expected) {
        refusedByBoth++;
        expect(result.ok).toBe(false);
      } else if (result.ok) expect(result.value).toStrictEqual(expected.value);
      else expect(result.code).not.toBe('MALFORMED_JSON');
    }), { numRuns: 5000 });
    expect(refusedByBoth).toBeGreaterThan(500);
  });
});

describe('strict JSON: what JSON.parse lets through', () => {
  it('finds a duplicate key at any depth, also when the two are spelt with different escapes', () => {
    const asEscape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
    const spell = (key: string, escaped: boolean) => (escaped ? `"${key.split('').map(asEscape).join('')}"` : JSON.stringify(key));
    const place = fc.array(fc.constantFrom<'array' | 'object'>('array', 'object'), { maxLength: 8 });
    const others = fc.uniqueArray(fc.string({ unit: 'binary' }), { maxLength: 5 });
    fc.assert(fc.property(fc.string({ unit: 'binary' }), others, place, fc.boolean(), fc.boolean(), (key, keys, levels, first, second) => {
      const between = keys.filter((other) => other !== key).map((other) => `${JSON.stringify(other)}:[]`);
      const members = [`${spell(key, first)}:1`, ...between, `${spell(key, second)}:1`].join(',');
      const text = levels.reduceRight((inner, kind) => (kind === 'array' ? `[null,${inner}]` : `{"in":${inner}}`), `{${members}}`);
      const path = levels.map((kind) => (kind === 'array' ? '/1' : '/in')).join('');
      const expected = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      expect(refusal(text)).toMatchObject({ code: 'DUPLICATE_KEY', pointer: expected });
    }), { numRuns: 1000 });
  });

  it('takes equal keys of different objects for no duplicate', () => {
    expect(parse('{"a":{"a":[{"a":1},{"a":2}]}}').ok).toBe(true);
    expect(parse('{"toString":1,"constructor":2,"hasOwnProperty":3}').ok).toBe(true);
  });

  it('refuses numbers that overflow, wherever they stand', () => {
    for (const text of ['1e999', '-1e999', '1.0e400', '{"a":[0,1e309]}']) expect(refusal(text).code).toBe('NUMBER_NOT_FINITE');
    expect(refusal('{"a":[0,1e309]}')).toMatchObject({ pointer: '/a/1', position: 8 });
  });

  it('refuses every integer literal that a double cannot carry, and no other', () => {
    fc.assert(fc.property(fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), (integer) => {
      const text = `{"n":${integer}}`;
      const exact = BigInt(Number(integer)) === integer && Number.isSafeInteger(Number(integer));
      if (exact) expect(parse(text)).toStrictEqual({ ok: true, value: { n: Number(integer) } });
      else expect(refusal(text)).toMatchObject({ code: 'INTEGER_PRECISION', pointer: '/n', position: 5 });
    }), { numRuns: 1000 });
    for (const text of ['9007199254740992', '-9007199254740992', '9007199254740993', '9'.repeat(400)]) expect(refusal(text).code).toBe('INTEGER_PRECISION');
    expect(parse('9007199254740993.0').ok).toBe(true);
  });

  it('costs no more for many such integers under a long key than for exact ones: seconds, when each had its place put into words', () => {
    const text = (integer: string): string => `{"${'k'.repeat(400_000)}":[${Array.from({ length: 20_000 }, () => integer).join()}]}`;
    const cpuMs = (integer: string): number => {
      const given = text(integer);
      const before = process.cpuUsage();
      expect(parseStrict(given, limits, () => undefined).ok).toBe(true);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    };
    const least = (integer: string): number => Math.min(...Array.from({ length: 5 }, () => cpuMs(integer)));
    expect(least('9007199254740993')).toBeLessThan(20 * least('9007199254740991') + 10);
  });

  it('gives an integer that a double cannot carry as its digits where that is asked for, names its place, and refuses all else as before', () => {
    fc.assert(fc.property(fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), (integer) => {
      const inexact: string[] = [];
      const exact = Number.isSafeInteger(Number(integer));
      const result = parseStrict(`{"a/b":[0,{"n":${integer}}],"m":1}`, limits, (pointer) => inexact.push(pointer()));
      expect(result).toStrictEqual({ ok: true, value: { 'a/b': [0, { n: exact ? Number(integer) : String(integer) }], m: 1 } });
      expect(inexact).toEqual(exact ? [] : ['/a~1b/1/n']);
    }), { numRuns: 500 });
    for (const text of ['{"n":9007199254740993,"n":1}', '[9007199254740993', '9007199254740993 1', '1e999']) expect(parseStrict(text, limits, () => undefined).ok).toBe(false);
  });

  it('bounds the depth before it recurses: 20,000 brackets neither pass nor overflow the stack', () => {
    for (const opening of ['[', '{"a":', '[{"a":']) {
      expect(refusal(opening.repeat(20_000)).code).toBe('TOO_DEEP');
      const anyDepth = parseStrict(opening.repeat(20_000), { maxDepth: Infinity });
      expect(anyDepth).toMatchObject({ ok: false, code: 'TOO_DEEP' });
    }
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    expect(parseStrict(nested(5), { maxDepth: 5 }).ok).toBe(true);
    expect(parseStrict(nested(6), { maxDepth: 5 })).toMatchObject({ ok: false, code: 'TOO_DEEP', pointer: '/0/0/0/0/0', position: 5 });
    expect(parseStrict('7', { maxDepth: 0 }).ok).toBe(true);
    expect(parseStrict('[]', { maxDepth: 0 }).ok).toBe(false);
    expect(parse('[[],[],[[]],[]]').ok).toBe(true);
  });

  it('keeps `__proto__` as a plain own member and touches no prototype', () => {
    for (const text of ['{"__proto__":{"admin":true}}', '{"a":{"\\u005f_proto__":{"admin":true}}}']) {
      const result = parse(text);
      if (!result.ok) throw new Error(result.message);
      expect(result.value).toStrictEqual(JSON.parse(text));
      const holder = (result.value as { a?: object }).a ?? (result.value as object);
      expect(Object.getPrototypeOf(holder)).toBe(Object.prototype);
      expect(Object.keys(holder)).toStrictEqual(['__proto__']);
    }
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
    expect(refusal('{"__proto__":1,"__proto__":2}').code).toBe('DUPLICATE_KEY');
  });
});

describe('strict JSON: what a refusal says', () => {
  it.each([
    ['', '', 0], ['  ', '', 2], ['[1,]', '/1', 3], ['{"a":1,}', '', 7], ['{"a":1,"b\\x":2}', '', 9], ['{"a" 1}', '/a', 5], ['{a:1}', '', 1], ["'a'", '', 0],
    ['01', '', 1], ['-', '', 1], ['1.', '', 2], ['1e', '', 2], ['+1', '', 0], ['.5', '', 0], ['NaN', '', 0], ['tru', '', 0],
    ['[1 2]', '/0', 3], ['{} {}', '', 3], ['[] // x', '', 3], ['"a\nb"', '', 2], ['"\\x"', '', 1], ['"\\u12G4"', '', 1], ['"abc', '', 4],
    ['{"a":{"b":[0,{"c":"', '/a/b/1/c', 19], ['\ufeff{}', '', 0], ['\u00a0[]', '', 0], ['[1}', '/0', 2], ['{"a":[}', '/a/0', 6],
  ])('names place and pointer of the first error of %j', (text, pointer, position) => {
    expect(refusal(text)).toMatchObject({ code: 'MALFORMED_JSON', pointer, position });
    expect(reference(text)).toBeUndefined();
  });

  it('quotes no more than one character of the input', () => {
    expect(refusal('[1, secret]').message).toBe('Expected a value and found "s" at position 4.');
  });

  it('reports the first error in the order of the text', () => {
    expect(refusal('[1e999, {"a":1,"a":2}, ').code).toBe('NUMBER_NOT_FINITE');
  });
});

describe('UTF-8', () => {
  it('refuses ill-formed bytes and a byte order mark, and decodes the rest exactly', () => {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xef, 0xbb, 0xbf, 0x7b, 0x7d]]) {
      expect(decodeUtf8(Buffer.from(bytes))).toBeNull();
    }
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => {
      fc.pre(!text.startsWith('\ufeff'));
      expect(decodeUtf8(Buffer.from(text, 'utf8'))).toBe(text);
    }));
  });
});

describe('text that cannot be stored', () => {
  it('is found in values and keys, by pointer, and well-formed text is left alone', () => {
    expect(findUnstorable({ a: ['x', 'y\0'] })).toBe('/a/1');
    expect(findUnstorable({ a: { 'k/~\ud800': 1 } })).toBe('/a/k~1~0\ud800');
    expect(findUnstorable('\udc00')).toBe('');
    expect(findUnstorable({ pair: '😀', empty: '', none: null, n: 1, list: [[], {}] })).toBeNull();
    expect(findUnstorable(['\ud83d', '\ude00'])).toBe('/0');
  });
});
