/** The keys of an issuer change while tokens come: an old key that stays is a thief's, a new one that is not found is everybody locked out. */
import { decodeProtectedHeader, errors } from 'jose';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CredentialsUnavailable } from '../../src/errors.js';
import { keepKeys } from '../../src/identity/key-set.js';
import { makeKey, sign, type SigningKey } from './issuer.js';

let a: SigningKey;
let b: SigningKey;
beforeAll(async () => {
  [a, b] = await Promise.all([makeKey('a'), makeKey('b')]);
});

const [freshMs, cooldownMs, keptMs] = [10_000, 1_000, 60_000];
let clock = { ms: 0 };
let served: SigningKey[] | Error;
let fetches = 0;
let problems: string[];
beforeEach(() => {
  clock = { ms: 0 };
  fetches = 0;
  problems = [];
});

function open() {
  const find = keepKeys({
    freshMs, cooldownMs, keptMs, now: () => clock.ms, failed: ({ message }) => void problems.push(message),
    async load() {
      fetches++;
      if (served instanceof Error) throw served;
      return { keys: served.map(({ jwk }) => jwk) };
    },
  });
  return async (key: SigningKey, kid = key.kid) => {
    const header = decodeProtectedHeader(await sign(key, {}, { kid }));
    return find({ ...header, alg: header.alg ?? '' }, { payload: '', signature: '' });
  };
}

describe('the keys of an issuer', () => {
  it('are fetched once for all who ask, when the first token comes', async () => {
    served = [a, b];
    const find = open();
    expect(fetches).toBe(0);
    await Promise.all(Array.from({ length: 20 }, (_, n) => find(n % 2 ? a : b)));
    expect(fetches).toBe(1);
  });

  it('that a token names and nobody knows are fetched at once, and not again within the cooldown', async () => {
    served = [a];
    const find = open();
    await find(a);
    served = [a, b];
    clock.ms = cooldownMs;
    await Promise.all([find(b), find(b), find(a)]);
    expect(fetches).toBe(2);
    for (let n = 0; n < 50; n++) await expect(find(a, `made-up-${n}`)).rejects.toBeInstanceOf(errors.JWKSNoMatchingKey);
    expect(fetches).toBe(2);
    clock.ms += cooldownMs;
    for (let n = 0; n < 50; n++) await expect(find(a, `made-up-${n}`)).rejects.toBeInstanceOf(errors.JWKSNoMatchingKey);
    expect(fetches).toBe(3);
  });

  it('that the issuer takes back are refused once they were fetched again, which happens while they are in use', async () => {
    served = [a, b];
    const find = open();
    await find(a);
    served = [b];
    clock.ms = freshMs - 1;
    await find(a);
    clock.ms = freshMs;
    await find(a); // the one that sets it going
    await expect.poll(() => fetches).toBe(2);
    await expect(find(a)).rejects.toBeInstanceOf(errors.JWKSNoMatchingKey);
    await find(b);
  });

  it('are used for a bounded time while the issuer is away, and then neither believed nor refused; it is asked at the pace of the cooldown', async () => {
    served = [a];
    const find = open();
    await find(a);
    served = new Error('it answered 503');
    for (clock.ms = 0; clock.ms < keptMs; clock.ms += 500) await find(a);
    const asked = fetches;
    expect(asked).toBeGreaterThan(10);
    expect(asked).toBeLessThanOrEqual(1 + (keptMs - freshMs) / cooldownMs + 1);
    clock.ms = keptMs;
    await expect(find(a)).rejects.toBeInstanceOf(CredentialsUnavailable);
    served = [a];
    clock.ms += cooldownMs;
    await find(a);
    expect(problems[0]).toBe('it answered 503');
  });

  it('that were never there are asked for at the pace of the cooldown', async () => {
    served = new Error('it answered 404');
    const find = open();
    for (let n = 0; n < 20; n++) await expect(find(a)).rejects.toBeInstanceOf(CredentialsUnavailable);
    expect(fetches).toBe(1);
    clock.ms = cooldownMs;
    served = [a];
    await find(a);
  });

  it.each([null, [], {}, { keys: 'x' }, { keys: [] }, { keys: [{}] }, { keys: [{ kty: 'oct', k: 'AAAA', kid: 'a' }] }, { keys: [null, 'x', 7] }])('are none in %j', async (content) => {
    const find = keepKeys({ load: async () => content, keptMs, now: () => 0, failed: ({ message }) => void problems.push(message) });
    await expect(find({ alg: 'ES256', kid: 'a' }, { payload: '', signature: '' })).rejects.toBeInstanceOf(CredentialsUnavailable);
    expect(problems).toHaveLength(1);
  });
});
