import { describe, expect, test } from 'vitest';
import { keyDigest, type KeyRecord, mintKey } from '../../src/identity/api-keys.js';
import { createAuthenticator } from '../../src/identity/authenticator.js';

const pepper = 'a pepper for tests only, long enough';

function setUp(over: Partial<KeyRecord> = {}) {
  const { key, prefix } = mintKey();
  const record: KeyRecord = {
    tenant: 'acme', prefix, digest: keyDigest(pepper, key), principal: 'bot', roles: ['agent'], subject: 'u-1', purposes: ['refund'],
    tools: ['get_order'], grants: { assertSubject: true, ownKeys: false }, expiresAt: null, revokedAt: null, ...over,
  };
  const records = new Map([[prefix, record]]);
  const asked: string[] = [];
  const clock = { ms: 0 };
  const authenticator = createAuthenticator({
    pepper, now: () => clock.ms, monotonic: () => clock.ms,
    store: { async findKey(wanted) { asked.push(wanted); return records.get(wanted) ?? null; } },
  });
  return { key, prefix, record, records, asked, clock, authenticate: authenticator.authenticate };
}

const wrongSecret = (key: string) => key.slice(0, 12) + mintKey().key.slice(12);

describe('authenticating', () => {
  test('a key gives the principal of its record and nothing of its digest', async () => {
    const { key, authenticate } = setUp();
    expect(await authenticate(key)).toEqual({
      tenant: 'acme', id: 'bot', roles: ['agent'], subject: 'u-1', purposes: ['refund'], tools: ['get_order'],
      grants: { assertSubject: true, ownKeys: false },
    });
  });

  test('a right prefix with a wrong secret, and an unknown key, are nobody', async () => {
    const { key, authenticate } = setUp();
    expect(await authenticate(wrongSecret(key))).toBeNull();
    expect(await authenticate(mintKey().key)).toBeNull();
  });

  test('a key that was digested under another pepper is nobody', async () => {
    const { key, authenticate } = setUp({ digest: keyDigest('another pepper', mintKey().key) });
    expect(await authenticate(key)).toBeNull();
  });

  test('text that cannot be a key never reaches the store', async () => {
    const { key, asked, authenticate } = setUp();
    for (const text of ['', 'cg_', key.slice(0, 20), `${key} `, `x${key}`, key.replace('cg_', 'CG_'), 'eyJh.eyJz.sig']) {
      expect(await authenticate(text)).toBeNull();
    }
    expect(asked).toEqual([]);
  });

  test('a revoked, an expired and a mixed key are nobody', async () => {
    for (const over of [{ revokedAt: new Date(0) }, { roles: ['agent', 'admin'] as const }, { roles: [] }]) {
      const { key, authenticate } = setUp(over);
      expect(await authenticate(key)).toBeNull();
    }
  });

  test('a key expires at its instant, also while its record is cached', async () => {
    const { key, clock, authenticate } = setUp({ expiresAt: new Date(500) });
    clock.ms = 499;
    expect(await authenticate(key)).not.toBeNull();
    clock.ms = 500;
    expect(await authenticate(key)).toBeNull();
  });
});

describe('asking the store', () => {
  test('concurrent calls with one key, right or wrong, ask once', async () => {
    const { key, asked, authenticate } = setUp();
    await Promise.all(Array.from({ length: 50 }, (_, index) => authenticate(index % 2 ? key : wrongSecret(key))));
    expect(asked).toHaveLength(1);
  });

  test('a revocation takes effect within the cache time, and a new key is found within it', async () => {
    const { key, prefix, record, records, clock, authenticate } = setUp();
    records.delete(prefix);
    expect(await authenticate(key)).toBeNull();
    records.set(prefix, record);
    clock.ms = 1_000;
    expect(await authenticate(key)).not.toBeNull();
    records.set(prefix, { ...record, revokedAt: new Date() });
    clock.ms = 1_999;
    expect(await authenticate(key)).not.toBeNull();
    clock.ms = 2_000;
    expect(await authenticate(key)).toBeNull();
  });

  test('a key that was proven is taken for as long as its record is, and no other text with its prefix is', async () => {
    const { key, clock, authenticate } = setUp();
    const first = await authenticate(key);
    expect(first).not.toBeNull();
    expect(await authenticate(key)).toBe(first); // not hashed again
    for (let n = 0; n < 3; n++) expect(await authenticate(wrongSecret(key))).toBeNull();
    expect(await authenticate(key)).toBe(first);
    clock.ms = 1_000;
    expect(await authenticate(key)).not.toBe(first);
  });

  test('a store that fails is an error, not a refusal, and is asked again by the next call', async () => {
    const { key, record } = setUp();
    let fails = true;
    const { authenticate } = createAuthenticator({
      pepper, store: { async findKey() { if (fails) throw new Error('no connection'); return record; } },
    });
    await expect(authenticate(key)).rejects.toThrow('no connection');
    fails = false;
    expect(await authenticate(key)).not.toBeNull();
  });

  test('the cache is bounded: a flood of made-up keys pushes out older records, which are then asked for again', async () => {
    const { key, prefix, asked, authenticate } = setUp();
    const questions = () => asked.filter((wanted) => wanted === prefix).length;
    await authenticate(key);
    for (let i = 0; i < 9_000; i++) await authenticate(mintKey().key);
    expect(await authenticate(key)).not.toBeNull();
    expect(questions()).toBe(1);
    for (let i = 0; i < 1_001; i++) await authenticate(mintKey().key);
    expect(await authenticate(key)).not.toBeNull();
    expect(questions()).toBe(2);
  });
});
