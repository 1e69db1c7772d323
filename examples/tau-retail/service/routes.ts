/** The API, one entry per route: which tool of the store it is, and where its arguments are in the request. */
import { Malformed } from '../../retail/service/answer.js';

export interface ApiRequest {
  /** The decoded path parameter; empty where the route has none. */
  param: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
}

interface Called {
  tool: string;
  args: Record<string, unknown>;
}

export interface ReadRoute {
  method: 'GET' | 'POST';
  template: string;
  /** Whether the answer carries the version of what the path names. */
  versioned?: true;
  read(request: ApiRequest): Called;
}

export interface WriteRoute {
  method: 'POST' | 'PUT';
  template: string;
  write(request: ApiRequest): Called;
}

export type Route = ReadRoute | WriteRoute | { method: 'GET'; template: string; receipt: true };

const routes: readonly Route[] = [
  { method: 'GET', template: '/calculations', read: ({ query }) => ({ tool: 'calculate', args: { expression: asked(query, 'expression') } }) },
  { method: 'POST', template: '/thoughts', read: ({ body }) => ({ tool: 'think', args: { thought: text(body, 'thought') } }) },
  { method: 'POST', template: '/transfers', read: ({ body }) => ({ tool: 'transfer_to_human_agents', args: { summary: text(body, 'summary') } }) },
  { method: 'GET', template: '/user-ids', read: ({ query }) => userSearch(query) },
  { method: 'GET', template: '/products', read: () => ({ tool: 'list_all_product_types', args: {} }) },
  { method: 'GET', template: '/products/{id}', read: ({ param }) => ({ tool: 'get_product_details', args: { product_id: param } }) },
  { method: 'GET', template: '/products/{id}/prices', read: ({ param }) => ({ tool: 'get_product_prices', args: { product_id: param } }) },
  { method: 'GET', template: '/orders/{id}', versioned: true, read: ({ param }) => ({ tool: 'get_order_details', args: { order_id: param } }) },
  { method: 'GET', template: '/orders/{id}/amounts', read: ({ param }) => ({ tool: 'get_order_amounts', args: { order_id: param } }) },
  { method: 'GET', template: '/users/{id}', versioned: true, read: ({ param }) => ({ tool: 'get_user_details', args: { user_id: param } }) },
  { method: 'GET', template: '/users/{id}/wallet', read: ({ param }) => ({ tool: 'get_wallet', args: { user_id: param } }) },
  { method: 'GET', template: '/receipts/{key}', receipt: true },
  { method: 'POST', template: '/orders/{id}/cancel',
    write: ({ param, body }) => ({ tool: 'cancel_pending_order', args: { order_id: param, reason: text(body, 'reason') } }) },
  { method: 'POST', template: '/orders/{id}/item-modifications', write: (request) => ({ tool: 'modify_pending_order_items', args: replacement(request) }) },
  { method: 'PUT', template: '/orders/{id}/payment-method',
    write: ({ param, body }) => ({ tool: 'modify_pending_order_payment', args: { order_id: param, payment_method_id: text(body, 'payment_method_id') } }) },
  { method: 'PUT', template: '/orders/{id}/address',
    write: ({ param, body }) => ({ tool: 'modify_pending_order_address', args: { order_id: param, ...address(body) } }) },
  { method: 'POST', template: '/orders/{id}/exchanges', write: (request) => ({ tool: 'exchange_delivered_order_items', args: replacement(request) }) },
  { method: 'POST', template: '/orders/{id}/returns',
    write: ({ param, body }) => ({
      tool: 'return_delivered_order_items',
      args: { order_id: param, item_ids: texts(body, 'item_ids'), payment_method_id: text(body, 'payment_method_id') },
    }) },
  { method: 'PUT', template: '/users/{id}/address', write: ({ param, body }) => ({ tool: 'modify_user_address', args: { user_id: param, ...address(body) } }) },
];

const patterns = routes.map((route) => ({ route, pattern: new RegExp(`^${route.template.replace(/\{\w+\}/, '([^/]+)')}$`) }));

/** Null for what is no path of the service. */
export function findRoute(method: string, path: string): { route: Route; rawParam: string } | null {
  for (const { route, pattern } of patterns) {
    const match = route.method === method ? pattern.exec(path) : null;
    if (match) return { route, rawParam: match[1] ?? '' };
  }
  return null;
}

function userSearch(query: URLSearchParams): Called {
  const email = query.get('email');
  if (email !== null) return { tool: 'find_user_id_by_email', args: { email } };
  const names = ['first_name', 'last_name', 'zip'];
  return { tool: 'find_user_id_by_name_zip', args: Object.fromEntries(names.map((name) => [name, asked(query, name)])) };
}

function replacement({ param, body }: ApiRequest): Record<string, unknown> {
  return {
    order_id: param,
    item_ids: texts(body, 'item_ids'),
    new_item_ids: texts(body, 'new_item_ids'),
    payment_method_id: text(body, 'payment_method_id'),
  };
}

function address(body: Record<string, unknown>): Record<string, unknown> {
  const given = body['address'];
  if (typeof given !== 'object' || given === null) throw new Malformed('`address` must be an object');
  const lines = ['address1', 'address2', 'city', 'state', 'country', 'zip'];
  return Object.fromEntries(lines.map((line) => [line, text(given as Record<string, unknown>, line)]));
}

function asked(query: URLSearchParams, name: string): string {
  const value = query.get(name);
  if (value === null) throw new Malformed(`the query must name \`${name}\``);
  return value;
}

/** @throws Malformed when the member is not a text. */
export function text(body: Record<string, unknown>, name: string): string {
  const value = body[name];
  if (typeof value !== 'string') throw new Malformed(`\`${name}\` must be a text`);
  return value;
}

function texts(body: Record<string, unknown>, name: string): string[] {
  const value = body[name];
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) throw new Malformed(`\`${name}\` must be a list of texts`);
  return value;
}
