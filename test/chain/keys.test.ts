import { describe, expect, it } from 'vitest';
import { addKey, readKeyRing } from '../../src/chain/keys.js';

const now = new Date('2026-11-30T10:00:00.000Z');
const day = 86_400_000;
const later = (days: number): Date => new Date(now.getTime() + days * day);

/** What was signed last year has to hold next year, or the receipts of a year prove nothing; and whoever has an old key must not sign today. */
describe('rotation', () => {
  const first = JSON.stringify(addKey(null, 'a', now, day));
  const second = JSON.stringify(addKey(first, 'b', later(100), day));

  it('the new key signs, the old one is published without its private half and ends after the overlap', () => {
    const ring = readKeyRing(second);
    expect(ring.signerAt(later(101))?.key).toBe('b');
    expect(ring.published).toMatchObject([{ kid: 'a', not_before: now.toISOString(), not_after: later(101).toISOString() }, { kid: 'b', not_before: later(100).toISOString() }]);
    expect(JSON.stringify(ring.published)).not.toContain('"d"');
    expect(JSON.parse(second).keys[0]).not.toHaveProperty('d');
    const old = readKeyRing(first).signerAt(later(1));
    const signature = old?.sign('text') ?? '';
    expect(ring.check('a', 'text', signature, later(1).toISOString())).toBe('good');
    expect(ring.check('a', 'other', signature, later(1).toISOString())).toBe('wrong_signature');
    expect(ring.check('a', 'text', signature, later(102).toISOString())).toBe('not_valid_then');
    expect(ring.check('c', 'text', signature, later(1).toISOString())).toBe('unknown_key');
  });

  it('what is published verifies as the set itself does, and signs nothing', () => {
    const published = readKeyRing(JSON.stringify({ keys: readKeyRing(second).published }));
    const signature = readKeyRing(second).signerAt(later(101))?.sign('text') ?? '';
    expect(published.check('b', 'text', signature, later(101).toISOString())).toBe('good');
    expect(published.signerAt(later(101))).toBeNull();
  });

  it('32 random bytes are a set of one key, and can be rotated into a set of two', () => {
    const seed = 'q0nR8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0TqZt5k';
    const signer = readKeyRing(seed).signerAt(now);
    const rotated = readKeyRing(JSON.stringify(addKey(seed, 'next', later(1), day)));
    expect(rotated.published.map(({ kid }) => kid)).toEqual([signer?.key, 'next']);
    expect(rotated.check(signer?.key ?? '', 'text', signer?.sign('text') ?? '', now.toISOString())).toBe('good');
  });

  it.each([
    ['not JSON', 'abc'], ['no keys', '{"keys":[]}'], ['another curve', '{"keys":[{"kid":"a","kty":"EC","crv":"P-256"}]}'], ['no id', '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}'],
    ['neither half', '{"keys":[{"kid":"a","kty":"OKP","crv":"Ed25519"}]}'], ['a short key', '{"keys":[{"kid":"a","kty":"OKP","crv":"Ed25519","d":"c2VjcmV0"}]}'],
    ['halves of two keys', JSON.stringify({ keys: [{ ...JSON.parse(first).keys[0], x: JSON.parse(second).keys[1].x }] })],
    ['an id twice', JSON.stringify({ keys: [JSON.parse(first).keys[0], JSON.parse(first).keys[0]] })],
  ])('a set with %s is refused, and its text is not repeated', (_, text) => {
    expect(() => readKeyRing(text)).toThrow(/^(?!.*(c2VjcmV0|"d")).+/);
  });
});
