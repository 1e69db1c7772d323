/**
 * The published keys of one issuer, kept at hand: fetched again in the background while they are in use, at once when a token names a key that is
 * not among them (at most once in a cooldown, or made-up key ids would be a way to call the issuer), and used for a bounded time when the issuer
 * does not answer.
 */
import { createLocalJWKSet, errors, type JWK, type JWTVerifyGetKey } from 'jose';
import { CredentialsUnavailable } from '../errors.js';

export interface KeySetOptions {
  /** A JWK set as JSON. */
  load(): Promise<unknown>;
  /** How long keys are used after they were last fetched. */
  keptMs: number;
  /** After which they are fetched again. Default 10 min. */
  freshMs?: number;
  /** Between two fetches. Default 30 s. */
  cooldownMs?: number;
  /** Monotonic, in milliseconds. */
  now?: () => number;
  /** Told why keys could not be fetched. */
  failed?(error: Error): void;
}

const defaultFreshMs = 600_000;
const defaultCooldownMs = 30_000;
const keysAtMost = 100;

/** @returns the key of a token. It throws jose's errors for a token, and CredentialsUnavailable when there are no keys to look among. */
export function keepKeys({ load, keptMs, freshMs = defaultFreshMs, cooldownMs = defaultCooldownMs, now = () => performance.now(), failed }: KeySetOptions): JWTVerifyGetKey {
  let known: { find: JWTVerifyGetKey; since: number } | null = null;
  let triedAt = -Infinity;
  let running: Promise<void> | null = null;

  const fetch = async (): Promise<void> => {
    const since = now();
    triedAt = since;
    try {
      known = { find: createLocalJWKSet({ keys: usableKeys(await load()) }), since };
    } catch (error) {
      failed?.(error as Error);
    }
  };
  /** Never rejects; within the cooldown it does nothing. */
  const refresh = async (): Promise<void> => {
    if (!running && now() - triedAt < cooldownMs) return;
    running ??= fetch().finally(() => { running = null; });
    await running;
  };
  const current = async (): Promise<JWTVerifyGetKey> => {
    const age = known ? now() - known.since : Infinity;
    if (age >= keptMs) await refresh();
    else if (age >= freshMs) void refresh();
    if (!known || now() - known.since >= keptMs) throw new CredentialsUnavailable();
    return known.find;
  };

  return async (header, token) => {
    const find = await current();
    try {
      return await find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await refresh();
      return (await current())(header, token);
    }
  };
}

/** Keys that verify, and only that: a symmetric or private key in a published set is a mistake that must not become a way in. @throws Error */
function usableKeys(content: unknown): JWK[] {
  const keys = typeof content === 'object' && content !== null ? (content as { keys?: unknown }).keys : undefined;
  if (!Array.isArray(keys)) throw new Error('it is not a JWK set');
  const usable = keys.filter(verifies).slice(0, keysAtMost);
  if (usable.length === 0) throw new Error('it has no key that verifies signatures');
  return usable;
}

function verifies(key: unknown): key is JWK {
  if (typeof key !== 'object' || key === null) return false;
  const { kty, use, d, key_ops: operations } = key as JWK;
  return ['RSA', 'EC', 'OKP'].includes(String(kty)) && (use === undefined || use === 'sig') && d === undefined && (operations === undefined || operations.includes('verify'));
}
