/**
 * Sends a rendered request to its domain service once: no redirect is followed, nothing is sent a second time, and the
 * credential is read at this moment and kept nowhere.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import type { RenderedRequest, UpstreamPlan } from '../contract/plan.js';
import type { Credentials } from './credentials.js';
import type { Egress } from './egress.js';
import type { Exchange, FailureReason, SendOptions, Upstream } from './exchange.js';
import { InFlight } from './in-flight.js';
import { attemptHeader, watchAttempt } from './sent-marks.js';

export interface UpstreamOptions {
  egress: Egress;
  credentials: Credentials;
  /** Told, in words without the secret, why a request could not be given its credential. */
  noCredential?(service: string, problem: string): void;
  /** Of one response body, decoded from its transfer coding. */
  maxResponseBytes: number;
  /** Of one response head. */
  maxHeaderBytes: number;
  /** Default `callgate`. */
  userAgent?: string;
}

type Headers = Record<string, string>;

/** `accepts`: whether the service takes a connection, TLS included, within its time to connect. Nothing is sent over it. */
export function createUpstream(options: UpstreamOptions): Upstream & { accepts(upstream: UpstreamPlan): Promise<boolean> } {
  const pools = new Map<string, Pool>();
  const byPlan = new WeakMap<UpstreamPlan, Pool>();
  let closing: Promise<unknown> | null = null;

  const poolOf = (upstream: UpstreamPlan): Pool | null => {
    const known = byPlan.get(upstream);
    if (known) return known;
    const key = JSON.stringify([upstream.service, upstream.origin, upstream.concurrency, upstream.connectTimeoutMs]);
    const pool = pools.get(key) ?? openPool(upstream, options);
    if (pool) {
      pools.set(key, pool);
      byPlan.set(upstream, pool);
    }
    return pool;
  };

  const send = (request: RenderedRequest, options: SendOptions): Promise<Exchange> => {
    const { upstream, deadlineMs } = options;
    if (deadlineMs <= 0) return unsent('deadline');
    if (closing || performance.now() >= (options.sendBefore ?? Infinity)) return unsent('fence_passed');
    const path = pathWithin(upstream.origin, request.url);
    if (path === null) return unsent('protocol');
    const credential = credentialOf(upstream);
    if (credential === null) return unsent('no_credential');
    return credential instanceof Promise ? dispatchWith(credential, request, path, options) : dispatch(request, path, credential, options);
  };

  /** Waiting is part of the deadline; the fence is asked again when the request is written. */
  const dispatchWith = async (waited: Promise<Headers | null>, request: RenderedRequest, path: string, options: SendOptions): Promise<Exchange> => {
    const until = performance.now() + options.deadlineMs;
    const credential = await Promise.race([waited, delay(options.deadlineMs, 'late' as const, { ref: false })]);
    if (credential === null) return unsent('no_credential');
    if (credential === 'late') return unsent('deadline');
    if (closing) return unsent('fence_passed');
    return dispatch(request, path, credential, { ...options, deadlineMs: until - performance.now() });
  };

  const dispatch = async (request: RenderedRequest, path: string, credential: Headers, { upstream, attempt, deadlineMs, sendBefore = Infinity }: SendOptions): Promise<Exchange> => {
    const pool = poolOf(upstream);
    if (pool === null) return unsent('protocol');
    const headers = headersOf(request, attempt, credential, options.userAgent ?? 'callgate');
    const inFlight = new InFlight({ mark: watchAttempt(attempt), deadlineMs, sendBefore, maxResponseBytes: options.maxResponseBytes });
    pool.dispatch({ method: request.method as 'POST', path, headers, body: request.body }, inFlight);
    const exchange = await inFlight.exchange;
    if (upstream.auth && exchange.kind === 'response' && exchange.status === 401) options.credentials.refused(upstream.service, upstream.auth);
    return exchange;
  };

  /** Null when there is none, which the operator has then been told. */
  const credentialOf = ({ service, auth }: UpstreamPlan): Headers | null | Promise<Headers | null> => {
    if (!auth) return {};
    const lacks = (error: unknown): null => {
      options.noCredential?.(service, (error as Error).message);
      return null;
    };
    const header = (value: string): Headers => ({ [auth.header.toLowerCase()]: value });
    try {
      const value = options.credentials.read(service, auth);
      return typeof value === 'string' ? header(value) : value.then(header, lacks);
    } catch (error) {
      return lacks(error);
    }
  };

  return {
    send,
    accepts: (upstream) => accepts(upstream, options.egress),
    async close() {
      closing ??= Promise.all([...pools.values()].map((pool) => pool.close()));
      await closing;
    },
  };
}

function accepts({ service, origin, connectTimeoutMs }: UpstreamPlan, egress: Egress): Promise<boolean> {
  const { hostname, host, port, protocol } = new URL(origin);
  return new Promise((resolve) => {
    egress.connector(service, connectTimeoutMs)({ hostname, host, port, protocol }, (error, socket) => {
      socket?.destroy();
      resolve(error === null);
    });
  });
}

/** undici's own head and body timeouts are off: one deadline of ours covers the exchange. Null for an origin that is no HTTP origin. */
function openPool(upstream: UpstreamPlan, { egress, maxHeaderBytes }: UpstreamOptions): Pool | null {
  try {
    return new Pool(upstream.origin, {
      connections: upstream.concurrency,
      pipelining: 1,
      connect: egress.connector(upstream.service, upstream.connectTimeoutMs),
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: maxHeaderBytes,
      allowH2: false,
    });
  } catch {
    return null;
  }
}

const unsent = (reason: FailureReason): Promise<Exchange> => Promise.resolve({ kind: 'failure', sent: false, reason, ms: 0 });

/**
 * The rest of the URL, cut and not parsed: a URL parser would resolve `%2e%2e` and send other bytes than were rendered.
 * Null when the URL leaves the origin, to which alone the credential belongs.
 */
function pathWithin(origin: string, url: string): string | null {
  const rest = url.startsWith(origin) ? url.slice(origin.length) : null;
  if (rest === null || rest.startsWith('/')) return rest;
  return rest === '' || rest.startsWith('?') ? `/${rest}` : null;
}

/** The contract's headers override our defaults; the credential and the attempt override the contract's. */
const headersOf = (request: RenderedRequest, attempt: string, credential: Headers, userAgent: string) => ({
  accept: 'application/json',
  'user-agent': userAgent,
  ...(request.body === null ? {} : { 'content-type': 'application/json' }),
  ...request.headers,
  ...credential,
  [attemptHeader]: attempt,
});
