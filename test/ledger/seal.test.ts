import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSealer } from '../../src/ledger/seal.js';

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
