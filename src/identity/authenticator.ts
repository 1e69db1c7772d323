/** A credential to a principal, at a bounded cost to the store and in a time that tells nothing. */
import type { Authenticator } from '../ports.js';
import { timingSafeEqual } from 'node:crypto';
import type { Principal } from '../model.js';
import { combinesPlanes, keyDigest, keyPrefix, type KeyRecord, type KeyStore } from './api-keys.js';

export interface AuthenticatorOptions {
  pepper: string;
  store: KeyStore;
  /** How long a record, or its absence, is taken as current; a revocation takes effect within it. Default 1000. */
  cacheMs?: number;
  /** Wall clock in milliseconds, for the expiry of keys. */
  now?: () => number;
  /** Clock that never goes back, in milliseconds, for the age of records. */
  monotonic?: () => number;
}

const absent = Buffer.alloc(32);

export function createAuthenticator({ pepper, store, cacheMs = 1_000, now = Date.now, monotonic = () => performance.now() }: AuthenticatorOptions): Authenticator {
  const find = recentRecords(store, cacheMs, monotonic);
  const prove = ({ proven }: Recent, record: KeyRecord | null, credential: string): Principal | null => {
    // an unknown key costs the same hash and comparison as a wrong secret
    if (!timingSafeEqual(keyDigest(pepper, credential), record?.digest ?? absent) || !record) return null;
    const principal = principalOf(record);
    proven.set(credential, principal);
    return principal;
  };
  return {
    async authenticate(credential) {
      const prefix = keyPrefix(credential);
      if (prefix === null) return null;
      const recent = find(prefix);
      const record = await recent.record;
      const principal = recent.proven.get(credential) ?? prove(recent, record, credential);
      return record && principal && isUsable(record, now()) ? principal : null;
    },
  };
}

/** One question to the store, and the principal of the credential that its answer has proven, the same object each time. */
interface Recent {
  readonly since: number;
  readonly record: Promise<KeyRecord | null>;
  /** By the whole credential: a map compares a guess with it only where their hashes are equal, so its time tells nothing of how much was guessed. */
  readonly proven: Map<string, Principal>;
}

function isUsable(record: KeyRecord, nowMs: number): boolean {
  const expired = record.expiresAt !== null && record.expiresAt.getTime() <= nowMs;
  // a mixed key cannot be created; a row that was edited by hand still opens neither plane
  return !expired && record.revokedAt === null && record.roles.length > 0 && !combinesPlanes(record.roles);
}

function principalOf({ tenant, principal, roles, subject, purposes, tools, grants }: KeyRecord): Principal {
  return { tenant, id: principal, roles, subject, purposes, tools, grants };
}

const cachedAtMost = 10_000;

/**
 * One question to the store per prefix and `cacheMs`, shared by all who ask meanwhile: a burst of calls costs one query,
 * and so does a flood of guesses at one key. A failure is not kept.
 */
function recentRecords(store: KeyStore, cacheMs: number, monotonic: () => number): (prefix: string) => Recent {
  const recent = new Map<string, Recent>();
  return (prefix) => {
    const known = recent.get(prefix);
    // the age counts from before the question, so that a slow store cannot stretch the life of a revoked key
    if (known && monotonic() - known.since < cacheMs) return known;
    recent.delete(prefix);
    const entry: Recent = { since: monotonic(), record: store.findKey(prefix), proven: new Map() };
    if (recent.size >= cachedAtMost) recent.delete(recent.keys().next().value ?? '');
    recent.set(prefix, entry);
    entry.record.catch(() => {
      if (recent.get(prefix) === entry) recent.delete(prefix);
    });
    return entry;
  };
}
