/**
 * A service that keeps every tenant's boxes apart under equal names, and marks whatever it says with whose it is. Who asks it is told by a
 * header alone, so a gateway that confused two tenants would be given, and would tell, the other's mark.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export type VaultFault = 'drop_after' | 'drop_before' | 'refuse';
export interface VaultEffect { box: string; amount: number; key: string }

const receipt = `
    readback:
      tool: find_deposit
      args: { key: operation.id }
      committed: result.count == 1
      absent: result.count == 0
      result: '{"label": result.label, "total": result.total}'
      settle_after: 300ms
    retry: { attempts: 3, elapsed: 20s }`;

const contract = `
callgate: 1
service: vault
upstream: { base_url: "\${VAULT_URL:-http://127.0.0.1:9}", limits: { deadline: 8s } }
entities:
  box:
    id: args.box
    observe: { tool: look, args: { box: args.box }, version: headers.etag, max_age: 5s }
    state: box.state
    states: [OPEN, SEALED]
    initial: [OPEN]
    transitions:
      OPEN: { deposit: OPEN, seal: SEALED }
tools:
  look:
    version: 1.0.0
    effect: none
    purpose: Look into a box.
    args: &box { type: object, properties: { box: { type: string, maxLength: 40 } }, required: [box] }
    bind: &who { tenant: principal.tenant }
    result: { type: object, properties: { label: { type: string }, total: { type: integer }, state: { enum: [OPEN, SEALED] } }, required: [label, total, state] }
    http: { method: GET, path: "/boxes/{args.box}", headers: { X-Tenant: "{bound.tenant}" } }
    not_found: status == 404
  find_deposit:
    version: 1.0.0
    effect: none
    purpose: Find what a request did.
    args: { type: object, properties: { key: { type: string, maxLength: 100 } }, required: [key] }
    bind: *who
    result: { type: object, properties: { count: { type: integer }, label: { type: string }, total: { type: integer } }, required: [count] }
    http: { method: GET, path: "/deposits/{args.key}", headers: { X-Tenant: "{bound.tenant}" } }
  deposit:
    version: 1.0.0
    effect: irreversible
    entity: box
    purpose: Put an amount into a box.
    args: { type: object, properties: { box: { type: string, maxLength: 40 }, amount: { type: integer, minimum: 1, maximum: 1000 } }, required: [box, amount] }
    bind: *who
    expect: observed
    preconditions: [{ id: within, check: "box.total + args.amount <= 400", otherwise: { code: BOX_FULL, next: ask, message: The box is full. } }]
    result: { type: object, properties: { label: { type: string }, total: { type: integer } }, required: [label, total] }
    http: { method: POST, path: "/boxes/{args.box}/deposits", headers: { X-Tenant: "{bound.tenant}", Request-Key: "{operation.id}" }, body: { amount: args.amount } }
    effects: { creates: one deposit, never: [] }
    error_body: { type: object, properties: { code: { type: string }, message: { type: string } }, required: [code, message] }
    public: [message]
    errors: [{ when: status == 422, outcome: rejected, code: VAULT_REFUSED, next: abandon }]
    approval: [{ when: "args.amount > 50", by: reviewer, expires: 10m, summary: "{args.amount} into {args.box}" }]${receipt}
  seal:
    version: 1.0.0
    effect: write
    entity: box
    purpose: Seal a box for good.
    args: *box
    bind: *who
    result: { type: object, properties: { label: { type: string } }, required: [label] }
    http: { method: POST, path: "/boxes/{args.box}/seal", headers: { X-Tenant: "{bound.tenant}", Request-Key: "{operation.id}" }, body: {} }
    effects: { changes: [box.state], never: [] }
    readback:
      tool: find_deposit
      args: { key: operation.id }
      committed: result.count == 1
      absent: result.count == 0
      result: '{"label": result.label}'
      settle_after: 300ms
policies: all.cedar
`;

export function vaultFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-vault-'));
  writeFileSync(join(folder, 'vault.yaml'), contract);
  writeFileSync(join(folder, 'all.cedar'), '@id("everything")\npermit (principal, action, resource);\n');
  return folder;
}

interface Box { total: number; version: number; state: 'OPEN' | 'SEALED' }
interface Books { boxes: Map<string, Box>; effects: VaultEffect[]; faults: VaultFault[] }

export interface Vault {
  url: string;
  /** By tenant; made at the first look. */
  books(tenant: string): Books;
  /** What stands in everything that is said to this tenant. */
  mark(tenant: string): string;
  close(): Promise<void>;
}

export async function openVault(marks: Record<string, string>): Promise<Vault> {
  const all = new Map<string, Books>();
  const books = (tenant: string): Books => {
    const found = all.get(tenant) ?? { boxes: new Map(), effects: [], faults: [] };
    all.set(tenant, found);
    return found;
  };
  const mark = (tenant: string): string => marks[tenant] ?? 'NOBODY';
  const server = createServer((request, response) => void answer(books, mark, request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, books, mark,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function answer(of: (tenant: string) => Books, mark: (tenant: string) => string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const tenant = String(request.headers['x-tenant']);
  const books = of(tenant);
  const label = mark(tenant);
  const [, kind, id = '', action] = (request.url ?? '').split('/').map(decodeURIComponent);
  const reply = (status: number, body: object, headers = {}): void => void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  const key = String(request.headers['request-key']);
  if (kind === 'deposits') {
    const found = books.effects.filter((effect) => effect.key === id);
    return reply(200, { count: found.length, label, total: found[0]?.amount ?? 0 });
  }
  const box: Box = books.boxes.get(id) ?? { total: 0, version: 1, state: 'OPEN' };
  if (action === undefined) return reply(200, { label, total: box.total, state: box.state }, { etag: `"${label}-${box.version}"` });
  const fault = books.faults.shift();
  if (fault === 'refuse') return reply(422, { code: 'NO', message: `not for ${label}` });
  if (fault === 'drop_before') return void request.socket.destroy();
  const amount = action === 'seal' ? 0 : (JSON.parse(Buffer.concat(chunks).toString()) as { amount: number }).amount;
  books.boxes.set(id, { total: box.total + amount, version: box.version + 1, state: action === 'seal' ? 'SEALED' : box.state });
  books.effects.push({ box: id, amount, key });
  if (fault === 'drop_after') return void request.socket.destroy();
  reply(200, { label, total: amount });
}
