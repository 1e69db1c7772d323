/** A service that answers each call as its script says, to the byte, and keeps its own books of what was sent and what took effect. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Exchange, Upstream } from '../../../src/upstream/exchange.js';
import { answerOf, type Observation, type Unsent } from './observations.js';

export const setups = { both: 'key + read-back', readback: 'read-back only', key: 'key only', neither: 'neither' } as const;
export type Setup = keyof typeof setups;
const hasKey = (setup: Setup): boolean => setup === 'both' || setup === 'key';
export const hasReadBack = (setup: Setup): boolean => setup === 'both' || setup === 'readback';
const settleMs = 100;
/** Of one exchange: long enough for a busy machine, since an attempt that is given up for that is another observation. */
const deadlineMs = 1_000;
const acceptedForMs = 400;
const lateMs = 60;

/** `once` has no second attempt. */
export const writeTool = (lane: number, setup: Setup, once: boolean): string => `l${lane}_${setup}${once ? '_once' : ''}`;
export const readTool = (lane: number, once: boolean): string => `l${lane}_look${once ? '_once' : ''}`;

const errors = (write: boolean): string => [
  `{ when: "status == 422 && body.code == 'REFUSED'", outcome: rejected, code: REFUSED_THERE, next: ask }`,
  `{ when: "status == 412 && body.code == 'STALE'", outcome: rejected, class: version_conflict, code: ITEM_CHANGED, next: refresh }`,
  `{ when: "status == 404 && body.code == 'NO_ITEM'", outcome: rejected, class: not_found, next: ask }`,
  `{ when: "status == 503 && body.code == 'NOT_STARTED'", outcome: not_committed, next: retry }`,
  `{ when: "status == 423 && body.code == 'LOCKED'", outcome: not_committed, code: LOCKED_THERE, next: retry }`,
  `{ when: "status == 503 && body.code == 'TOO_FAST'", outcome: not_committed, class: rate_limited, next: retry }`,
  `{ when: "status == 500 && body.code == 'UNSURE'", outcome: unknown, next: ${write ? 'wait' : 'retry'} }`,
  ...(write ? [`{ when: "status == 409 && body.code == 'DONE'", outcome: committed }`, `{ when: "status == 409 && body.code == 'RUNNING'", outcome: accepted }`] : []),
].map((rule) => `      - ${rule}`).join('\n');

const common = 'result: { type: object, properties: { id: { type: string } }, required: [id] }\n    not_found: status == 410';
const retry = (once: boolean): string => `retry: { attempts: ${once ? 1 : 3}, elapsed: 20s }`;

const write = (lane: number, setup: Setup, only: boolean): string => `
  ${writeTool(lane, setup, only)}:
    version: 1.0.0
    effect: write
    purpose: Write something.
    args: { type: object, properties: { cell: { type: string, maxLength: 40 } }, required: [cell] }
    http: { method: POST, path: /writes/${setup}, headers: { ${hasKey(setup) ? 'Idempotency-Key' : 'Request-Key'}: "{operation.id}" }, body: { cell: args.cell } }
    effects: { creates: something, never: [] }
    ${hasKey(setup) ? 'idempotency: { honoured: true, window: 24h }' : ''}
    ${setup === 'neither' ? 'on_unknown: review' : ''}
    ${hasReadBack(setup) ? `readback: { tool: l${lane}_receipt, args: { key: operation.id }, committed: result.count == 1, absent: result.count == 0, result: "{'id': result.id}", settle_after: ${settleMs}ms }
    async: { accepted: status == 202, poll: readback, deadline: ${acceptedForMs}ms }` : ''}
    errors:\n${errors(true)}
    ${retry(only)}
    ${common}`;

const read = (lane: number, only: boolean): string => `
  ${readTool(lane, only)}:
    version: 1.0.0
    effect: none
    purpose: Read something.
    args: { type: object, properties: { cell: { type: string, maxLength: 40 } }, required: [cell] }
    http: { method: GET, path: "/reads/{args.cell}" }
    errors:\n${errors(false)}
    ${retry(only)}
    ${common}`;

/** A service for each lane, since a pause that one call is told holds up every caller of its service. */
const contract = (lane: number): string => `
callgate: 1
service: lane${lane}
upstream: { base_url: "\${SCRIPTED_URL}", limits: { concurrency: 16, deadline: ${deadlineMs}ms, connect_timeout: 200ms } }
tools:
  l${lane}_receipt:
    version: 1.0.0
    effect: none
    purpose: Find what a request did.
    args: { type: object, properties: { key: { type: string, maxLength: 100 } }, required: [key] }
    result: { type: object, properties: { count: { type: integer }, id: { type: string } }, required: [count] }
    http: { method: GET, path: "/receipts/{args.key}" }
    retry: { attempts: 1 }
${(Object.keys(setups) as Setup[]).flatMap((setup) => [write(lane, setup, false), write(lane, setup, true)]).join('')}
${read(lane, false)}${read(lane, true)}
policies: all.cedar
`.replace(/\n +\n/g, '\n');

export function contractsOf(lanes: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-table-'));
  writeFileSync(join(folder, 'all.cedar'), '@id("everything")\npermit (principal, action, resource);\n');
  for (let lane = 0; lane < lanes; lane++) writeFileSync(join(folder, `lane${lane}.yaml`), contract(lane));
  return folder;
}

/** What becomes of one attempt. */
export interface Turn { by: Observation['by']; takesEffect: boolean; /** Later than the answer. */ late?: boolean; /** Against its own promise. */ twice?: boolean }
/** What was meant by one call, and what came of it. */
interface Page { turns: Turn[]; blind: boolean; sent: number; effects: string[] }

export class Scripted {
  private readonly pages = new Map<string, Page>();
  private readonly cellOf = new Map<string, string>();
  private server: Server | undefined;
  url = '';

  async listen(): Promise<void> {
    this.server = createServer((request, response) => void this.answer(request, response));
    await once(this.server.listen(0, '127.0.0.1'), 'listening');
    this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server?.closeAllConnections();
    this.server?.close();
    if (this.server) await once(this.server, 'close');
  }

  /** After these turns it answers as it should. @param blind its read-backs fail until the last of them is made */
  script(cell: string, turns: Turn[], blind: boolean): void {
    this.pages.set(cell, { turns: [...turns], blind, sent: 0, effects: [] });
  }

  books(cell: string): { sent: number; effects: number } {
    const { sent, effects } = this.page(cell);
    return { sent, effects: effects.length };
  }

  /** Between the gateway and the wire: what is never to arrive does not. */
  around(upstream: Upstream): Upstream {
    return {
      close: () => upstream.close(),
      send: (request, options): Promise<Exchange> => {
        const cell = cellIn(request.url, request.body);
        const turn = cell === undefined ? undefined : this.pages.get(cell)?.turns[0];
        if (!turn || !('unsent' in turn.by)) return upstream.send(request, options);
        this.take(cell as string);
        return unsent(upstream, request, options, turn.by.unsent, this.url);
      },
    };
  }

  private page(cell: string): Page {
    const page = this.pages.get(cell);
    if (!page) throw new Error(`nothing is scripted for ${cell}`);
    return page;
  }

  private take(cell: string): Turn | undefined {
    const page = this.page(cell);
    const turn = page.turns.shift();
    if (page.turns.length === 0) page.blind = false;
    return turn;
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = request.url ?? '';
    const key = String(request.headers['idempotency-key'] ?? request.headers['request-key'] ?? '');
    const say = (body: object): void => void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (url.startsWith('/receipts/')) return this.receipt(decodeURIComponent(url.slice('/receipts/'.length)), request.socket, say);
    const cell = cellIn(url, Buffer.concat(chunks).toString());
    if (cell === undefined || !this.pages.has(cell)) return say(answerOf('warm'));
    const page = this.page(cell);
    page.sent++;
    this.cellOf.set(key, cell);
    const turn = this.take(cell);
    if (request.method === 'POST' && (turn === undefined || turn.takesEffect)) this.commit(page, key, request.headers['idempotency-key'] !== undefined, turn ?? {});
    if (turn && 'wire' in turn.by) turn.by.wire(response);
    else say(answerOf(key || 'read'));
  }

  /** Once for each key where it keeps keys, else as often as it is asked. */
  private commit(page: Page, key: string, keepsKeys: boolean, { late = false, twice = false }: Pick<Turn, 'late' | 'twice'>): void {
    if (keepsKeys && page.effects.includes(key)) return;
    if (late) setTimeout(() => this.commit(page, key, keepsKeys, { twice }), lateMs);
    else page.effects.push(...(twice ? [key, key] : [key]));
  }

  private receipt(key: string, socket: Socket, say: (body: object) => void): void {
    const page = this.page(this.cellOf.get(key) ?? '');
    const count = page.effects.filter((effect) => effect === key).length;
    if (page.blind) socket.destroy();
    else say(count > 0 ? { count, id: key } : { count });
  }
}

function cellIn(url: string, body: string | Buffer | null): string | undefined {
  const read = /\/reads\/([^/?]+)/.exec(url)?.[1];
  return read ?? (body === null || body.length === 0 ? undefined : (JSON.parse(String(body)) as { cell: string }).cell);
}

type Send = Parameters<Upstream['send']>;

/** The same request on a way on which it cannot arrive. */
function unsent(upstream: Upstream, request: Send[0], options: Send[1], how: Unsent, url: string): Promise<Exchange> {
  if (typeof how === 'object') return Promise.resolve({ kind: 'failure', sent: false, reason: how.finding, ms: 0 });
  const to = (origin: string): Promise<Exchange> => upstream.send({ ...request, url: request.url.replace(url, origin) }, { ...options, upstream: { ...options.upstream, origin } });
  switch (how) {
    case 'refused': return to('http://127.0.0.1:1');
    case 'tls': return to(url.replace('http:', 'https:'));
    case 'fence_passed': return upstream.send(request, { ...options, sendBefore: 0 });
    case 'no_credential': return upstream.send(request, { ...options, upstream: { ...options.upstream, auth: { header: 'Authorization', source: { from: 'env', name: 'TOKEN_THAT_NOBODY_SET' }, prefix: '' } } });
  }
}
