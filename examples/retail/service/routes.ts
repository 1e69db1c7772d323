/** The API, one entry per route: how a request is read and which rule of the shop it asks. */
import { Malformed, type Answer } from './answer.js';
import { convertTemperature } from './convert.js';
import type { Tool } from './faults.js';
import type { CreditRequest, Decision, Shop } from './shop.js';

export interface ApiRequest {
  /** The decoded path parameter; empty where the route has none. */
  param: string;
  query: URLSearchParams;
  ifMatch?: string | undefined;
  body: Record<string, unknown>;
  /** The Idempotency-Key of a write; empty for a read. */
  key: string;
}

/** A write apart from its connection, so that it can be carried out after a restart; `route` is the route's name. */
export interface Write extends Omit<ApiRequest, 'query'> { route: string }

export interface PreparedRead { look(): Answer }

export interface PreparedWrite {
  /** What the body means to this route; with route and parameter, an equal key must come with an equal meaning. */
  meaning?: unknown;
  decide(): Decision;
}

export interface Route {
  method: 'GET' | 'POST';
  template: string;
  tool: Tool;
  /** Checks the form of the request alone. @throws Malformed */
  prepare(request: ApiRequest, shop: Shop): PreparedRead | PreparedWrite;
}

const routes: readonly Route[] = [
  { method: 'GET', template: '/orders/{id}', tool: 'get_order',
    prepare: ({ param }, shop) => ({ look: () => shop.order(param) }) },
  { method: 'GET', template: '/orders/{id}/credit-quote', tool: 'quote_credit',
    prepare: ({ param, query }, shop) => {
      const amount = pence(numberIn(query, 'amount'));
      return { look: () => shop.quote(param, amount) };
    } },
  { method: 'POST', template: '/orders/{id}/credits', tool: 'issue_credit',
    prepare: ({ param, body, key, ifMatch }, shop) => {
      const wanted = creditRequest(body);
      return { meaning: wanted, decide: () => shop.decideCredit(param, wanted, key, ifMatch) };
    } },
  { method: 'GET', template: '/credits', tool: 'get_credit_receipt',
    prepare: ({ query }, shop) => {
      const key = textIn(query, 'request_key');
      const customer = query.get('customer_id');
      return { look: () => shop.receiptUnder(key, customer) };
    } },
  { method: 'POST', template: '/credits/{receipt_id}/void', tool: 'void_credit',
    prepare: ({ param, key, body }, shop) => {
      const { customer_id: customer = null } = body;
      if (customer !== null && typeof customer !== 'string') throw new Malformed('`customer_id` must be a text such as "C-17"');
      return { meaning: { customer }, decide: () => shop.decideVoid(param, key, customer) };
    } },
  { method: 'POST', template: '/orders/{id}/cancel', tool: 'cancel_order',
    prepare: ({ param, key, ifMatch }, shop) => ({ decide: () => shop.decideCancel(param, key, ifMatch) }) },
  { method: 'GET', template: '/convert', tool: 'convert_temperature',
    prepare: ({ query }) => {
      const value = numberIn(query, 'value');
      const [from, to] = [textIn(query, 'from_unit'), textIn(query, 'to_unit')];
      return { look: () => convertTemperature(value, from, to) };
    } },
];

/** `POST /orders/{id}/credits`: how the books name a route. */
export function nameOf({ method, template }: Route): string {
  return `${method} ${template}`;
}

export const routeNames: readonly string[] = routes.map(nameOf);

/** @throws Error for a name that is none. */
export function routeNamed(name: string): Route {
  const route = routes.find((candidate) => nameOf(candidate) === name);
  if (route === undefined) throw new Error(`there is no route \`${name}\``);
  return route;
}

const patterns = routes.map((route) => ({ route, pattern: new RegExp(`^${route.template.replace(/\{\w+\}/, '([^/]+)')}$`) }));

export type Found = { route: Route; rawParam: string } | { allow: string };

/** The route of a request; the methods that its path has, when it has none for this one; or null. */
export function findRoute(method: string, path: string): Found | null {
  const onPath = patterns.flatMap(({ route, pattern }) => {
    const match = pattern.exec(path);
    return match === null ? [] : [{ route, rawParam: match[1] ?? '' }];
  });
  const found = onPath.find(({ route }) => route.method === method);
  if (found !== undefined) return found;
  return onPath.length === 0 ? null : { allow: onPath.map(({ route }) => route.method).join(', ') };
}

function creditRequest({ amount, currency, customer_id }: Record<string, unknown>): CreditRequest {
  if (typeof currency !== 'string') throw new Malformed('`currency` must be a text such as "GBP"');
  if (typeof customer_id !== 'string') throw new Malformed('`customer_id` must be a text such as "C-17"');
  return { amount: pence(amount), currency, customer_id };
}

function pence(amount: unknown): number {
  if (typeof amount === 'number' && Number.isSafeInteger(amount) && amount > 0) return amount;
  throw new Malformed('`amount` must be a whole number of pence above 0');
}

function textIn(query: URLSearchParams, name: string): string {
  const text = query.get(name);
  if (text === null || text === '') throw new Malformed(`the query must name \`${name}\``);
  return text;
}

function numberIn(query: URLSearchParams, name: string): number {
  const text = textIn(query, name);
  const value = Number(text);
  if (!/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) || !Number.isFinite(value)) {
    throw new Malformed(`\`${name}\` must be a decimal number`);
  }
  return value;
}
