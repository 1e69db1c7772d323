/**
 * A synthetic retail service: the domain service that the example's contracts describe. The paths that begin with `/_` are
 * for tests and demonstrations and exist in no real service.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Malformed, refusal } from './answer.js';
import { readObject } from './body.js';
import { isWrite } from './faults.js';
import { perform } from './perform.js';
import { drop, send } from './reply.js';
import { findRoute, nameOf } from './routes.js';
import { type Order, seedOrders } from './seed.js';
import { type WebhookOptions, Webhooks } from './webhooks.js';
import { World } from './world.js';

export interface RetailServiceOptions {
  /** 0 takes any free port. */
  port: number;
  host?: string;
  /** When set, every path but `/_*` asks for it as a bearer token. */
  token?: string | null;
  /** A file that keeps orders, books, keys and delayed writes, though not faults, over a restart. Absent: in memory alone. */
  journal?: string | null;
  /** Whom it tells of what it had accepted with 202. Absent: nobody. */
  webhooks?: WebhookOptions | null;
  /** The orders to begin with; absent: those of seed.ts. */
  orders?: () => Order[];
}

export interface RetailService {
  url: string;
  /** Ends open connections and delayed work; with a journal, the next start takes that up. */
  close(): Promise<void>;
}

/**
 * @throws the listening error (`EADDRINUSE`, `EACCES`, …) when the address cannot be had.
 * @throws JournalError when the journal cannot be opened or replayed.
 */
export async function startRetailService(
  { port, host = '127.0.0.1', token = null, journal = null, webhooks = null, orders = seedOrders }: RetailServiceOptions,
): Promise<RetailService> {
  const server = createServer();
  // Longer than any client pool's idle time, so that it is never this side which closes a connection under a request.
  server.keepAliveTimeout = 120_000;
  server.headersTimeout = 125_000;
  server.listen(port, host);
  // The port before the journal: a second process with the same settings must not touch the file of the first. Connections
  // wait for the journal, which is read in this same turn of the event loop.
  await once(server, 'listening');
  const told = webhooks && new Webhooks(webhooks);
  let world = openWorld(journal, orders, told, server);
  const stage: Backstage = {
    webhooks: told,
    reset() {
      world = world.next();
    },
  };
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    const answering = isBackstage(req) ? serveBackstage(req, res, world, stage) : serveApi(req, res, world, token);
    answering.catch((error: unknown) => fail(res, error));
  });
  const { address, port: bound, family } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    async close() {
      world.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

function openWorld(journal: string | null, orders: () => Order[], webhooks: Webhooks | null, server: Server): World {
  try {
    return World.open(journal, orders, webhooks);
  } catch (error) {
    server.close();
    throw error;
  }
}

function isBackstage(req: IncomingMessage): boolean {
  return req.url?.startsWith('/_') ?? false;
}

interface Backstage { webhooks: Webhooks | null; reset(): void }

async function serveBackstage(req: IncomingMessage, res: ServerResponse, world: World, { webhooks, reset }: Backstage): Promise<void> {
  switch (`${req.method} ${pathOf(req)}`) {
    case 'GET /_books':
      return send(res, { status: 200, body: world.books.open() });
    case 'GET /_faults':
      return send(res, { status: 200, body: { met: world.faults.met() } });
    case 'POST /_faults':
      world.faults.arm(await readObject(req));
      return send(res, { status: 200, body: { armed: true } });
    case 'POST /_reset':
      reset();
      return send(res, { status: 200, body: { reset: true } });
    case 'POST /_webhooks':
      subscribe(webhooks, await readObject(req));
      return send(res, { status: 200, body: { subscribed: true } });
    default:
      return send(res, refusal(404, 'NO_SUCH_PATH'));
  }
}

function subscribe(webhooks: Webhooks | null, { url }: Record<string, unknown>): void {
  if (!webhooks) throw new Malformed('the service has no secret to sign with; start it with RETAIL_WEBHOOK_SECRET');
  if (typeof url !== 'string' || !URL.canParse(url)) throw new Malformed('`url` must be the address that events are sent to');
  webhooks.url = url;
}

async function serveApi(req: IncomingMessage, res: ServerResponse, world: World, token: string | null): Promise<void> {
  const found = findRoute(req.method ?? '', pathOf(req));
  const known = found !== null && 'route' in found;
  world.arrived(known ? nameOf(found.route) : 'unknown');
  if (token !== null && !bears(req, token)) {
    return send(res, { ...refusal(401, 'UNAUTHENTICATED'), headers: { 'www-authenticate': 'Bearer' } });
  }
  if (found === null) return send(res, refusal(404, 'NO_SUCH_PATH'));
  if (!known) return send(res, { ...refusal(405, 'METHOD_NOT_ALLOWED'), headers: { allow: found.allow } });

  const { route } = found;
  const param = decoded(found.rawParam);
  const key = isWrite(route.tool) ? requestKey(req) : '';
  const body = route.method === 'POST' ? await readObject(req) : {};
  const execute = world.prepare(route, { param, query: queryOf(req), ifMatch: req.headers['if-match'], body, key });
  await perform(execute, world.faults.take(route.tool), res, (ms) => world.wait(ms), (deciding) => world.tell(route.tool, key, deciding));
}

function requestKey(req: IncomingMessage): string {
  const key = req.headers['idempotency-key'];
  if (typeof key === 'string' && key !== '') return key;
  throw new Malformed('a write needs the header `Idempotency-Key`', 400, 'KEY_REQUIRED');
}

function bears(req: IncomingMessage, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(req.headers.authorization ?? ''), digest(`Bearer ${token}`));
}

function pathOf(req: IncomingMessage): string {
  return (req.url ?? '/').split('?', 1)[0] ?? '/';
}

function queryOf(req: IncomingMessage): URLSearchParams {
  const url = req.url ?? '';
  const mark = url.indexOf('?');
  return new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
}

function decoded(rawParam: string): string {
  try {
    return decodeURIComponent(rawParam);
  } catch {
    throw new Malformed('the path has a broken percent-encoding');
  }
}

/** Malformed requests are answered. What else comes here is a client that left, a reset, or a defect of ours. */
function fail(res: ServerResponse, error: unknown): void {
  if (error instanceof Malformed) {
    send(res, error.answer);
    return;
  }
  const expected = res.req.socket.destroyed || (error instanceof Error && error.name === 'AbortError');
  if (!expected) console.error('retail service:', error);
  drop(res);
}
