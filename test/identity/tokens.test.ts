/** A token is the whole of who somebody is: one that is believed and should not be opens a tenant, and the tools behind it. */
import { createHmac, createSign, generateKeyPairSync } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { JWK } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Issuer } from '../../src/identity/issuers.js';
import { keepKeys } from '../../src/identity/key-set.js';
import { createTokenAuthenticator, looksLikeToken, verify } from '../../src/identity/tokens.js';
import { projectFile } from '../../src/project.js';
import { claims, issuer, makeKey, nowMs, sign, type SigningKey } from './issuer.js';

let key: SigningKey;
let rsa: SigningKey;
let stranger: SigningKey;
beforeAll(async () => {
  [key, rsa, stranger] = await Promise.all([makeKey('k1'), makeKey('r1', 'RS256'), makeKey('k1')]);
});

const published = (...keys: JWK[]) => keepKeys({ load: async () => ({ keys }), keptMs: 1_000_000 });
function open(change: Partial<Issuer> = {}, keys: JWK[] = [key.jwk, rsa.jwk]) {
  const reasons: [string | null, string][] = [];
  const { authenticate } = createTokenAuthenticator({ issuers: [{ issuer: issuer(change), keys: published(...keys) }], now: () => nowMs, refused: (...reason) => void reasons.push(reason) });
  return { authenticate, reasons };
}
const base64 = (value: object | string): string => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
const parts = async (token: Promise<string>): Promise<[string, string, string]> => (await token).split('.') as [string, string, string];

describe('a good token', () => {
  it('is the principal that its claims name, and no more than its issuer may give', async () => {
    const { authenticate } = open();
    for (const signer of [key, rsa]) {
      expect(await authenticate(await sign(signer))).toEqual({
        tenant: 'acme', id: 'agent-7', roles: ['agent'], subject: 'C-17', purposes: ['refund'], tools: '*', grants: { assertSubject: false, ownKeys: false },
      });
    }
    expect(await authenticate(await sign(key, claims({ roles: ['admin'], tools: ['x'], grants: { own_keys: true } })))).toMatchObject({ roles: ['agent'], tools: '*', grants: { ownKeys: false } });
  });

  it('may be of several audiences, be off by the tolerance, and write its type in full', async () => {
    const { authenticate } = open();
    const good = [{ aud: ['other', 'callgate'] }, { exp: nowMs / 1000 - 29 }, { nbf: nowMs / 1000 + 29 }];
    for (const change of good) expect(await authenticate(await sign(key, claims(change))), JSON.stringify(change)).not.toBeNull();
    expect(await authenticate(await sign(key, claims(), { typ: 'application/at+jwt' }))).not.toBeNull();
  });

  it('is told apart from an API key by its dots', () => {
    expect(looksLikeToken('cg_abcdefgh_0123')).toBe(false);
    expect(looksLikeToken('a.b.c')).toBe(true);
  });
});

describe('claims', () => {
  it.each<[string, object, string]>([
    ['expired', { exp: nowMs / 1000 - 31 }, 'exp'], ['without exp', { exp: undefined }, 'exp'], ['exp as text', { exp: '9999999999' }, 'exp'],
    ['not yet valid', { nbf: nowMs / 1000 + 31 }, 'nbf'], ['nbf as text', { nbf: 'x' }, 'nbf'],
    ['of another audience', { aud: 'other' }, 'aud'], ['without audience', { aud: undefined }, 'aud'], ['of an audience that only begins so', { aud: 'callgate-2' }, 'aud'],
    ['of nobody’s issuer', { iss: 'https://login.test' }, 'issuer'], ['without issuer', { iss: undefined }, 'issuer'], ['of issuers', { iss: ['https://login.test/'] }, 'issuer'],
    ['without tenant', { org: undefined }, 'tenant'], ['of a tenant that is no text', { org: ['acme'] }, 'tenant'], ['of the empty tenant', { org: '' }, 'tenant'], ['of a tenant with a line break', { org: 'a\nb' }, 'tenant'],
    ['without principal', { sub: undefined }, 'principal'], ['of a principal that is a number', { sub: 7 as unknown as string }, 'principal'], ['without its subject', { user: undefined }, 'subject'],
    ['of purposes that are no list', { purposes: { refund: true } }, 'purposes'], ['of purposes with numbers', { purposes: [1] }, 'purposes'],
  ])('a token %s is refused, and the operator is told of what', async (_, change, reason) => {
    const { authenticate, reasons } = open();
    expect(await authenticate(await sign(key, claims(change)))).toBeNull();
    expect(reasons).toHaveLength(1);
    expect(reasons[0]?.[1]).toContain(reason);
  });

  it('too old, where the issuer bounds it, and one that does not say how old it is', async () => {
    const { authenticate } = open({ maxAgeMs: 60_000 });
    expect(await authenticate(await sign(key, claims({ iat: nowMs / 1000 - 59 })))).not.toBeNull();
    for (const iat of [nowMs / 1000 - 91, undefined]) expect(await authenticate(await sign(key, claims({ iat })))).toBeNull();
  });

  it('roles: those that the issuer may give; never `agent` beside another one', async () => {
    const given = (roles: unknown) => async () => open({ claims: { ...issuer().claims, roles: { claim: '/realm/roles', allowed: ['reviewer', 'auditor'] } } }).authenticate(await sign(key, claims({ realm: { roles } })));
    expect(await given(['auditor', 'something', 'reviewer'])()).toMatchObject({ roles: ['auditor', 'reviewer'] });
    expect(await given('auditor openid')()).toMatchObject({ roles: ['auditor'] });
    for (const roles of [['admin'], ['agent'], ['agent', 'reviewer'], [], undefined, { 0: 'auditor' }, ['auditor', 1], '__proto__']) expect(await given(roles)(), JSON.stringify(roles)).toBeNull();
  });

  it('a tenant among those of the issuer, or the one that the operator fixed; a principal under its prefix', async () => {
    const tenants = open({ claims: { ...issuer().claims, tenant: { claim: 'org', allowed: ['acme'] }, principal: { claim: 'client_id', prefix: 'jwt:' } } });
    expect(await tenants.authenticate(await sign(key, claims({ client_id: 'bot' })))).toMatchObject({ tenant: 'acme', id: 'jwt:bot' });
    expect(await tenants.authenticate(await sign(key, claims({ client_id: 'bot', org: 'globex' })))).toBeNull();
    const fixed = open({ claims: { ...issuer().claims, tenant: { value: 'acme' } } });
    expect(await fixed.authenticate(await sign(key, claims({ org: 'globex' })))).toMatchObject({ tenant: 'acme' });
  });
});

describe('attacks', () => {
  const refused = async (token: string, change: Partial<Issuer> = {}, keys?: JWK[]): Promise<void> => {
    expect(await open(change, keys).authenticate(token), token.slice(0, 80)).toBeNull();
  };

  it('without a signature: `none` in every spelling, and an empty one', async () => {
    const [header, payload, signature] = await parts(sign(key));
    for (const alg of ['none', 'None', 'NONE', 'nOnE', '', null, undefined, ['ES256']]) {
      for (const end of ['', signature]) await refused(`${base64({ alg, kid: 'k1', typ: 'at+jwt' })}.${payload}.${end}`);
    }
    await refused(`${header}.${payload}.`);
    await refused(`${header}.${payload}`);
    // `none` cannot be configured either; if it were, there would still be no key for it
    await refused(`${base64({ alg: 'none', typ: 'at+jwt' })}.${payload}.AA`, { algorithms: ['none'] });
  });

  it('the public key as the secret of an HMAC', async () => {
    const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'r9', use: 'sig' } as JWK;
    const input = `${base64({ alg: 'HS256', kid: 'r9', typ: 'at+jwt' })}.${base64(claims())}`;
    const secrets = [publicKey.export({ format: 'pem', type: 'spki' }), publicKey.export({ format: 'der', type: 'spki' }), JSON.stringify(jwk), jwk.n as string];
    for (const secret of secrets) {
      const token = `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
      await refused(token, {}, [jwk]);
      await refused(token, { algorithms: ['RS256', 'HS256'] }, [jwk]);
    }
  });

  it('a symmetric or private key in the published set verifies nothing', async () => {
    const k = Buffer.from('a-secret-that-was-published-by-mistake-0123').toString('base64url');
    const input = `${base64({ alg: 'HS256', kid: 'h', typ: 'at+jwt' })}.${base64(claims())}`;
    await refused(`${input}.${createHmac('sha256', Buffer.from(k, 'base64url')).update(input).digest('base64url')}`, { algorithms: ['HS256', 'ES256'] }, [key.jwk, { kty: 'oct', k, kid: 'h', alg: 'HS256' }]);
    await refused(await sign(key), {}, [{ ...key.jwk, d: 'AAAA' }, rsa.jwk]);
    await refused(await sign(key), {}, [{ ...key.jwk, use: 'enc' }, rsa.jwk]);
    await refused(await sign(key), {}, [{ ...key.jwk, key_ops: ['encrypt'] }, rsa.jwk]);
  });

  it('a key that the token brings along, or says where to fetch', async () => {
    const brought = [{ jwk: stranger.jwk }, { jku: 'https://evil.test/keys' }, { x5u: 'https://evil.test/cert' }, { x5c: ['MIIB'] }, { kid: 'k1', jwk: stranger.jwk, jku: 'data:application/json,{}' }];
    for (const header of brought) await refused(await sign(stranger, claims(), header));
    // and they harm nobody who is proven otherwise
    expect(await open().authenticate(await sign(key, claims(), { jku: 'https://evil.test/keys' }))).not.toBeNull();
  });

  it('a key id that is a path, a query, a statement, a member of every object, or no text', async () => {
    for (const kid of ['../../dev/null', '/etc/passwd', "' or '1'='1", 'k1\0', 'k2', '', '__proto__', 'constructor', 'toString', { toString: 'k1' }, ['k1'], 1, null]) {
      await refused(await sign(stranger, claims(), { kid: kid as string }));
    }
  });

  it('another algorithm than those allowed, than that of the key, or a critical extension', async () => {
    const [p384, ed] = await Promise.all([makeKey('e3', 'ES384'), makeKey('e4', 'EdDSA')]);
    await refused(await sign(p384), {}, [p384.jwk]);
    await refused(await sign(ed), {}, [ed.jwk]);
    expect(await open({ algorithms: ['EdDSA'] }, [ed.jwk]).authenticate(await sign(ed))).not.toBeNull();
    await refused(await sign({ ...rsa, alg: 'RS256' }), {}, [{ ...rsa.jwk, alg: 'PS256' }]);
    for (const crit of [['exp'], ['b64'], ['http://evil.test/ext'], [], 'exp']) {
      const [, payload, signature] = await parts(sign(key));
      await refused(`${base64({ alg: 'ES256', kid: 'k1', typ: 'at+jwt', crit, b64: false })}.${payload}.${signature}`);
    }
  });

  it('an RSA key that is too short', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
    const input = `${base64({ alg: 'RS256', kid: 's', typ: 'at+jwt' })}.${base64(claims())}`;
    await refused(`${input}.${createSign('sha256').update(input).sign(privateKey).toString('base64url')}`, {}, [{ ...publicKey.export({ format: 'jwk' }), kid: 's' } as JWK]);
  });

  it('of another kind: an identity token, a logout token, one without a type', async () => {
    for (const typ of ['JWT', 'logout+jwt', 'id_token', '', undefined, 'at+jwt ', 1]) await refused(await sign(key, claims(), { typ: typ as string }));
  });

  it('a change of any character', async () => {
    const { authenticate } = open();
    const token = await sign(key);
    for (let at = 0; at < token.length; at += 7) {
      const changed = `${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`;
      expect(await authenticate(changed), `at ${at}`).toBeNull();
    }
  });

  it('another form, encoding or size', async () => {
    const token = await sign(key);
    const [header, payload, signature] = await parts(sign(key));
    const forms = [
      '', '.', '..', '...', `${token}.`, `.${token}`, `${token}.${token}`, ` ${token}`, `${token}\n`, `${token}=`, token.replace('.', '. '), token.replaceAll('_', '/').replaceAll('-', '+').concat('+'), `${header}.${payload}.${signature}.${signature}.x`,
      JSON.stringify({ protected: header, payload, signature }), `${base64('x')}.${payload}.${signature}`, `${base64('[]')}.${payload}.${signature}`, `${header}.${base64('[]')}.${signature}`, `${header}.${base64('null')}.${signature}`, `${header}.${base64('"x"')}.${signature}`,
    ];
    for (const form of forms) await refused(form);
    await refused(await sign(key, claims({ blob: 'x'.repeat(8_192) })));
  });

  it('an issuer’s token is never tried with another’s keys', async () => {
    const { authenticate } = createTokenAuthenticator({
      issuers: [
        { issuer: issuer({ name: 'a', claims: { tenant: { value: 'a' } } }), keys: published(key.jwk) },
        { issuer: issuer({ name: 'b', issuer: 'https://b.test/', claims: { tenant: { value: 'b' } } }), keys: published(stranger.jwk) },
      ],
      now: () => nowMs,
    });
    expect(await authenticate(await sign(key))).toMatchObject({ tenant: 'a' });
    expect(await authenticate(await sign(stranger, claims({ iss: 'https://b.test/' })))).toMatchObject({ tenant: 'b' });
    expect(await authenticate(await sign(stranger))).toBeNull();
    expect(await authenticate(await sign(key, claims({ iss: 'https://b.test/' })))).toBeNull();
  });
});

interface Vectors { testGroups: { comment: string; private: JWK; public?: JWK; tests: { tcId: number; comment: string; jws: unknown; result: 'valid' | 'invalid'; flags: string[] }[] }[] }
const file = projectFile('..', 'shared', 'data', 'vectors', 'json_web_signature_test.json');

/** Their payloads are no claims: what is signed well gets as far as its claims, and what is not never does. */
describe.runIf(existsSync(file))('the signatures of Wycheproof', () => {
  const asymmetric = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
  const groups = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Vectors).testGroups : [];
  /** Codes of jose for a token whose signature was proven. */
  const aboutClaims = ['ERR_JWT_INVALID', 'ERR_JWT_CLAIM_VALIDATION_FAILED'];
  const algorithmOf = (jws: unknown): unknown => {
    try {
      return (JSON.parse(Buffer.from(String(jws).split('.')[0] ?? '', 'base64url').toString()) as { alg?: unknown }).alg;
    } catch {
      return undefined;
    }
  };

  it('every invalid one is refused for its signature, key or form; every valid one of an allowed algorithm is proven', async () => {
    const seen = { invalid: 0, proven: 0, symmetric: 0, mismatched: 0, empty: 0 };
    for (const { comment, private: whole, public: open_, tests } of groups) {
      const { d: _, p: __, q: ___, dp: ____, dq: _____, qi: ______, ...rest } = open_ ?? whole;
      for (const { tcId, comment: what, jws, result } of tests) {
        const token = typeof jws === 'string' ? jws : JSON.stringify(jws);
        const keys = published(rest as JWK);
        const known = { issuer: issuer({ algorithms: asymmetric }), keys };
        const error = await verify(token, known, nowMs).then(() => null, (thrown: unknown) => thrown as Error & { code?: string });
        const told = `${comment} ${tcId} ${what}: ${error?.name} ${error?.code}`;
        const proven = aboutClaims.includes(error?.code ?? '');
        expect(error, told).not.toBeNull();
        if (result === 'invalid') {
          seen.invalid++;
          expect(proven, told).toBe(false);
        } else if (rest.kty === 'oct') {
          seen.symmetric++; // a shared secret is no key of an issuer's, whatever is signed with it
          expect(proven, told).toBe(false);
        } else if (rest.alg !== undefined && rest.alg !== algorithmOf(jws)) {
          seen.mismatched++; // the key says that it is for another algorithm
          expect(proven, told).toBe(false);
        } else if (token.split('.')[1] === '') {
          seen.empty++; // nothing at all is no claim set, whoever signed it
          expect(proven, told).toBe(false);
        } else {
          seen.proven++;
          expect(proven, told).toBe(true);
        }
      }
    }
    expect(seen).toEqual({ invalid: groups.flatMap(({ tests }) => tests).filter(({ result }) => result === 'invalid').length, proven: 26, symmetric: 10, mismatched: 4, empty: 6 });
  });
});
