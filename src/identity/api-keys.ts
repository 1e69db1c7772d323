/**
 * API keys: `cg_<id>_<secret>`. The id (8 characters of base32) finds the record, the secret (43 of base62, 256 bits)
 * proves possession. Only a peppered HMAC of the whole key is stored, so that a copy of the database opens nothing.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { type Principal, type Role, roles } from '../model.js';

export interface KeyRecord {
  readonly tenant: string;
  /** `cg_` and the id: public, unique over all tenants. */
  readonly prefix: string;
  /** `keyDigest` of the whole key, 32 bytes. */
  readonly digest: Buffer;
  /** The principal's id. */
  readonly principal: string;
  readonly roles: readonly Role[];
  readonly subject: string | null;
  readonly purposes: readonly string[];
  readonly tools: readonly string[] | '*';
  readonly grants: Principal['grants'];
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
}

/** Where keys are kept; the ledger implements it. */
export interface KeyStore {
  /** @throws whatever says that the store could not be asked; never null for that. */
  findKey(prefix: string): Promise<KeyRecord | null>;
}

const base32 = 'abcdefghijklmnopqrstuvwxyz234567';
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyShape = /^(cg_[a-z2-7]{8})_[0-9A-Za-z]{32,128}$/;

/** A fresh key, shown once, and the prefix under which it is stored. */
export function mintKey(random: (bytes: number) => Buffer = randomBytes): { key: string; prefix: string } {
  const prefix = `cg_${draw(base32, 8, random)}`;
  return { key: `${prefix}_${draw(base62, 43, random)}`, prefix };
}

/** Characters drawn evenly: bytes beyond the last whole multiple of the alphabet are thrown away, not folded. */
function draw(alphabet: string, length: number, random: (bytes: number) => Buffer): string {
  const fair = 256 - (256 % alphabet.length);
  let text = '';
  while (text.length < length) {
    for (const byte of random(length - text.length)) if (byte < fair) text += alphabet[byte % alphabet.length];
  }
  return text;
}

/** The part that finds a key's record, or null for text that cannot be a key. */
export function keyPrefix(key: string): string | null {
  return keyShape.exec(key)?.[1] ?? null;
}

/** HMAC-SHA256 of the whole key under the pepper, 32 bytes. */
export function keyDigest(pepper: string, key: string): Buffer {
  return createHmac('sha256', pepper).update(key).digest();
}

/** Why a key must not be created, with the mend, or null. */
export function describeKeyProblem(key: Omit<KeyRecord, 'prefix' | 'digest' | 'revokedAt'>, now: Date = new Date()): string | null {
  const unknown = key.roles.find((role) => !roles.includes(role));
  if (unknown !== undefined) return `there is no role \`${unknown}\`; use one of ${roles.join(', ')}`;
  if (key.roles.length === 0) return `a key needs a role; use one of ${roles.join(', ')}`;
  if (combinesPlanes(key.roles)) {
    return 'a key with the role `agent` may have no other role, or an agent could approve its own calls; create two keys';
  }
  const names = { tenant: [key.tenant], principal: [key.principal], subject: key.subject === null ? [] : [key.subject],
    purpose: key.purposes, tool: key.tools === '*' ? [] : key.tools };
  for (const [what, texts] of Object.entries(names)) {
    if (texts.some((text) => !isName(text))) return `a ${what} is empty, longer than 256 characters or has control characters; give it a plain name`;
  }
  if (key.expiresAt && !(key.expiresAt > now)) return 'the key would have expired already; give a time to come, or none';
  return null;
}

/** Agents' credentials and people's never mix (protocol.md, two planes). */
export function combinesPlanes(held: readonly Role[]): boolean {
  return held.includes('agent') && held.some((role) => role !== 'agent');
}

export function isName(text: string): boolean {
  return text.length > 0 && text.length <= 256 && !/[\p{Cc}\p{Cs}]/u.test(text);
}
