/** A service whose orders refer to products and customers, and the contract of an exchange that has to look at all of them. */
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const warehouseContract = `
callgate: 1
service: warehouse
upstream: { base_url: "\${WAREHOUSE_URL:-http://127.0.0.1:9}" }
entities:
  order:
    id: args.order_id
    observe: { tool: get_order, args: { order_id: args.order_id }, max_age: 5s }
    state: order.status
    states: [delivered, exchange_requested]
    initial: [delivered]
    transitions: { delivered: { exchange_items: exchange_requested } }
tools:
  get_order:
    version: 1.0.0
    effect: none
    purpose: Read an order.
    args: { type: object, properties: { order_id: { type: string, maxLength: 20 } }, required: [order_id] }
    result:
      type: object
      properties:
        order_id: { type: string }
        user_id: { type: string }
        status: { enum: [delivered, exchange_requested] }
        items:
          type: array
          maxItems: 30
          items:
            type: object
            properties: { item_id: { type: string }, product_id: { type: string }, price: { type: integer } }
            required: [item_id, product_id, price]
      required: [order_id, user_id, status, items]
    http: { method: GET, path: "/orders/{args.order_id}" }
    not_found: status == 404
  get_product:
    version: 1.0.0
    effect: none
    purpose: Read a product with its variants.
    args: { type: object, properties: { product_id: { type: string, maxLength: 20 } }, required: [product_id] }
    result:
      type: object
      properties:
        product_id: { type: string }
        variants:
          type: object
          maxProperties: 40
          additionalProperties:
            type: object
            properties: { available: { type: boolean }, price: { type: integer } }
            required: [available, price]
      required: [product_id, variants]
    http: { method: GET, path: "/products/{args.product_id}" }
    not_found: status == 404
  get_user:
    version: 1.0.0
    effect: none
    purpose: Read a customer.
    args: { type: object, properties: { user_id: { type: string, maxLength: 20 } }, required: [user_id] }
    result:
      type: object
      properties:
        user_id: { type: string }
        payment_methods:
          type: object
          maxProperties: 20
          additionalProperties:
            type: object
            properties: { source: { type: string }, balance: { type: integer } }
            required: [source]
      required: [user_id, payment_methods]
    http: { method: GET, path: "/users/{args.user_id}" }
    not_found: status == 404
  exchange_items:
    version: 1.0.0
    effect: write
    entity: order
    purpose: Exchange delivered items for other variants of the same products.
    args:
      type: object
      properties:
        order_id: { type: string, maxLength: 20 }
        item_ids: { type: array, maxItems: 30, items: { type: string, maxLength: 20 } }
        new_item_ids: { type: array, maxItems: 30, items: { type: string, maxLength: 20 } }
        payment_method_id: { type: string, maxLength: 40 }
      required: [order_id, item_ids, new_item_ids, payment_method_id]
    observe:
      user: { tool: get_user, args: { user_id: order.user_id }, max_age: 5s }
      product:
        for_each: { in: "order.items.map(item, item.product_id)", as: id }
        tool: get_product
        args: { product_id: id }
        max_age: 5s
    let:
      owned: order.items.map(item, item.item_id)
      old_price: sum(args.item_ids.map(id, order.items.filter(item, item.item_id == id)[0].price))
      new_price: sum(indices(args.item_ids).map(i, product[order.items.filter(item, item.item_id == args.item_ids[i])[0].product_id].variants[args.new_item_ids[i]].price))
    preconditions:
      - { id: same_length, check: size(args.item_ids) == size(args.new_item_ids), otherwise: { code: LENGTHS_DIFFER } }
      - { id: another_item, check: "indices(args.item_ids).all(i, args.item_ids[i] != args.new_item_ids[i])", otherwise: { code: SAME_ITEM } }
      - { id: items_in_order, check: "distinct(args.item_ids).all(id, count(args.item_ids, id) <= count(owned, id))", otherwise: { code: ITEM_NOT_IN_ORDER } }
      - id: variant_available
        check: >-
          indices(args.item_ids).all(i, order.items.exists(item, item.item_id == args.item_ids[i] &&
          args.new_item_ids[i] in product[item.product_id].variants && product[item.product_id].variants[args.new_item_ids[i]].available))
        otherwise: { code: VARIANT_NOT_AVAILABLE }
      - { id: own_payment_method, check: args.payment_method_id in user.payment_methods, otherwise: { code: PAYMENT_METHOD_UNKNOWN } }
      - id: card_covers
        check: user.payment_methods[args.payment_method_id].source != "gift_card" || user.payment_methods[args.payment_method_id].balance >= new_price - old_price
        otherwise: { code: GIFT_CARD_TOO_SMALL, next: ask }
    http:
      method: POST
      path: "/orders/{args.order_id}/exchange"
      headers: { Idempotency-Key: "{operation.id}" }
      body: { item_ids: args.item_ids, new_item_ids: args.new_item_ids }
    idempotency: { honoured: true, window: 24h }
    effects: { changes: [order.status], never: [order.user_id] }
    verify: on_ambiguity
    result: { type: object, properties: { order_id: { type: string }, status: { type: string } }, required: [order_id, status] }
policies: all.cedar
`;

export interface Warehouse {
  url: string;
  orders: Record<string, { order_id: string; user_id: string; status: string; items: { item_id: string; product_id: string; price: number }[] }>;
  products: Record<string, { product_id: string; variants: Record<string, { available: boolean; price: number }> }>;
  users: Record<string, { user_id: string; payment_methods: Record<string, { source: string; balance?: number }> }>;
  /** Paths in the order in which they were asked for, and the most that were asked for at once. */
  asked: string[];
  most: number;
  /** How long each read takes. */
  delayMs: number;
  close(): Promise<void>;
}

export async function openWarehouse(): Promise<Warehouse> {
  const state: Omit<Warehouse, 'url' | 'close'> = { orders: {}, products: {}, users: {}, asked: [], most: 0, delayMs: 0 };
  let open = 0;
  const server = createServer((request, response) => {
    state.most = Math.max(state.most, ++open);
    state.asked.push(`${request.method} ${request.url}`);
    setTimeout(() => {
      open--;
      answer(state, request, response);
    }, state.delayMs);
  });
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

function answer(state: Pick<Warehouse, 'orders' | 'products' | 'users'>, request: IncomingMessage, response: ServerResponse): void {
  const [, kind, id = '', action] = (request.url ?? '').split('/');
  const found = { orders: state.orders, products: state.products, users: state.users }[kind as 'orders' | 'products' | 'users'][decodeURIComponent(id)];
  if (action === 'exchange' && found) (found as { status: string }).status = 'exchange_requested';
  response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' });
  response.end(JSON.stringify(found ?? { code: 'NOT_FOUND' }));
}

/** A folder with the contract, after each text was replaced once. */
export function warehouseFolder(...changes: [from: string, to: string][]): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-warehouse-'));
  let text = warehouseContract;
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`the contract does not contain ${from}`);
    text = text.replace(from, () => to);
  }
  writeFileSync(join(folder, 'warehouse.yaml'), text);
  writeFileSync(join(folder, 'all.cedar'), '@id("everything")\npermit (principal, action, resource);\n');
  return folder;
}
