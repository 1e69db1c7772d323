/** One request, and what came of it. Knows neither budgets nor calls. */
import { isAnswer } from './answer.js';
import type { CallgateErrorCode } from './callgate-error.js';
import { connectionFailure } from './connection-failure.js';
import type { Heard } from './heard.js';
import { retryAfterMs } from './retry-after.js';

export type Fetch = typeof globalThis.fetch;

export interface Link {
  /** Without a slash at its end. */
  url: string;
  key: string;
  fetch: Fetch;
  /** For an answer, beyond the time that the gateway itself was asked to wait. */
  timeoutMs: number;
}

export interface Ask {
  method: 'GET' | 'POST';
  path: string;
  body?: string;
  /** Whether the gateway can be asked to wait for an outcome here. */
  waits: boolean;
  /** Whether a document is what this path answers with when it does not refuse. */
  answers(document: object): boolean;
}

/** What is a few milliseconds short of a second counts as one: half a minute is to be asked for as 30. */
const roundingMs = 100;

/** Timers beyond it fire at once. */
const longestTimerMs = 2 ** 31 - 1;

/** @param waitMs how long the gateway is asked to wait; it is told whole seconds. */
export async function exchange(link: Link, ask: Ask, waitMs: number, signal: AbortSignal | undefined): Promise<Heard> {
  if (signal?.aborted) return aborted(signal, false);
  const waitSeconds = Math.floor((waitMs + roundingMs) / 1000);
  const attempt = new AbortController();
  const end = (): void => attempt.abort(signal?.reason);
  const limitMs = Math.min(link.timeoutMs + waitSeconds * 1000, longestTimerMs);
  const timer = setTimeout(end, limitMs);
  signal?.addEventListener('abort', end);
  try {
    const response = await link.fetch(link.url + ask.path, {
      method: ask.method,
      headers: {
        authorization: `Bearer ${link.key}`,
        accept: 'application/json, application/problem+json',
        ...(ask.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(ask.waits ? { prefer: `wait=${waitSeconds}` } : {}),
      },
      ...(ask.body === undefined ? {} : { body: ask.body }),
      // A redirect would turn the POST into a GET, or carry the key elsewhere.
      redirect: 'manual',
      signal: attempt.signal,
    });
    return judge(ask, response, await response.text());
  } catch (cause) {
    if (signal?.aborted) return aborted(signal, true);
    if (attempt.signal.aborted) return { kind: 'lost', why: `no answer in ${limitMs / 1000} s`, taken: true, pauseMs: null };
    return connectionFailure(cause, link.url);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end);
  }
}

export function aborted(signal: AbortSignal, taken: boolean): Heard & { kind: 'failed' } {
  return { kind: 'failed', code: 'ABORTED', why: 'the caller’s signal ended it', taken, cause: signal.reason };
}

/** Statuses with which things between us and the gateway say that they are busy, or that it is away. */
const passing = (status: number): boolean => status === 408 || status === 425 || status === 429 || (status >= 500 && status !== 501);

const misdirected: ReadonlyMap<unknown, CallgateErrorCode> = new Map([
  ['UNAUTHENTICATED', 'UNAUTHENTICATED'], ['WRONG_PLANE', 'WRONG_PLANE'], ['ROUTE_NOT_FOUND', 'ROUTE_NOT_FOUND'],
]);

function judge(ask: Ask, response: Response, text: string): Heard {
  const { status, headers } = response;
  const document = readObject(text);
  const resend = headers.get('x-should-retry') !== 'false';
  if (document && (isAnswer(document) || (response.ok && ask.answers(document)))) {
    const code = 'code' in document ? misdirected.get(document.code) : undefined;
    if (code) return { kind: 'failed', code, why: misdirection(code, ask), taken: false, document };
    return { kind: 'document', document, resend, pauseMs: pauseOf(document, headers) };
  }
  if (response.type === 'opaqueredirect' || (status >= 300 && status < 400)) return notGateway(`a redirect${headers.has('location') ? ` to ${headers.get('location')}` : ''}`);
  const type = (headers.get('content-type') ?? '').toLowerCase();
  const why = passing(status) ? `a proxy answered ${status}` : !document && /\bjson\b/.test(type) ? `the answer (${status}) was cut off` : null;
  if (why !== null) {
    if (resend) return { kind: 'lost', why, taken: true, pauseMs: retryAfterMs(headers) };
    return { kind: 'failed', code: 'NO_ANSWER', why: `${why}, with \`x-should-retry: false\``, taken: true };
  }
  return notGateway(document ? `${status} with JSON that is no answer of a gateway` : `${status} with ${type.split(';')[0] || 'no media type'}`);
}

function readObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** A proxy may ask for a longer pause than the answer does. */
function pauseOf(document: object, headers: Headers): number | null {
  const asked = retryAfterMs(headers);
  const told = 'retry_after_ms' in document ? document.retry_after_ms : null;
  return typeof told === 'number' && told >= 0 ? Math.max(told, asked ?? 0) : asked;
}

function notGateway(what: string): Heard {
  return { kind: 'failed', code: 'NOT_A_GATEWAY', why: `it answered ${what}; the address must be that of the agent listener, which a proxy may stand before and nothing else`, taken: false };
}

function misdirection(code: CallgateErrorCode, { method, path }: Ask): string {
  if (code === 'UNAUTHENTICATED') return 'the key is unknown, expired or revoked (401); the operator makes another with `callgate keys create`';
  if (code === 'WRONG_PLANE') return 'the key does not work on this listener (403): agents’ keys belong to the agent listener (port 8080 by default), all others to the control listener';
  return `it has no path \`${method} ${path.split('?')[0]}\` (404): the address is that of the control listener, or the gateway is of another version`;
}
