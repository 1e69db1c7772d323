/** A service that pays a list of payees under one key, item by item, with books of its own and faults that a test sets; and its contract. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const contract = (more: [string, string][]): string => more.reduce((text, [from, to]) => {
  if (!text.includes(from)) throw new Error(`the contract does not say \`${from}\``);
  return text.replaceAll(from, to);
}, `
callgate: 1
service: payouts
upstream: { base_url: "\${PAYOUTS_URL}", limits: { deadline: 600ms } }
tools:
  find_payouts:
    version: 1.0.0
    effect: none
    purpose: Find what was paid under a key.
    args: { type: object, properties: { key: { type: string, maxLength: 100 } }, required: [key] }
    result: &answer
      type: object
      properties:
        found: { type: boolean }
        results: { type: array, maxItems: 20, items: { type: object, properties: { ref: { type: string }, status: { enum: [paid, failed, busy, pending] } }, required: [ref, status] } }
      required: [found, results]
    http: { method: GET, path: "/payouts/{args.key}" }
  pay_out:
    version: 1.0.0
    effect: write
    purpose: Pay several payees.
    args:
      type: object
      properties:
        month: { type: string, maxLength: 10 }
        payees: { type: array, maxItems: 20, items: { type: object, properties: { ref: { type: string, maxLength: 20 }, amount: { type: integer, minimum: 1 } }, required: [ref, amount] } }
      required: [month, payees]
    http: { method: POST, path: /payouts, headers: { Idempotency-Key: "{operation.id}" }, body: { month: args.month, payees: args.payees } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: payments, never: [] }
    partial:
      items: args.payees
      key: item.ref
      failed: "result.results.exists(one, one.ref == item.ref && (one.status == 'failed' || one.status == 'busy'))"
      unknown: "result.results.exists(one, one.ref == item.ref && one.status == 'pending')"
      retry: "result.results.exists(one, one.ref == item.ref && one.status == 'busy')"
    readback:
      tool: find_payouts
      args: { key: operation.id }
      committed: result.found
      absent: "!result.found"
      result: result
      settle_after: 300ms
    retry: { attempts: 3, elapsed: 20s }
    verify: on_ambiguity
    result: *answer
policies: payouts.cedar
`);

export function payoutContracts(more: [string, string][] = []): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-payouts-'));
  writeFileSync(join(folder, 'payouts.yaml'), contract(more));
  writeFileSync(join(folder, 'payouts.cedar'), '@id("all") permit (principal, action, resource);');
  return folder;
}

/** What happens to one request: before it is carried out nothing has happened, after it all of it has. */
export type PayoutFault = 'drop_before' | 'drop_after' | '500_after' | '503_before' | '422_before' | 'hang_after';
type Status = 'paid' | 'failed' | 'busy' | 'pending';

export interface Payouts {
  url: string;
  /** Every payment that was made, one line each. */
  books: { key: string; month: string; ref: string; amount: number }[];
  /** Of the requests that come, in turn. */
  faults: (PayoutFault | null)[];
  /** How often a payee cannot be paid yet, before it can; `failed`: the service says that it will not. */
  stubborn: Record<string, { times: number; says: 'busy' | 'failed' }>;
  /** Payees of which the service does not say what became of them, until a read-back has asked so often. */
  pending: Record<string, number>;
  posts: string[];
  /** Read-backs are answered 500. */
  blind: boolean;
  reset(): void;
  close(): Promise<void>;
}

export async function openPayouts(): Promise<Payouts> {
  const seen = new Map<string, Map<string, Status>>();
  const service: Omit<Payouts, 'url' | 'close'> = {
    books: [], faults: [], stubborn: {}, pending: {}, posts: [], blind: false,
    reset() {
      seen.clear();
      Object.assign(service, { books: [], faults: [], stubborn: {}, pending: {}, posts: [], blind: false });
    },
  };
  const pay = (key: string, { month, payees }: { month: string; payees: { ref: string; amount: number }[] }): void => {
    const known = seen.get(key) ?? new Map<string, Status>();
    seen.set(key, known);
    for (const { ref, amount } of payees) {
      if (known.get(ref) === 'paid' || known.get(ref) === 'pending') continue; // the key is honoured item by item
      const hindered = service.stubborn[ref];
      if (hindered && hindered.times > 0) {
        hindered.times--;
        known.set(ref, hindered.says);
        continue;
      }
      service.books.push({ key, month, ref, amount });
      known.set(ref, (service.pending[ref] ?? 0) > 0 ? 'pending' : 'paid');
    }
  };
  const answer = (key: string): object => ({ found: seen.has(key), results: [...(seen.get(key) ?? [])].map(([ref, status]) => ({ ref, status })) });
  const lookUp = (key: string): void => {
    for (const [ref, status] of seen.get(key) ?? []) {
      if (status !== 'pending') continue;
      service.pending[ref] = (service.pending[ref] ?? 0) - 1;
      if ((service.pending[ref] ?? 0) <= 0) seen.get(key)?.set(ref, 'paid');
    }
  };
  const carryOut = (request: IncomingMessage, body: string): { status: number; said: object } | 'drop' | 'hang' => {
    const key = request.headers['idempotency-key'] as string;
    service.posts.push(key);
    const fault = service.faults.shift() ?? null;
    if (fault === 'drop_before') return 'drop';
    if (fault === '503_before') return { status: 503, said: {} };
    if (fault === '422_before') return { status: 422, said: {} };
    pay(key, JSON.parse(body) as Parameters<typeof pay>[1]);
    if (fault === 'drop_after') return 'drop';
    if (fault === '500_after') return { status: 500, said: {} };
    return fault === 'hang_after' ? 'hang' : { status: 200, said: answer(key) };
  };
  const serve = (request: IncomingMessage, response: ServerResponse, body: string): void => {
    const key = request.url?.split('/')[2] ?? '';
    if (request.method === 'GET' && !service.blind) lookUp(key);
    const done = request.method !== 'GET' ? carryOut(request, body) : service.blind ? { status: 500, said: {} } : { status: 200, said: answer(key) };
    if (done === 'drop') request.socket.destroy();
    else if (done !== 'hang') response.writeHead(done.status, { 'content-type': 'application/json' }).end(JSON.stringify(done.said));
  };
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => { body += chunk.toString(); });
    request.on('end', () => serve(request, response, body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(service, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  });
}
