/** A retail service of the test's own, and its API in one-liners. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { startRetailService, type RetailService } from '../../examples/retail/service/server.js';
import { raw, type RawReply, type RawRequest } from './raw-client.js';

export const token = 'retail-secret';

export interface Books {
  credits: { order_id: string; amount: number; key: string; receipt_id: string }[];
  voids: { receipt_id: string; order_id: string; amount: number; key: string }[];
  cancellations: { order_id: string; key: string }[];
  requests: Record<string, number>;
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects and fails by itself where that is not there
export interface Reply extends RawReply { json: Record<string, any> }

export interface CreditOptions { amount?: unknown; order?: string; customer?: unknown; currency?: unknown; ifMatch?: string }

export function retail() {
  let service: RetailService;
  beforeAll(async () => { service = await startRetailService({ port: 0, token }); });
  beforeEach(async () => { await raw(service.url, '/_reset', { method: 'POST' }); });
  afterAll(() => service.close());
  return retailAt(() => service.url);
}

export function retailAt(url: () => string) {
  const call = (path: string, request: RawRequest = {}): Promise<RawReply> =>
    raw(url(), path, { ...request, headers: { authorization: `Bearer ${token}`, ...request.headers } });
  const ask = async (path: string, request: RawRequest = {}): Promise<Reply> => {
    const reply = await call(path, request);
    return { ...reply, json: JSON.parse(reply.text) };
  };
  const post = (path: string, body: unknown, key: string, ifMatch?: string): [string, RawRequest] => {
    const headers = { 'idempotency-key': key, ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }) };
    return [path, { method: 'POST', body, headers }];
  };
  const credit = (key: string, { amount = 2_500, order = 'O-417', customer = 'C-17', currency = 'GBP', ifMatch }: CreditOptions = {}) =>
    post(`/orders/${order}/credits`, { amount, currency, customer_id: customer }, key, ifMatch);
  return {
    get url() { return url(); },
    call, ask,
    newKey: () => `op_${randomUUID()}`,
    credit: (key: string, options?: CreditOptions) => ask(...credit(key, options)),
    creditRaw: (key: string, options?: CreditOptions) => call(...credit(key, options)),
    cancel: (order: string, key: string, ifMatch?: string) => ask(...post(`/orders/${order}/cancel`, {}, key, ifMatch)),
    voidCredit: (receipt: string, key: string) => ask(...post(`/credits/${receipt}/void`, {}, key)),
    order: async (id = 'O-417') => (await ask(`/orders/${id}`)).json,
    books: async (): Promise<Books> => JSON.parse((await raw(url(), '/_books')).text),
    reset: () => raw(url(), '/_reset', { method: 'POST' }),
    async arm(fault: Record<string, unknown>) {
      const reply = await raw(url(), '/_faults', { method: 'POST', body: fault });
      expect(reply.status, reply.text).toBe(200);
    },
  };
}
