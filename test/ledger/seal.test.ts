import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSealer } from '../../src/ledger/seal.js';
import { vocabulary } from '../../src/ledger/vocabulary.js';

/** A sealed request that opens elsewhere is one tenant's data in another's hands; one that was changed is a request that nobody approved. */
describe('sealing', () => {
  const sealer = createSealer('a secret of this installation');

  it('gives back what was sealed, and the same text never looks the same (property)', () => {
    fc.assert(fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), fc.string(), (text, place) => {
      const [one, two] = [sealer.seal(text, place), sealer.seal(text, place)];
      expect(sealer.open(one, place)).toBe(text);
      expect(one.equals(two)).toBe(false);
    }));
  });

  it('does not open at another place, nor under another key', () => {
    const sealed = sealer.seal('text', 'request/acme/op_1');
    expect(() => sealer.open(sealed, 'request/globex/op_1')).toThrow();
    expect(() => sealer.open(sealed, 'answer/acme/op_1')).toThrow();
    expect(() => createSealer('another secret').open(sealed, 'request/acme/op_1')).toThrow();
  });

  it('does not open when any byte of it was changed, cut off or added', () => {
    const sealed = sealer.seal('some text', 'p');
    for (let n = 0; n < sealed.length; n++) {
      const changed = Buffer.from(sealed);
      changed[n] = (changed[n] as number) ^ 1;
      expect(() => sealer.open(changed, 'p'), `byte ${n}`).toThrow();
      expect(() => sealer.open(sealed.subarray(0, n), 'p'), `cut at ${n}`).toThrow();
    }
    expect(() => sealer.open(Buffer.concat([sealed, Buffer.of(0)]), 'p')).toThrow();
  });

  it('takes no short authentication tag, which could be guessed', () => {
    const empty = sealer.seal('', 'p'); // version, 12 bytes of nonce, 16 of tag
    for (const tagBytes of [4, 8, 12]) expect(() => sealer.open(empty.subarray(0, 13 + tagBytes), 'p')).toThrow();
  });
});

/** Answers are kept for years and replayed word for word: one that does not open any more is an effect that nobody can be told of. */
describe('packing', () => {
  const sealer = createSealer('a secret of this installation');

  it('gives back what was packed, whatever it is, and never takes more room than sealing (property)', () => {
    fc.assert(fc.property(fc.oneof(fc.string({ unit: 'grapheme', maxLength: 300 }), fc.json()), fc.string(), (text, place) => {
      const packed = sealer.pack(text, place);
      expect(sealer.open(packed, place)).toBe(text);
      expect(packed.length).toBeLessThanOrEqual(sealer.seal(text, place).length);
    }));
  });

  it('takes a third of the room for an answer as the gate stores them, and opens a long one', () => {
    const answer = JSON.stringify({
      result: { id: 'cr_41', amount: 2500 }, states: {}, legal_actions: [], decided: { resource: { type: 'order', id: 'O-1', attributes: { status: 'OPEN' } }, args: { order_id: 'O-1', amount: 2500 } },
    });
    expect(sealer.pack(answer, 'p').length - 29).toBeLessThan(answer.length / 2);
    const long = JSON.stringify({ result: Array.from({ length: 20_000 }, (_, n) => ({ id: n, name: `item ${n * 7919}` })) });
    expect(sealer.open(sealer.pack(long, 'p'), 'p')).toBe(long);
  });

  it('opens what refers farther back than the window of an inflate, and texts about the length beyond which zlib packs them', () => {
    const far = Array.from({ length: 1_000 }, (_, n) => String.fromCharCode(0x4e00 + n)).join('');
    for (const text of [far + far, `${far.slice(0, 900)}${far}`, ...[2_047, 2_048, 2_049].map((length) => 'ab\u20ac'.repeat(700).slice(0, length))]) {
      expect(sealer.open(sealer.pack(text, 'p'), 'p')).toBe(text);
      expect(sealer.pack(text, 'p').length).toBeLessThan(sealer.seal(text, 'p').length);
    }
  });

  it('does not open elsewhere, nor when any byte of it was changed, the one that says how it is stored included', () => {
    const packed = sealer.pack('{"result":{"id":"cr_1"},"states":{},"legal_actions":[]}', 'answer/acme/op_1');
    expect(() => sealer.open(packed, 'answer/acme/op_2')).toThrow();
    for (let n = 0; n < packed.length; n++) {
      const changed = Buffer.from(packed);
      changed[n] = (changed[n] as number) ^ (n === 0 ? 3 : 1); // 2, packed, becomes 1, sealed
      expect(() => sealer.open(changed, 'answer/acme/op_1'), `byte ${n}`).toThrow();
    }
  });

  it('is left out while replicas run that know nothing of it, which opens what others packed all the same', () => {
    const beside = createSealer('a secret of this installation', false);
    const text = '{"result":null,"states":{},"legal_actions":[],"decided":null}';
    expect(beside.pack(text, 'p')[0]).toBe(beside.seal(text, 'p')[0]);
    expect(beside.pack(text, 'p')).toHaveLength(beside.seal(text, 'p').length);
    expect(beside.open(sealer.pack(text, 'p'), 'p')).toBe(text);
  });

  it('opens what earlier versions stored: neither form, nor a word of the vocabulary, may ever change', () => {
    const text = '{"result":{"id":"cr_1","amount":2500,"created_at":"2026-01-01T00:00:00.000Z"},"states":{"order:O-1":"REFUNDED"},"legal_actions":["close"],"decided":null}';
    expect(sealer.open(Buffer.from(stored.sealed, 'base64'), 'answer/acme/op_1')).toBe(text);
    expect(sealer.open(Buffer.from(stored.packed, 'base64'), 'answer/acme/op_1')).toBe(text);
    expect(createHash('sha256').update(vocabulary).digest('hex')).toBe(stored.vocabulary);
  });
});

const stored = {
  sealed: 'AaHIshyPh448NkjR7ojC4ftue7rEyAYsSfeU/b4qrUeX9HAGfWCPTvIhGBsSPNo8CMN8erpX3kKNvqctc0jMrKScTYkUaI1Bd7QpobsvtkQwqg6aTZfRHrgnfDOXYb1Aj1BY1JEMx9s6TcqVBA4+s3PXL82EStHikTPshgVZyW695xjA6rVjpkgu3Sqzo/UmpP5P55SSmReDwbYmMzc4i76ERm8xGawR22EfxC8zeMWH571c/uQ=',
  packed: 'ArE3oqu0zLQsdTK6eRd/pDstU3H0+xmyA0UVIILQ1P5P54Xbk1wEimVOCpfXWKyDy6aBMUzBouX0ZdExEQGrdXMfxdZa5vQdLvpBCC9JIV9uqFc=',
  vocabulary: 'be1ea4161671d534c34a356a831c4bd8e815f2b684674502c50a1ed813d3d3f1',
};
