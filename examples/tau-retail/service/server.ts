/** The retail store of tau-bench as a well-made HTTP service: versions, idempotency keys, receipts. Its world lives in memory. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Malformed } from '../../retail/service/answer.js';
import { readObject } from '../../retail/service/body.js';
import type { Edition } from '../domain/records.js';
import type { RetailData, Store } from '../domain/store.js';
import { type Answer, refusal } from './answer.js';
import { Desk } from './desk.js';
import type { Receipt } from './receipts.js';
import { findRoute, type Route, text } from './routes.js';

export interface TauServiceOptions {
  edition: Edition;
  data: RetailData;
  /** 0 takes any free port. */
  port: number;
  host?: string;
  /** When set, every path asks for it as a bearer token. */
  token?: string | null;
}

export interface TauService {
  readonly url: string;
  /** The world as it stands, for who compares it. */
  readonly store: Store;
  /** What writes have done, in their order. */
  effects(): Receipt[];
  /** Writes that were asked for, in their order: repetitions and refused ones too. */
  requests(): readonly { tool: string; target: string }[];
  /** Fresh data, no keys, nothing lost. */
  reset(): void;
  /** From now on the first answer of each write is lost after its commit: the connection closes without a byte. */
  loseFirstAnswers(): void;
  close(): Promise<void>;
}

export async function startTauService({ edition, data, port, host = '127.0.0.1', token = null }: TauServiceOptions): Promise<TauService> {
  let desk = new Desk(edition, data);
  let lost: Set<string> | null = null;
  const server = createServer((req, res) => {
    serve(req, res, desk, token, lost).catch((error: unknown) => fail(res, error));
  });
  // Longer than any client pool's idle time, so that it is never this side which closes a connection under a request.
  server.keepAliveTimeout = 120_000;
  server.headersTimeout = 125_000;
  server.listen(port, host);
  await once(server, 'listening');
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    get store() {
      return desk.store;
    },
    effects: () => desk.receipts.effects(),
    requests: () => desk.requests,
    reset() {
      desk = new Desk(edition, data);
      lost = null;
    },
    loseFirstAnswers() {
      lost = new Set();
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** @param lost keys whose first answer has been lost; null: none is. */
async function serve(req: IncomingMessage, res: ServerResponse, desk: Desk, token: string | null, lost: Set<string> | null): Promise<void> {
  const [path = '/', query = ''] = (req.url ?? '/').split('?', 2);
  const found = findRoute(req.method ?? '', path);
  if (token !== null && req.headers.authorization !== `Bearer ${token}`) return send(res, refusal(401, 'UNAUTHENTICATED'));
  if (found === null) return send(res, refusal(404, 'NO_SUCH_PATH'));
  const { route } = found;
  const body = route.method === 'GET' ? {} : await readObject(req);
  const answer = answerFor(route, { param: decoded(found.rawParam), query: new URLSearchParams(query), body }, req, desk);
  const key = requestKey(req);
  if (lost !== null && 'write' in route && answer.status < 300 && !lost.has(key)) {
    lost.add(key);
    req.socket.destroy();
  } else send(res, answer);
}

function answerFor(route: Route, request: { param: string; query: URLSearchParams; body: Record<string, unknown> }, req: IncomingMessage, desk: Desk): Answer {
  if ('receipt' in route) return { status: 200, body: desk.receipts.under(request.param) };
  if ('read' in route) {
    const { tool, args } = route.read(request);
    return desk.read(tool, args, route.versioned ? request.param : undefined);
  }
  const key = requestKey(req);
  if (key === '') throw new Malformed('a write needs the header `Idempotency-Key`', 400, 'KEY_REQUIRED');
  const customer = text(request.body, 'customer');
  return desk.write({ ...route.write(request), target: request.param, customer, key, ifMatch: req.headers['if-match'] });
}

function requestKey(req: IncomingMessage): string {
  return String(req.headers['idempotency-key'] ?? '');
}

function decoded(rawParam: string): string {
  try {
    return decodeURIComponent(rawParam);
  } catch {
    throw new Malformed('the path has a broken percent-encoding');
  }
}

function send(res: ServerResponse, { status, headers, body }: Answer): void {
  const bytes = Buffer.from(JSON.stringify(body));
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length, ...headers }).end(bytes);
}

/** Malformed requests are answered. What else comes here is a client that left, or a defect of ours. */
function fail(res: ServerResponse, error: unknown): void {
  if (error instanceof Malformed) {
    send(res, error.answer);
    return;
  }
  if (!res.req.socket.destroyed) console.error('tau retail service:', error);
  res.req.socket.destroy();
}
