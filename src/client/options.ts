/** How a client is set up; what cannot work is said at once and not at the first call. */
import { CallgateError } from './callgate-error.js';
import type { Fetch, Link } from './exchange.js';
import type { Limits } from './patience.js';

export interface CallgateOptions {
  /** The agent listener, for instance `http://127.0.0.1:8080`. */
  url: string;
  /** A key with the role `agent`. */
  key: string;
  fetch?: Fetch | undefined;
  /** For one answer, beyond the time that the gateway was asked to wait; 15 s. */
  timeoutMs?: number | undefined;
  /** Requests for one call at the most, those not counted that look at its operation and are answered; 10. */
  attempts?: number | undefined;
  /** For how long a request that gets no answer is made again; 60 s, or `waitMs` where that is longer. */
  elapsedMs?: number | undefined;
}

export interface CallOptions {
  /** How long to wait for an outcome; then the last answer is given, whatever it says. 30 s; 0: the first answer. */
  waitMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

export function linkOf({ url, key, fetch, timeoutMs = 15_000 }: CallgateOptions): Link {
  return {
    url: checkedUrl(url),
    key: checkedKey(key),
    // Called through the global object, as browsers and edge runtimes want it.
    fetch: fetch ?? ((...request) => globalThis.fetch(...request)),
    timeoutMs: checkedNumber('timeoutMs', timeoutMs, 1),
  };
}

export function limitsOf({ attempts = 10, elapsedMs = 60_000 }: CallgateOptions): Limits {
  return { attempts: checkedNumber('attempts', attempts, 1), elapsedMs: checkedNumber('elapsedMs', elapsedMs, 0) };
}

export function checkedNumber(name: string, value: number, least: number): number {
  if (typeof value === 'number' && value >= least) return value;
  throw invalid(`\`${name}\` is ${String(value)}; it must be a number of at least ${least}`);
}

function checkedUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw invalid(`\`url\` is \`${String(text)}\`; it must be the address of the agent listener, for instance http://127.0.0.1:8080`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw invalid(`\`url\` begins with \`${url.protocol}\`; it must begin with http: or https:`);
  if (url.username || url.password || url.search || url.hash) throw invalid('`url` has a user, a query or a fragment; leave them out, the key is an option of its own');
  return url.href.replace(/\/+$/, '');
}

/** Never part of a message. */
function checkedKey(key: string): string {
  if (typeof key === 'string' && /^[\x21-\x7e]+$/.test(key)) return key;
  throw invalid('`key` is empty or has characters that no key has; it is the text that `callgate keys create` printed, without spaces or line breaks');
}

function invalid(what: string): CallgateError {
  return new CallgateError('INVALID_OPTION', `The client cannot be set up: ${what}. Nothing was sent.`);
}
