/** Services whose every answer a test scripts, each with its own books: what was asked when, and what really happened under which key. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { type House, openHouse } from '../support/gateway.js';

/** How long what was seen of an item is fresh: long beside a read by a busy machine, which must be done within it. */
export const observationMs = 2_000;

export interface DeskPlan { concurrency?: number; deadline?: string; attempts?: number; elapsed?: string }

const contractOf = (service: string, { concurrency = 16, deadline = '2s', attempts = 3, elapsed = '20s' }: DeskPlan): string => `
callgate: 1
service: ${service}
upstream: { base_url: "\${${service.toUpperCase()}_URL}", limits: { concurrency: ${concurrency}, deadline: ${deadline}, connect_timeout: 10s } }
entities:
  ${service}_item:
    id: args.id
    observe: { tool: ${service}_see, args: { id: args.id }, max_age: ${observationMs}ms }
tools:
  ${service}_see:
    version: 1.0.0
    effect: none
    purpose: See an item as it is now.
    args: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id] }
    result: { type: object, properties: { id: { type: string } }, required: [id] }
    http: { method: GET, path: "/seen/{args.id}" }
  ${service}_ship:
    version: 1.0.0
    effect: write
    entity: ${service}_item
    purpose: Ship an item that is there.
    args: { type: object, properties: { id: { type: string, maxLength: 20 } }, required: [id] }
    preconditions: [ { id: there, check: ${service}_item.id == args.id, otherwise: { code: NOT_THERE, next: ask } } ]
    http: { method: POST, path: /ships, headers: { Idempotency-Key: "{operation.id}" }, body: { id: args.id } }
    idempotency: { honoured: true, window: 24h }
    effects: { changes: [ ${service}_item.id ], never: [] }
    retry: { attempts: ${attempts}, elapsed: ${elapsed} }
    verify: on_ambiguity
    result: { type: object, properties: { id: { type: string } }, required: [id] }
  ${service}_look:
    version: 1.0.0
    effect: none
    purpose: Look at an item.
    args: { type: object, properties: { id: { type: string, maxLength: 40000 } }, required: [id] }
    result: &item { type: object, properties: { id: { type: string } }, required: [id] }
    http: { method: GET, path: "/items/{args.id}" }
    retry: { attempts: ${attempts}, elapsed: ${elapsed} }
  ${service}_receipt:
    version: 1.0.0
    effect: none
    purpose: Find what a request did.
    args: { type: object, properties: { key: { type: string, maxLength: 100 } }, required: [key] }
    result: { type: object, properties: { count: { type: integer }, id: { type: string } }, required: [count] }
    http: { method: GET, path: "/receipts/{args.key}" }
    retry: { attempts: 1 }
  ${service}_note:
    version: 1.0.0
    effect: write
    purpose: Note something; the service keeps no keys.
    args: &what { type: object, properties: { text: { type: string, maxLength: 60 } }, required: [text] }
    http: { method: POST, path: /notes, headers: { Request-Key: "{operation.id}" }, body: { text: args.text } }
    effects: { creates: a note, never: [] }
    errors: &errors [ { when: "status == 503 && body.code == 'NOT_STARTED'", outcome: not_committed, next: retry } ]
    readback: &readback { tool: ${service}_receipt, args: { key: operation.id }, committed: result.count == 1, absent: result.count == 0, result: "{'id': result.id}", settle_after: 100ms }
    retry: { attempts: ${attempts}, elapsed: ${elapsed} }
    verify: on_ambiguity
    result: *item
  ${service}_pay:
    version: 1.0.0
    effect: write
    purpose: Pay something; the service honours keys.
    args: *what
    http: { method: POST, path: /payments, headers: { Idempotency-Key: "{operation.id}" }, body: { text: args.text } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a payment, never: [] }
    errors: *errors
    readback: *readback
    retry: { attempts: ${attempts}, elapsed: ${elapsed} }
    verify: on_ambiguity
    result: *item
  ${service}_send:
    version: 1.0.0
    effect: write
    purpose: Send something; the service honours keys and shows nothing.
    args: *what
    http: { method: POST, path: /mails, headers: { Idempotency-Key: "{operation.id}" }, body: { text: args.text } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a mail, never: [] }
    retry: { attempts: ${attempts}, elapsed: ${elapsed} }
    verify: on_ambiguity
    result: *item
policies: all.cedar
`;

/** `commit` is a good answer; `lose` commits and drops the connection, `lose_first` only for a new key, `drop` only that; `freeze` holds on until `thaw`, and then drops; `hold` until `release`, and then commits. */
export type Turn = 'commit' | 'lose' | 'lose_first' | 'drop' | 'freeze' | 'hold' | { status: number; body?: object; headers?: Record<string, string>; afterMs?: number };

export interface Asked { method: string; path: string; key: string; at: number }

export class Desk {
  readonly asked: Asked[] = [];
  readonly effects: { path: string; key: string }[] = [];
  /** What becomes of the requests to come, and of all those after them. Read-backs are answered from the books unless it says so. */
  turns: Turn[] = [];
  always: Turn = 'commit';
  readBacks: Turn = 'commit';
  private readonly frozen = new Set<IncomingMessage['socket']>();
  private readonly held = new Map<() => void, string>();
  private server: Server | undefined;
  private port = 0;

  constructor(readonly name: string) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** On the port that it had before. */
  async listen(): Promise<void> {
    this.server = createServer((request, response) => void this.answer(request, response));
    await once(this.server.listen(this.port, '127.0.0.1'), 'listening');
    this.port = (this.server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const { server } = this;
    if (!server) return;
    this.server = undefined;
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }

  thaw(): void {
    for (const socket of this.frozen) socket.destroy();
    this.frozen.clear();
  }

  /** @param path those alone that asked for it. */
  release(path?: string): void {
    for (const [goOn, of] of this.held) if (path === undefined || path === of) goOn();
  }

  /** Forgets what it was told to do, not what happened. */
  mend(): void {
    this.turns = [];
    this.always = 'commit';
    this.readBacks = 'commit';
    this.asked.length = 0;
  }

  /** Requests that are no read-backs. */
  get calls(): Asked[] {
    return this.asked.filter(({ path }) => !path.startsWith('/receipts/'));
  }

  async becomes(what: () => boolean): Promise<void> {
    const end = performance.now() + 20_000;
    while (!what()) {
      if (performance.now() > end) throw new Error(`never: ${what}; asked ${JSON.stringify(this.asked.slice(-10))}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url: path = '' } = request;
    const key = String(request.headers['idempotency-key'] ?? request.headers['request-key'] ?? '');
    this.asked.push({ method, path, key, at: performance.now() });
    request.resume();
    const isReadBack = path.startsWith('/receipts/');
    const turn = isReadBack ? this.readBacks : (this.turns.shift() ?? this.always);
    const say = (status: number, body: object, headers: Record<string, string> = {}): void =>
      void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    if (turn === 'freeze') return void this.frozen.add(request.socket);
    if (turn === 'drop') return void request.socket.destroy();
    if (turn === 'hold') await this.holdOn(path);
    if (typeof turn === 'object') {
      await new Promise((resolve) => setTimeout(resolve, turn.afterMs ?? 0));
      return say(turn.status, turn.body ?? {}, turn.headers);
    }
    if (isReadBack) return this.receipt(decodeURIComponent(path.slice('/receipts/'.length)), say);
    const isNew = method === 'POST' && this.commit(path, key);
    if (turn === 'lose' || (turn === 'lose_first' && isNew)) return void request.socket.destroy();
    say(200, { id: key || 'item' });
  }

  private async holdOn(path: string): Promise<void> {
    let goOn: () => void = () => undefined;
    const released = new Promise<void>((resolve) => { goOn = resolve; });
    this.held.set(goOn, path);
    await released;
    this.held.delete(goOn);
  }

  /** `/notes` are made as often as they are asked for; the others once for each key. */
  private commit(path: string, key: string): boolean {
    const isNew = path === '/notes' || !this.effects.some((effect) => effect.key === key);
    if (isNew) this.effects.push({ path, key });
    return isNew;
  }

  private receipt(key: string, say: (status: number, body: object) => void): void {
    const count = this.effects.filter((effect) => effect.key === key).length;
    say(200, { count, ...(count > 0 ? { id: key } : {}) });
  }
}

export interface Desks { house: House; desks: Record<string, Desk>; close(): Promise<void> }

/** A house whose contracts are those of these services. */
export async function openDesks(plans: Record<string, DeskPlan>, env: Record<string, string> = {}): Promise<Desks> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-desks-'));
  writeFileSync(join(folder, 'all.cedar'), '@id("everything")\npermit (principal, action, resource);\n');
  const desks: Record<string, Desk> = {};
  const urls: Record<string, string> = {};
  for (const [name, plan] of Object.entries(plans)) {
    writeFileSync(join(folder, `${name}.yaml`), contractOf(name, plan));
    const desk = new Desk(name);
    await desk.listen();
    desks[name] = desk;
    urls[`${name.toUpperCase()}_URL`] = desk.url;
  }
  Object.assign(process.env, urls);
  const house = await openHouse({
    CALLGATE_CONTRACTS_FOLDER: folder, CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms', CALLGATE_RECONCILE_BACKOFF_FIRST: '200ms', CALLGATE_RECONCILE_BACKOFF_MAX: '500ms', ...urls, ...env,
  });
  return {
    house, desks,
    async close() {
      await Promise.all(Object.values(desks).map((desk) => desk.close()));
      await house.close();
    },
  };
}
