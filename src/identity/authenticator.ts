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
  return {
    async authenticate(credential) {
      const prefix = keyPrefix(credential);
      if (prefix === null) return null;
      const record = await find(prefix);
      // an unknown key costs the same hash and comparison as a wrong secret
      const proven = timingSafeEqual(keyDigest(pepper, credential), record?.digest ?? absent);
      return record && proven && isUsable(record, now()) ? principalOf(record) : null;
    },
  };
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
function recentRecords(store: KeyStore, cacheMs: number, monotonic: () => number): (prefix: string) => Promise<KeyRecord | null> {
  const recent = new Map<string, { since: number; record: Promise<KeyRecord | null> }>();
  return (prefix) => {
    const known = recent.get(prefix);
    // the age counts from before the question, so that a slow store cannot stretch the life of a revoked key
    if (known && monotonic() - known.since < cacheMs) return known.record;
    recent.delete(prefix);
    const entry = { since: monotonic(), record: store.findKey(prefix) };
    if (recent.size >= cachedAtMost) recent.delete(recent.keys().next().value ?? '');
    recent.set(prefix, entry);
    entry.record.catch(() => {
      if (recent.get(prefix) === entry) recent.delete(prefix);
    });
    return entry.record;
  };
}
