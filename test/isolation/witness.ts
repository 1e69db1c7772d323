/**
 * What an asker can compare of two answers, and what each of them cost: the statements and the requests to services that it caused are the
 * timing class in its exact form, which no busy machine blurs. A gateway in this process, one ask at a time.
 */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { request, Server } from 'node:http';
import pg from 'pg';
import type { Joints } from '../../src/main.js';

export interface Ask { method: string; url: string; headers?: Record<string, string>; body?: string }
export interface Seen { status: number; headers: Record<string, string>; body: string; statements: string[]; sent: string[]; /** Bytes under a keyed hash. */ hashed: number; ms: number }

interface Trace { statements: string[]; sent: string[]; hashed: number }

const traces = new AsyncLocalStorage<Trace>();
let current: Trace | undefined;

/** A connection's parser, and so whatever its request causes, runs where the connection was taken in. */
const emit = Server.prototype.emit;
Server.prototype.emit = function (this: Server, event: string | symbol, ...given: unknown[]): boolean {
  const heard = (): boolean => Reflect.apply(emit, this, [event, ...given]) as boolean;
  return event === 'connection' && current ? traces.run(current, heard) : heard();
};
const query = pg.Client.prototype.query as (...given: unknown[]) => unknown;
pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]): unknown {
  // The connection's own: plans are made again as tables grow, whoever asks just then.
  const texts = textsOf(given[0]).filter((text) => !/^discard plans|\banalyze\b/.test(text));
  traces.getStore()?.statements.push(...texts.map((text) => text.replace(/\s+/g, ' ').trim()));
  return query.apply(this, given);
} as typeof pg.Client.prototype.query;

/** Of a statement, or of several that are one exchange. */
function textsOf(query: unknown): string[] {
  if (typeof query === 'string') return [query];
  const { text, statements } = query as { text?: string; statements?: { text: string }[] };
  return statements ? statements.map((one) => one.text) : [text as string];
}

/** A pool calls back from wherever a connection came free. */
const connect = pg.Pool.prototype.connect as (...given: unknown[]) => unknown;
pg.Pool.prototype.connect = function (this: pg.Pool, ...given: unknown[]): unknown {
  return connect.apply(this, given.map((one) => (typeof one === 'function' ? AsyncResource.bind(one as () => void) : one)));
} as typeof pg.Pool.prototype.connect;

/** The module `node:crypto`, whose keyed hashes are counted: the work of checking a secret. */
export const counting = (crypto: typeof import('node:crypto')): typeof import('node:crypto') => ({
  ...crypto,
  createHmac(...given: Parameters<typeof crypto.createHmac>) {
    const hmac = crypto.createHmac(...given);
    const trace = traces.getStore();
    const update = hmac.update.bind(hmac) as (data: string | Buffer) => typeof hmac;
    return Object.assign(hmac, {
      update(data: string | Buffer) {
        if (trace) trace.hashed += Buffer.byteLength(data);
        return update(data);
      },
    });
  },
});

/** Gives a gateway whose requests to services are noted. */
export const noting: Joints = {
  upstream: (upstream) => ({
    close: () => upstream.close(),
    send(sent, options) {
      traces.getStore()?.sent.push(`${sent.method} ${sent.url}`);
      return upstream.send(sent, options);
    },
  }),
};

/** Settings under which nothing but what is asked reaches the database, and a key is looked up each time. */
export const still = {
  CALLGATE_RECONCILE_SWEEP_INTERVAL: '1m', CALLGATE_RECEIPTS_SEAL_INTERVAL: '1m', CALLGATE_CONTRACTS_RELOAD: '0ms', CALLGATE_IDENTITY_KEY_CACHE: '0ms',
};

/** Over a connection of its own. */
export function ask({ method, url, headers = {}, body }: Ask): Promise<Seen> {
  const trace: Trace = { statements: [], sent: [], hashed: 0 };
  current = trace;
  const began = performance.now();
  return new Promise<Seen>((resolve, reject) => {
    const given = body === undefined ? headers : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)), ...headers };
    const sent = request(url, { method, agent: false, headers: given, timeout: 20_000 }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject).on('end', () => resolve({
        status: response.statusCode ?? 0, headers: response.headers as Record<string, string>, body: Buffer.concat(chunks).toString(), ...trace, ms: performance.now() - began,
      }));
    });
    sent.on('timeout', () => sent.destroy(new Error('no answer within 20 s'))).on('error', reject).end(body);
  }).finally(() => { current = undefined; });
}

export interface Comparable { status: number; headers: Record<string, string>; body: unknown; statements: string[]; sent: string[] }

/**
 * What may differ is taken out: the date, ids and times that every answer has anew, and the texts that the asker itself sent. Of looks that
 * are repeated until a time is over one is kept: how many there were says the clock.
 * @param own longest first, or one would be left in pieces of another
 */
export function comparable({ status, headers, body, statements, sent }: Seen, own: readonly string[] = []): Comparable {
  const { date: _, 'content-length': __, ...kept } = headers;
  const without = (text: string): string => own.reduce((left, word) => left.replaceAll(word, 'OWN').replaceAll(encodeURIComponent(word), 'OWN'), text)
    .replace(/\brcp_[A-Za-z0-9]+/g, 'rcp').replace(/\bcall_[0-9a-f-]{36}/g, 'call').replace(/\bop_[0-9a-z]{32}/g, 'op').replace(/"ms":[0-9.e-]+/g, '"ms":0');
  const text = without(body);
  return {
    status, headers: kept, body: kept['content-type']?.endsWith('json') ? JSON.parse(text) : text,
    statements: statements.filter((statement, n) => statement !== statements[n - 1]), sent: sent.map(without),
  };
}

/**
 * How well the times of one class of answers tell it from another: the share of pairs in which the first is the slower. 0.5 says nothing,
 * 0 and 1 tell all. By ranks, so that a pause of the machine counts as one slow answer and not for its length.
 */
export function tellsApart(ones: readonly number[], others: readonly number[]): number {
  let wins = 0;
  for (const one of ones) for (const other of others) wins += one > other ? 1 : one === other ? 0.5 : 0;
  return wins / (ones.length * others.length);
}
