/**
 * A payment service that shows no state: nothing it answers says whether a transaction was charged or cancelled, it charges whatever it is
 * told to charge, as often as it is told, and keeps no idempotency keys. Only the table of its contract, whose states the gateway keeps,
 * stands between a model and a second charge. Its books say what really happened.
 */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const receipt = (tool: string): string => `
    readback:
      tool: find_receipt
      args: { key: operation.id }
      committed: result.count == 1 && result.tool == "${tool}"
      absent: result.count == 0
      result: '{"transaction_id": result.transaction_id}'
      settle_after: 400ms
    retry: { attempts: 3, elapsed: 20s }`;

export const checkoutContract = `
callgate: 1
service: checkout
upstream: { base_url: "\${CHECKOUT_URL:-http://127.0.0.1:9}", limits: { deadline: 1s } }
entities:
  transaction:
    id: args.order_id
    state: gateway
    states: [NEW, CREATED, CHARGED, CANCELLED]
    initial: [NEW]
    transitions:
      NEW: { create_transaction: CREATED }
      CREATED: { charge_payment: CHARGED, cancel: CANCELLED }
tools:
  find_receipt:
    version: 1.0.0
    effect: none
    purpose: Find what a request did.
    args: { type: object, properties: { key: { type: string, maxLength: 100 } }, required: [key] }
    result: { type: object, properties: { count: { type: integer }, tool: { type: string }, transaction_id: { type: string } }, required: [count] }
    http: { method: GET, path: "/receipts/{args.key}" }
  quote_fee:
    version: 1.0.0
    effect: none
    entity: transaction
    purpose: Say what the payment of an order will cost.
    args: &order { type: object, properties: { order_id: { type: string, maxLength: 20 } }, required: [order_id] }
    result: { type: object, properties: { fee: { type: integer } }, required: [fee] }
    http: { method: GET, path: "/fees/{args.order_id}" }
  create_transaction:
    version: 1.0.0
    effect: write
    entity: transaction
    purpose: Open the transaction by which an order is paid.
    args: { type: object, properties: { order_id: { type: string, maxLength: 20 }, amount: { type: integer, minimum: 1, maximum: 100000 } }, required: [order_id, amount] }
    result: &transaction { type: object, properties: { transaction_id: { type: string } }, required: [transaction_id] }
    http: { method: POST, path: /transactions, headers: { Request-Key: "{operation.id}" }, body: { order_id: args.order_id, amount: args.amount } }
    effects: { creates: one transaction, never: [] }${receipt('create_transaction')}
  charge_payment:
    version: 1.0.0
    effect: irreversible
    entity: transaction
    purpose: Charge the transaction of an order.
    args: *order
    bind: { transaction_id: last(create_transaction).transaction_id }
    result: *transaction
    http: { method: POST, path: "/transactions/{bound.transaction_id}/charge", headers: { Request-Key: "{operation.id}" }, body: {} }
    effects: { changes: [transaction.state], never: [] }${receipt('charge_payment')}
  cancel:
    version: 1.0.0
    effect: write
    entity: transaction
    purpose: Give up the transaction of an order.
    args: *order
    bind: { transaction_id: last(create_transaction).transaction_id }
    result: *transaction
    http: { method: POST, path: "/transactions/{bound.transaction_id}/cancel", headers: { Request-Key: "{operation.id}" }, body: {} }
    effects: { changes: [transaction.state], never: [] }${receipt('cancel')}
policies: all.cedar
`;

/** Orders with a table of their own, which judges the same tools: what was paid stays paid, and what was cancelled once cannot be cancelled again. */
export const ordersToo: [from: string, to: string][] = [
  ['tools:\n', `  order:
    id: args.order_id
    state: gateway
    states: [OPEN, REOPENED, PAID]
    initial: [OPEN]
    transitions:
      OPEN: { create_transaction: OPEN, charge_payment: PAID, cancel: REOPENED }
      REOPENED: { create_transaction: REOPENED, charge_payment: PAID }
tools:
`],
  ['cancel: CANCELLED }\n', 'cancel: CANCELLED }\n      CANCELLED: { create_transaction: CREATED }\n'],
  ...['Open', 'Charge', 'Give'].map((purpose): [string, string] => [`    entity: transaction\n    purpose: ${purpose}`, `    entity: transaction\n    touches: [order]\n    purpose: ${purpose}`]),
];

/** A folder with the contract, after each text was replaced wherever it stands. */
export function checkoutFolder(...changes: [from: string, to: string][]): string {
  let text = checkoutContract;
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`the contract does not contain ${from}`);
    text = text.replaceAll(from, () => to);
  }
  const folder = mkdtempSync(join(tmpdir(), 'callgate-checkout-'));
  writeFileSync(join(folder, 'checkout.yaml'), text);
  writeFileSync(join(folder, 'all.cedar'), '@id("everything")\npermit (principal, action, resource);\n');
  return folder;
}

export type CheckoutTool = 'create_transaction' | 'charge_payment' | 'cancel';
export interface CheckoutEffect { tool: CheckoutTool; order: string; transaction: string; key: string }
/** What becomes of one request: its answer is lost after or before the effect, or it is refused. */
export type CheckoutFault = 'commit_then_drop' | 'drop_before_commit' | 'refuse';

export interface Checkout {
  url: string;
  /** In the order in which they happened. */
  effects: CheckoutEffect[];
  /** Of the next requests, by tool. */
  faults: { tool: CheckoutTool; fault: CheckoutFault }[];
  close(): Promise<void>;
}

export async function openCheckout(): Promise<Checkout> {
  const state: Pick<Checkout, 'effects' | 'faults'> = { effects: [], faults: [] };
  const server = createServer((request, response) => void answer(state, request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(state, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  });
}

const tools: Record<string, CheckoutTool> = { '': 'create_transaction', charge: 'charge_payment', cancel: 'cancel' };

async function answer(state: Pick<Checkout, 'effects' | 'faults'>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const [, kind, id = '', action = ''] = (request.url ?? '').split('/').map(decodeURIComponent);
  const reply = (status: number, body: object): void => void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (kind === 'fees') return reply(200, { fee: 30 });
  if (kind === 'receipts') {
    const [found, ...more] = state.effects.filter(({ key }) => key === id);
    return reply(200, found ? { count: 1 + more.length, tool: found.tool, transaction_id: found.transaction } : { count: 0 });
  }
  const tool = tools[action] as CheckoutTool;
  const at = state.faults.findIndex((each) => each.tool === tool);
  const fault = at < 0 ? undefined : state.faults.splice(at, 1)[0]?.fault;
  if (fault === 'refuse') return reply(422, { code: 'REFUSED' });
  if (fault === 'drop_before_commit') return void request.socket.destroy();
  const transaction = tool === 'create_transaction' ? `tx-${state.effects.length + 1}` : id;
  const order = tool === 'create_transaction'
    ? (JSON.parse(Buffer.concat(chunks).toString()) as { order_id: string }).order_id
    : (state.effects.find((each) => each.transaction === id)?.order ?? '');
  state.effects.push({ tool, order, transaction, key: String(request.headers['request-key']) });
  if (fault === 'commit_then_drop') return void request.socket.destroy();
  reply(200, { transaction_id: transaction });
}
