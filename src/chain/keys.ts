/**
 * The keys that sign checkpoints: a JWK Set of Ed25519 keys from configuration, or in short the seed of one. The newest that has begun signs; all others stay in the set
 * without their private half `d`, so that what they signed can be verified for ever. None comes from the database: who can write there could
 * else publish a key of his own.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto';
import { canonicalText, sha256 } from '../canonical.js';
import type { Json, JsonObject } from '../model.js';
import { parseStrict } from '../strict-json.js';

export interface PublishedKey {
  kid: string;
  kty: 'OKP';
  crv: 'Ed25519';
  alg: 'EdDSA';
  use: 'sig';
  /** The public key, base64url. */
  x: string;
  /** ISO 8601 instants; absent: unbounded. What was signed outside of them does not count. */
  not_before?: string;
  not_after?: string;
}

export interface Signer { key: string; sign(text: string): string }

export type Verdict = 'good' | 'unknown_key' | 'not_valid_then' | 'wrong_signature';

export interface VerificationKeys {
  /** @param signature base64 @param at ISO 8601 */
  check(key: string, text: string, signature: string, at: string): Verdict;
}

export interface KeyRing extends VerificationKeys {
  /** Without private halves. */
  published: PublishedKey[];
  /** Null: no key may sign at that time. */
  signerAt(at: Date): Signer | null;
}

interface Key { kid: string; publicKey: KeyObject; x: string; privateKey: KeyObject | null; notBefore: string | null; notAfter: string | null }

const keyId = /^[A-Za-z0-9._-]{1,64}$/;
const thirtyTwoBytes = /^[A-Za-z0-9_-]{43}$/;
/** PKCS #8 of an Ed25519 seed (RFC 8410), and the SubjectPublicKeyInfo of a public key: a fixed prefix each. */
const privatePrefix = Buffer.from('302e020100300506032b657004220420', 'hex');
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex');

/** @param text a JWK Set: of the configuration, or what `GET /v1/receipts/keys` answered. @throws Error that says what is wrong with it, without a byte of a key. */
export function readKeyRing(text: string): KeyRing {
  const keys = readKeySet(text);
  const byId = new Map(keys.map((key) => [key.kid, key]));
  return {
    published: keys.map(publish),
    signerAt(at) {
      const able = keys.filter((key) => key.privateKey !== null && validAt(key, at.getTime()));
      const newest = able.sort((a, b) => begin(a) - begin(b)).at(-1);
      const privateKey = newest?.privateKey;
      return newest && privateKey ? { key: newest.kid, sign: (text) => sign(null, Buffer.from(text), privateKey).toString('base64') } : null;
    },
    check(kid, signed, signature, at) {
      const key = byId.get(kid);
      if (!key) return 'unknown_key';
      const bytes = Buffer.from(signature, 'base64');
      // Node reads base64 leniently: of many texts for the same bytes one is right, so that no byte of a file can be changed unseen.
      if (bytes.toString('base64') !== signature || !verify(null, Buffer.from(signed), key.publicKey, bytes)) return 'wrong_signature';
      return validAt(key, Date.parse(at)) ? 'good' : 'not_valid_then';
    },
  };
}

/** A new key at the end of a set; those before lose their private half, and what they sign after `overlapMs` does not count. */
export function addKey(set: string | null, kid: string, now: Date, overlapMs: number): JsonObject {
  const earlier = set === null ? [] : readKeySet(set);
  if (earlier.some((key) => key.kid === kid)) throw new Error(`the set has a key \`${kid}\` already: give the new one another --id`);
  const { privateKey } = generateKeyPairSync('ed25519');
  const { d, x } = privateKey.export({ format: 'jwk' }) as { d: string; x: string };
  const ends = new Date(now.getTime() + overlapMs).toISOString();
  const retired = earlier.map((key) => ({ ...publish(key), ...(key.notAfter === null || Date.parse(key.notAfter) > Date.parse(ends) ? { not_after: ends } : {}) }));
  return { keys: [...retired, { kid, kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', x, d, not_before: now.toISOString() }] };
}

function readKeySet(text: string): Key[] {
  if (thirtyTwoBytes.test(text)) return [readSeed(text)];
  const read = parseStrict(text, { maxDepth: 4 });
  if (!read.ok) throw new Error(`it is neither 32 bytes in base64url (43 characters) nor JSON (${read.code})`);
  const keys = isObject(read.value) ? read.value['keys'] : undefined;
  if (!Array.isArray(keys) || keys.length === 0) throw new Error('it is not a JWK Set: `{ "keys": [ … ] }` with at least one key');
  const all = keys.map(readKey);
  const twice = all.find((key, n) => all.findIndex(({ kid }) => kid === key.kid) !== n);
  if (twice) throw new Error(`two keys have the id \`${twice.kid}\``);
  return all;
}

/** One key in short, for whoever never rotated it: 32 random bytes. Its id is the beginning of its thumbprint (RFC 7638). */
function readSeed(d: string): Key {
  const key = readKey({ kid: 'seed', kty: 'OKP', crv: 'Ed25519', d }, 0);
  return { ...key, kid: sha256(canonicalText({ crv: 'Ed25519', kty: 'OKP', x: key.x })).toString('base64url').slice(0, 16) };
}

function readKey(jwk: Json, n: number): Key {
  const place = `key ${n + 1}`;
  if (!isObject(jwk) || jwk['kty'] !== 'OKP' || jwk['crv'] !== 'Ed25519') throw new Error(`${place} is not an Ed25519 key (\`"kty": "OKP", "crv": "Ed25519"\`)`);
  const { kid, x, d } = jwk;
  if (typeof kid !== 'string' || !keyId.test(kid)) throw new Error(`${place} needs a \`kid\` of letters, digits, dots, dashes and underscores`);
  if (d !== undefined && !isBytes(d)) throw new Error(`\`d\` of ${place} is not 32 bytes in base64url`);
  if (x !== undefined && !isBytes(x)) throw new Error(`\`x\` of ${place} is not 32 bytes in base64url`);
  const privateKey = d === undefined ? null : createPrivateKey({ key: Buffer.concat([privatePrefix, Buffer.from(d, 'base64url')]), format: 'der', type: 'pkcs8' });
  if (privateKey === null && x === undefined) throw new Error(`${place} has neither \`x\` nor \`d\``);
  const publicKey = privateKey ? createPublicKey(privateKey) : createPublicKey({ key: Buffer.concat([publicPrefix, Buffer.from(String(x), 'base64url')]), format: 'der', type: 'spki' });
  const own = (publicKey.export({ format: 'jwk' }) as { x: string }).x;
  if (x !== undefined && x !== own) throw new Error(`\`x\` and \`d\` of ${place} do not belong together`);
  return { kid, x: own, publicKey, privateKey, notBefore: readInstant(jwk, 'not_before', place), notAfter: readInstant(jwk, 'not_after', place) };
}

function publish({ kid, x, notBefore, notAfter }: Key): PublishedKey {
  return {
    kid, kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', x,
    ...(notBefore === null ? {} : { not_before: notBefore }), ...(notAfter === null ? {} : { not_after: notAfter }),
  };
}

function validAt(key: Key, ms: number): boolean {
  return ms >= begin(key) && (key.notAfter === null || ms < Date.parse(key.notAfter));
}

function begin({ notBefore }: Key): number {
  return notBefore === null ? 0 : Date.parse(notBefore);
}

function readInstant(jwk: JsonObject, name: string, place: string): string | null {
  const value = jwk[name];
  if (value === undefined) return null;
  if (typeof value !== 'string' || Number.isNaN(Date.parse(value))) throw new Error(`\`${name}\` of ${place} is not an ISO 8601 instant`);
  return new Date(value).toISOString();
}

function isBytes(value: Json): value is string {
  return typeof value === 'string' && thirtyTwoBytes.test(value);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
