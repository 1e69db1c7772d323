import fc from 'fast-check';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { canonicalText, canonicalTextOfBoth, digestOf, sha256 } from '../../src/canonical.js';
import type { Json, JsonObject } from '../../src/model.js';

const vectors = join(process.cwd(), '..', 'shared', 'data', 'vectors', 'rfc8785');

describe('canonical JSON', () => {
  if (existsSync(vectors)) {
    it.each(readdirSync(join(vectors, 'input')))('gives the published bytes for the RFC 8785 vector %s', (name) => {
      const value = JSON.parse(readFileSync(join(vectors, 'input', name), 'utf8')) as Json;
      expect(canonicalText(value)).toBe(readFileSync(join(vectors, 'output', name), 'utf8'));
    });
  } else {
    it('has no RFC 8785 vector files beside this checkout, so only the cases below hold it', () => {
      expect(existsSync(vectors)).toBe(false);
    });
  }

  it('sorts keys by UTF-16 code units, not by code points or locale', () => {
    const value = { '\u20ac': 1, '\r': 2, '\ufb33': 3, 1: 4, '\ud83d\ude00': 5, '\u0080': 6, '\u00f6': 7 };
    expect(canonicalText(value)).toBe('{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\ud83d\ude00":5,"\ufb33":3}');
  });

  it('writes numbers as ECMAScript does and escapes as little as RFC 8785 asks for', () => {
    expect(canonicalText([1e21, 1e-7, -0, 4.5, 2e-3, 1e30, Number('333333333.33333329')])).toBe('[1e+21,1e-7,0,4.5,0.002,1e+30,333333333.3333333]');
    expect(canonicalText('\u20ac$\u000f\nA\'B"\\\\"/\u007f')).toBe('"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u007f"');
  });

  it('is the same for any order of members, and reads back as the same value', () => {
    const shuffle = (value: Json): Json => {
      if (Array.isArray(value)) return value.map(shuffle);
      if (value === null || typeof value !== 'object') return value;
      return Object.fromEntries(Object.entries(value).reverse().map(([key, member]) => [key, shuffle(member)]));
    };
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 4 }), (generated) => {
      const value = JSON.parse(JSON.stringify(generated)) as Json;
      const text = canonicalText(value);
      expect(canonicalText(shuffle(value))).toBe(text);
      expect(canonicalText(JSON.parse(text) as Json)).toBe(text);
    }), { numRuns: 300 });
  });

  it('has every object in the order that sorting its names gives, few or many, and quotes as JSON does (property)', () => {
    const name = fc.oneof(fc.constantFrom('a', 'B', '10', '9', '\u20ac', '\ud83d\ude00', '\ufb33', 'a\\', 'a"', 'a\u007f', '\u0000'), fc.string({ unit: 'binary', maxLength: 3 }));
    const byHand = (object: Record<string, string>): string => `{${Object.keys(object).sort().map((each) => `${JSON.stringify(each)}:${JSON.stringify(object[each])}`).join(',')}}`;
    fc.assert(fc.property(fc.uniqueArray(name, { maxLength: 70 }), (names) => {
      const object = Object.fromEntries(names.map((each) => [each, `${each}.`]));
      expect(canonicalText(object)).toBe(byHand(object));
    }), { examples: [[Array.from({ length: 33 }, (_, n) => `n${33 - n}`)], [Array.from({ length: 32 }, (_, n) => `n${32 - n}`)]] });
  });

  it('refuses what has no canonical form, saying so', () => {
    for (const value of [NaN, Infinity, '\ud800', { '\udc00': 1 }, [[1, -Infinity]]] as Json[]) {
      expect(() => canonicalText(value)).toThrow(/^No canonical form \(RFC 8785\): /);
    }
    expect(() => canonicalText(undefined as unknown as Json)).toThrow('a value of type undefined is not JSON');
  });
});

it('of two objects is that of their members together, the head before the body, whatever they are called', () => {
  const object = fc.dictionary(fc.oneof(fc.constantFrom('id', 'kind', '__proto__', 'constructor', '10', '9', 'é'), fc.string()), fc.jsonValue({ maxDepth: 2 }));
  fc.assert(fc.property(object, object, (head, body) => {
    const both = Object.fromEntries([...Object.entries(body), ...Object.entries(head)]) as JsonObject;
    expect(canonicalTextOfBoth(head as JsonObject, body as JsonObject)).toBe(canonicalText(both));
  }));
});

describe('digests', () => {
  it('are SHA-256 of UTF-8 bytes, and name their algorithm', () => {
    expect(sha256('abc').toString('hex')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    expect(sha256('é')).toStrictEqual(sha256(Buffer.from('é', 'utf8')));
    expect(digestOf({})).toBe('sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a');
    expect(digestOf({ b: 1, a: 2 })).toBe(digestOf({ a: 2, b: 1 }));
    expect(digestOf({ a: 1 })).not.toBe(digestOf({ a: '1' }));
  });
});
