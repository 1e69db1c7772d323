import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { describeKeyProblem, keyDigest, keyPrefix, type KeyRecord, mintKey } from '../../src/identity/api-keys.js';

describe('minting', () => {
  test('a key has a public prefix and a secret of 256 bits, and no two are alike', () => {
    const minted = Array.from({ length: 500 }, () => mintKey());
    for (const { key, prefix } of minted) {
      expect(key).toMatch(/^cg_[a-z2-7]{8}_[0-9A-Za-z]{43}$/);
      expect(keyPrefix(key)).toBe(prefix);
    }
    expect(new Set(minted.map(({ key }) => key)).size).toBe(500);
  });

  test('every character of the secret is drawn evenly', () => {
    const counts = new Map<string, number>();
    for (let i = 0; i < 1_500; i++) for (const character of mintKey().key.slice(12)) counts.set(character, (counts.get(character) ?? 0) + 1);
    expect(counts.size).toBe(62);
    // 64,500 draws over 62 characters: 1,040 each, standard deviation 32; folding 256 bytes would give 0-7 one quarter more
    for (const count of counts.values()) expect(Math.abs(count - 1_040)).toBeLessThan(200);
  });

  test('bytes that would favour some characters are drawn again', () => {
    const bytes = [Buffer.alloc(8, 0), Buffer.alloc(43, 255), Buffer.alloc(43, 61)];
    expect(mintKey(() => bytes.shift() ?? randomBytes(1)).key).toBe(`cg_aaaaaaaa_${'z'.repeat(43)}`);
  });
});

describe('digest', () => {
  test('it depends on every character of the key and on the pepper', () => {
    const { key } = mintKey();
    const digest = keyDigest('pepper', key);
    expect(digest).toHaveLength(32);
    expect(keyDigest('pepper', key)).toEqual(digest);
    expect(keyDigest('other', key)).not.toEqual(digest);
    for (let i = 0; i < key.length; i++) {
      const changed = key.slice(0, i) + (key[i] === 'x' ? 'y' : 'x') + key.slice(i + 1);
      expect(keyDigest('pepper', changed)).not.toEqual(digest);
    }
  });

  test('text that is no key has no prefix', () => {
    const { key, prefix } = mintKey();
    for (const text of ['', prefix, `${prefix}_short`, ` ${key}`, `${key}\n`, key.toUpperCase(), key.replaceAll('_', '-'), `${key}${'a'.repeat(100)}`]) {
      expect(keyPrefix(text), text).toBeNull();
    }
    fc.assert(fc.property(fc.string(), (text) => keyPrefix(text) === null));
  });
});

describe('what may be created', () => {
  const fine: Omit<KeyRecord, 'prefix' | 'digest' | 'revokedAt'> = {
    tenant: 'acme', principal: 'bot', roles: ['agent'], subject: null, purposes: ['refund'], tools: '*',
    grants: { assertSubject: false, ownKeys: false }, expiresAt: null,
  };

  test('a plain agent key, and people in several roles', () => {
    expect(describeKeyProblem(fine)).toBeNull();
    expect(describeKeyProblem({ ...fine, roles: ['reviewer', 'auditor', 'admin', 'application'] })).toBeNull();
  });

  test.each(['application', 'reviewer', 'auditor', 'admin'] as const)('an agent that is also %s is refused, in either order', (role) => {
    expect(describeKeyProblem({ ...fine, roles: ['agent', role] })).toContain('create two keys');
    expect(describeKeyProblem({ ...fine, roles: [role, 'agent'] })).toContain('create two keys');
  });

  test.each([
    ['no role', { roles: [] }, 'needs a role'],
    ['a role that does not exist', { roles: ['root' as 'admin'] }, 'no role `root`'],
    ['an empty tenant', { tenant: '' }, 'a tenant'],
    ['a principal with a line break', { principal: 'a\nb' }, 'a principal'],
    ['a subject with NUL', { subject: 'a\0' }, 'a subject'],
    ['an empty purpose', { purposes: [''] }, 'a purpose'],
    ['a tool name with half a character', { tools: ['\ud800'] }, 'a tool'],
    ['an expiry that has passed', { expiresAt: new Date(0) }, 'expired already'],
    ['an expiry that is no date', { expiresAt: new Date(Number.NaN) }, 'expired already'],
  ])('%s is refused', (_, over, text) => {
    expect(describeKeyProblem({ ...fine, ...over })).toContain(text);
  });
});
