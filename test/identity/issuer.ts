/** An issuer of tokens for tests: its keys, what it signs with them, and the set that it publishes. */
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTHeaderParameters, type JWTPayload, SignJWT } from 'jose';
import type { Issuer } from '../../src/identity/issuers.js';

export interface SigningKey { kid: string; alg: string; privateKey: CryptoKey; jwk: JWK }

export async function makeKey(kid: string, alg = 'ES256'): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

export const nowMs = Date.parse('2026-06-01T12:00:00Z');
const now = nowMs / 1000;

/** What the issuer of the tests says of an agent; undefined removes a claim. */
export const claims = (change: object = {}): JWTPayload =>
  Object.fromEntries(Object.entries({ iss: 'https://login.test/', aud: 'callgate', sub: 'agent-7', exp: now + 300, iat: now - 10, org: 'acme', user: 'C-17', purposes: ['refund'], ...change }).filter(([, value]) => value !== undefined));

export function sign(key: SigningKey, payload: JWTPayload = claims(), header: Partial<JWTHeaderParameters> = {}): Promise<string> {
  return new SignJWT(payload).setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'at+jwt', ...header }).sign(key.privateKey);
}

export const issuer = (change: Partial<Issuer> = {}): Issuer => ({
  name: 'company', issuer: 'https://login.test/', keys: { file: 'none' }, allowPrivate: null, audience: ['callgate'], algorithms: ['ES256', 'RS256', 'PS256'], typ: 'at+jwt',
  clockToleranceMs: 30_000, maxAgeMs: null, keysKeptMs: 3_600_000, grants: { ownKeys: false, assertSubject: false },
  claims: { tenant: { claim: 'org' }, subject: { claim: 'user' }, purposes: { claim: 'purposes' } }, ...change,
});
