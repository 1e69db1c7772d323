import fc from 'fast-check';
import { Agent, request } from 'node:http';
import { describe, expect, it } from 'vitest';
import { startRetailService } from '../../examples/retail/service/server.js';
import { raw } from './raw-client.js';
import { retail, token } from './retail.js';

const shop = retail();

describe('credentials', () => {
  it('every path but `/_*` asks for the token, known path or not, and counts the request all the same', async () => {
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: token }]) {
      for (const path of ['/orders/O-417', '/nowhere']) {
        const reply = await raw(shop.url, path, { headers });
        expect([reply.status, JSON.parse(reply.text)]).toEqual([401, { code: 'UNAUTHENTICATED' }]);
      }
    }
    const { requests } = await shop.books();
    expect([requests['GET /orders/{id}'], requests.unknown]).toEqual([3, 3]);
  });

  it('a service without a token asks for none', async () => {
    const open = await startRetailService({ port: 0 });
    try {
      expect((await raw(open.url, '/orders/O-417')).status).toBe(200);
    } finally {
      await open.close();
    }
  });
});

describe('GET /orders/{id}', () => {
  it('the seed is what the contracts and the documentation are written against', async () => {
    const acme = { currency: 'GBP', customer_id: 'C-17', tenant: 'acme' };
    for (const order of [
      { order_id: 'O-417', status: 'DELIVERED', refundable: 5000, version: 7, ...acme },
      { order_id: 'O-418', status: 'PENDING', refundable: 3000, version: 3, ...acme },
      { order_id: 'O-419', status: 'CANCELLED', refundable: 0, version: 5, ...acme },
      { order_id: 'O-420', status: 'DELIVERED', refundable: 90000, version: 2, ...acme },
      { order_id: 'O-900', status: 'DELIVERED', refundable: 5000, version: 1, currency: 'GBP', customer_id: 'C-90', tenant: 'globex' },
    ]) {
      const reply = await shop.ask(`/orders/${order.order_id}`);
      expect([reply.status, reply.json, reply.headers.etag]).toEqual([200, order, `"${order.version}"`]);
    }
  });

  it('an order that does not exist is 404, whatever its name', async () => {
    for (const id of ['O-1', '__proto__', 'constructor', '..%2F_books']) {
      expect(await shop.ask(`/orders/${id}`)).toMatchObject({ status: 404, json: { code: 'NOT_FOUND' } });
    }
  });
});

describe('GET /orders/{id}/credit-quote', () => {
  it('tells what would stay and changes nothing', async () => {
    const quote = async (id: string, amount: string) => (await shop.ask(`/orders/${id}/credit-quote?amount=${amount}`)).json;
    expect(await quote('O-417', '2500')).toEqual({ order_id: 'O-417', amount: 2500, remaining: 2500, allowed: true });
    expect(await quote('O-417', '5000')).toEqual({ order_id: 'O-417', amount: 5000, remaining: 0, allowed: true });
    expect(await quote('O-417', '5001')).toEqual({ order_id: 'O-417', amount: 5001, remaining: 5000, allowed: false });
    expect(await quote('O-418', '1')).toEqual({ order_id: 'O-418', amount: 1, remaining: 3000, allowed: false });
    expect(await quote('O-1', '1')).toEqual({ code: 'NOT_FOUND' });
    expect(await shop.order()).toMatchObject({ refundable: 5000, version: 7 });
  });

  it('an amount that is no whole number of pence above 0 is refused', async () => {
    for (const query of ['', '?amount=', '?amount=0', '?amount=-1', '?amount=1.5', '?amount=0x10', '?amount=1e999', '?amount=ten']) {
      expect((await shop.call(`/orders/O-417/credit-quote${query}`)).status, query).toBe(400);
    }
  });
});

describe('POST /orders/{id}/credits', () => {
  it('a credit lowers the balance, raises the version, and stands in the books under its key', async () => {
    const reply = await shop.credit('k-1');
    expect(reply).toMatchObject({ status: 201, headers: { etag: '"8"' } });
    const receipt_id = expect.stringMatching(/^CR-/);
    expect(reply.json).toEqual({ receipt_id, order_id: 'O-417', amount: 2500, currency: 'GBP', refundable: 2500 });
    expect(await shop.order()).toMatchObject({ refundable: 2500, version: 8, status: 'DELIVERED' });
    const books = await shop.books();
    expect(books.credits).toEqual([{ order_id: 'O-417', amount: 2500, key: 'k-1', receipt_id: reply.json.receipt_id }]);
    expect(books.requests['POST /orders/{id}/credits']).toBe(1);
  });

  it('each refusal has its own code and changes nothing', async () => {
    const before = await Promise.all(['O-417', 'O-418', 'O-419', 'O-900'].map((id) => shop.order(id)));
    for (const [options, status, code] of [
      [{ order: 'O-1' }, 404, 'NOT_FOUND'],
      [{ customer: 'C-90' }, 403, 'NOT_OWNER'],
      [{ order: 'O-900' }, 403, 'NOT_OWNER'],
      [{ ifMatch: '"6"' }, 412, 'VERSION'],
      [{ ifMatch: '7' }, 412, 'VERSION'],
      [{ order: 'O-418' }, 409, 'NOT_DELIVERED'],
      [{ order: 'O-419' }, 409, 'NOT_DELIVERED'],
      [{ currency: 'EUR' }, 422, 'CURRENCY'],
      [{ amount: 5001 }, 422, 'LIMIT'],
    ] as const) {
      const reply = await shop.credit(shop.newKey(), options);
      expect([reply.status, reply.json]).toEqual([status, { code }]);
    }
    expect((await shop.books()).credits).toEqual([]);
    expect(await Promise.all(['O-417', 'O-418', 'O-419', 'O-900'].map((id) => shop.order(id)))).toEqual(before);
  });

  it('a matching If-Match is admitted: alone, in a list, or as `*`', async () => {
    for (const ifMatch of ['"7"', '"1", "8"', '*']) expect((await shop.credit(shop.newKey(), { amount: 1, ifMatch })).status).toBe(201);
  });

  it('a malformed request is 400 and binds no key', async () => {
    const amounts = [0, -5, 1.5, '2500', null].map((amount) => ({ amount }));
    for (const options of [...amounts, { currency: 1 }, { customer: null }]) {
      expect((await shop.credit('k-1', options)).status, JSON.stringify(options)).toBe(400);
    }
    expect(await shop.ask('/orders/O-417/credits', { method: 'POST', body: { amount: 1, currency: 'GBP', customer_id: 'C-17' } }))
      .toMatchObject({ status: 400, json: { code: 'KEY_REQUIRED' } });
    expect((await shop.credit('k-1')).status).toBe(201);
  });
});

describe('idempotency keys', () => {
  it('a re-send is answered from store, to the byte, and before its stale If-Match is looked at', async () => {
    const first = await shop.credit('k-1', { ifMatch: '"7"' });
    const again = await shop.credit('k-1', { ifMatch: '"7"' });
    expect([again.status, again.text, again.headers.etag]).toEqual([first.status, first.text, first.headers.etag]);
    expect([first.headers['idempotent-replay'], again.headers['idempotent-replay']]).toEqual([undefined, 'true']);
    expect((await shop.books()).credits).toHaveLength(1);
  });

  it('a key that comes back with another body, order or route is KEY_REUSED, and nothing of the first is disclosed', async () => {
    await shop.credit('k-1');
    for (const reply of [
      await shop.credit('k-1', { amount: 2501 }), await shop.credit('k-1', { order: 'O-420' }), await shop.cancel('O-418', 'k-1'),
    ]) expect([reply.status, reply.json]).toEqual([422, { code: 'KEY_REUSED' }]);
    expect(await shop.books()).toMatchObject({ credits: [{ amount: 2500 }], cancellations: [] });
  });

  it('a decided refusal is kept under its key', async () => {
    expect((await shop.credit('k-1', { amount: 5000, ifMatch: '"6"' })).status).toBe(412);
    const again = await shop.credit('k-1', { amount: 5000, ifMatch: '"7"' });
    expect([again.status, again.headers['idempotent-replay']]).toEqual([412, 'true']);
  });

  it('fifty equal requests at once are one credit and fifty equal answers', async () => {
    const replies = await Promise.all(Array.from({ length: 50 }, () => shop.credit('k-1')));
    expect(new Set(replies.map((reply) => `${reply.status} ${reply.text}`)).size).toBe(1);
    expect(replies.filter((reply) => reply.headers['idempotent-replay'] !== 'true')).toHaveLength(1);
    expect(await shop.books()).toMatchObject({ credits: [{ key: 'k-1' }], requests: { 'POST /orders/{id}/credits': 50 } });
  });

  it('property: over any run of credits, balance plus credits is what the order began with, and no key pays twice', async () => {
    const step = fc.record({ key: fc.integer({ min: 0, max: 4 }), amount: fc.integer({ min: 1, max: 3000 }) });
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      await shop.reset();
      for (const { key, amount } of steps) await shop.credit(`k-${key}`, { amount });
      const { credits } = await shop.books();
      const paid = credits.reduce((sum, credit) => sum + credit.amount, 0);
      expect((await shop.order()).refundable + paid).toBe(5000);
      expect(paid).toBeLessThanOrEqual(5000);
      expect(new Set(credits.map((credit) => credit.key)).size).toBe(credits.length);
    }), { numRuns: 25 });
  });
});

describe('GET /credits and POST /credits/{receipt_id}/void', () => {
  const under = async (key: string) => (await shop.ask(`/credits?request_key=${key}`)).json;

  it('the read-back tells none, one, and one that was voided since', async () => {
    expect(await under('k-1')).toEqual({ count: 0, amount: 0, voided: false, receipt: null });
    const { receipt_id } = (await shop.credit('k-1')).json;
    const receipt = { receipt_id, amount: 2500, order_id: 'O-417' };
    expect(await under('k-1')).toEqual({ count: 1, amount: 2500, voided: false, receipt });
    await shop.voidCredit(receipt_id, 'v-1');
    expect(await under('k-1')).toEqual({ count: 1, amount: 2500, voided: true, receipt });
    expect(await under('v-1')).toEqual({ count: 1, amount: 2500, voided: true, receipt });
    expect((await shop.call('/credits')).status).toBe(400);
  });

  it('a void gives the amount back once', async () => {
    const { receipt_id } = (await shop.credit('k-1')).json;
    const voided = await shop.voidCredit(receipt_id, 'v-1');
    expect([voided.status, voided.json]).toEqual([200, { receipt_id, voided: true, amount: 2500 }]);
    const again = await shop.voidCredit(receipt_id, 'v-1');
    expect(again).toMatchObject({ status: 200, text: voided.text, headers: { 'idempotent-replay': 'true' } });
    expect(await shop.voidCredit(receipt_id, 'v-2')).toMatchObject({ status: 409, json: { code: 'ALREADY_VOIDED' } });
    expect(await shop.voidCredit('CR-none', 'v-3')).toMatchObject({ status: 404, json: { code: 'NOT_FOUND' } });
    expect((await shop.call(`/credits/${receipt_id}/void`, { method: 'POST' })).status).toBe(400);
    expect(await shop.order()).toMatchObject({ refundable: 5000, version: 9 });
    expect((await shop.books()).voids).toEqual([{ receipt_id, order_id: 'O-417', amount: 2500, key: 'v-1' }]);
  });
});

describe('POST /orders/{id}/cancel', () => {
  it('cancels a pending order once, and says by which request', async () => {
    const done = await shop.cancel('O-418', 'k-1', '"3"');
    expect([done.status, done.headers.etag]).toEqual([200, '"4"']);
    expect(done.json).toEqual({
      order_id: 'O-418', status: 'CANCELLED', refundable: 3000, currency: 'GBP', version: 4, customer_id: 'C-17', tenant: 'acme',
      cancelled_by: 'k-1',
    });
    expect(await shop.order('O-418')).toEqual(done.json);
    expect(await shop.cancel('O-418', 'k-1', '"3"')).toMatchObject({ status: 200, text: done.text });
    expect(await shop.cancel('O-418', 'k-2')).toMatchObject({ status: 409, json: { code: 'NOT_PENDING' } });
    expect((await shop.books()).cancellations).toEqual([{ order_id: 'O-418', key: 'k-1' }]);
  });

  it('each refusal has its own code', async () => {
    expect(await shop.cancel('O-417', 'k-1')).toMatchObject({ status: 409, json: { code: 'NOT_PENDING' } });
    expect(await shop.cancel('O-418', 'k-2', '"2"')).toMatchObject({ status: 412, json: { code: 'VERSION' } });
    expect(await shop.cancel('O-1', 'k-3')).toMatchObject({ status: 404, json: { code: 'NOT_FOUND' } });
    expect((await shop.books()).cancellations).toEqual([]);
  });
});

describe('GET /convert', () => {
  const convert = (value: string | number, from: string, to: string) =>
    shop.ask(`/convert?value=${encodeURIComponent(value)}&from_unit=${from}&to_unit=${to}`);

  it('known points are exact, absolute zero included', async () => {
    for (const [value, from, to, expected] of [
      [100, 'C', 'F', 212], [-40, 'F', 'C', -40], [0, 'C', 'K', 273.15], [298.45, 'K', 'C', 25.3], [-459.67, 'F', 'K', 0],
      [0, 'K', 'F', -459.67], [-273.15, 'C', 'F', -459.67], [98.6, 'F', 'C', 37], [21.123456789, 'C', 'C', 21.123456789],
    ] as const) {
      const reply = await convert(value, from, to);
      expect([reply.status, reply.json]).toEqual([200, { value: expected, unit: to }]);
    }
  });

  it('an unknown unit, a temperature below absolute zero and one too large to convert are refused', async () => {
    for (const [value, from, to, code] of [
      [1, 'R', 'C', 'UNIT'], [1, 'C', 'c', 'UNIT'], [1, 'C', '__proto__', 'UNIT'],
      [-273.16, 'C', 'K', 'RANGE'], [-459.68, 'F', 'C', 'RANGE'], [-0.01, 'K', 'K', 'RANGE'], [1.7e308, 'C', 'F', 'RANGE'],
    ] as const) {
      const reply = await convert(value, from, to);
      expect([reply.status, reply.json]).toEqual([422, { code }]);
    }
    for (const value of ['', 'NaN', 'Infinity', '1e999', '0x10', ' 1', '1,5']) {
      expect((await convert(value, 'C', 'F')).status, value).toBe(400);
    }
  });

  it('property: there and back again within 1e-9', async () => {
    await fc.assert(fc.asyncProperty(
      fc.double({ min: 0, max: 10_000, noNaN: true }), fc.constantFrom('C', 'F', 'K'), fc.constantFrom('C', 'F', 'K'),
      async (value, from, to) => {
        const there = (await convert(value, from, to)).json.value;
        const back = (await convert(there, to, from)).json.value;
        // One rounding to nine decimals each way; Fahrenheit widens an error by 9/5.
        expect(Math.abs(back - value)).toBeLessThanOrEqual(2e-9);
      },
    ), { numRuns: 60 });
  });
});

describe('bad requests', () => {
  it('a body that is not one JSON object is 400', async () => {
    for (const text of ['{"amount":', '[]', '1', 'null', '"x"', '['.repeat(60_000), Buffer.from('7b22ff223a317d', 'hex')]) {
      expect((await shop.call('/orders/O-417/credits', { method: 'POST', text, headers: { 'idempotency-key': 'k-1' } })).status).toBe(400);
    }
  });

  it('a body of 64 KiB is read, one byte more is 413, 5 MiB too, and none has an effect', async () => {
    const sized = (size: number) => {
      const body = { amount: 1, currency: 'GBP', customer_id: '' };
      return JSON.stringify({ ...body, customer_id: 'x'.repeat(size - JSON.stringify(body).length) });
    };
    for (const [size, status] of [[65_536, 403], [65_537, 413], [5 * 1024 * 1024, 413]] as const) {
      const headers = { 'idempotency-key': `k-${size}` };
      const reply = await shop.call('/orders/O-417/credits', { method: 'POST', text: sized(size), headers });
      expect(reply.status).toBe(status);
    }
    expect((await shop.books()).credits).toEqual([]);
  });

  it('a wrong method, an unknown path and broken escapes are told apart', async () => {
    expect(await shop.call('/orders/O-417', { method: 'DELETE' })).toMatchObject({ status: 405, headers: { allow: 'GET' } });
    expect(await shop.ask('/orders')).toMatchObject({ status: 404, json: { code: 'NO_SUCH_PATH' } });
    expect((await shop.call('/orders/%E0%A4%A')).status).toBe(400);
    expect((await shop.call('//')).status).toBe(404);
    expect((await shop.call('/_nothing')).status).toBe(404);
  });

  it('a client that leaves in the middle of its body has no effect and does no harm', async () => {
    const cut = await new Promise((resolve) => {
      const req = request(`${shop.url}/orders/O-417/credits`, {
        method: 'POST', headers: { authorization: `Bearer ${token}`, 'idempotency-key': 'k-1', 'content-length': 100 },
      });
      req.on('error', resolve);
      req.write('{"amount":', () => setTimeout(() => req.destroy(new Error('left')), 30));
    });
    expect(cut).toBeInstanceOf(Error);
    expect((await shop.credit('k-1')).status).toBe(201);
    expect((await shop.books()).requests['POST /orders/{id}/credits']).toBe(2);
  });
});

describe('the connection', () => {
  it('is kept open, and the client is told for how long', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const get = () => new Promise<[boolean, unknown]>((resolve, reject) => {
      const req = request(`${shop.url}/orders/O-417`, { agent, headers: { authorization: `Bearer ${token}` } }, (res) => {
        res.resume().on('end', () => resolve([req.reusedSocket, res.headers['keep-alive']]));
      });
      req.on('error', reject).end();
    });
    expect(await get()).toEqual([false, 'timeout=120']);
    expect(await get()).toEqual([true, 'timeout=120']);
    agent.destroy();
  });

  it('`close` ends half-sent requests and delayed work, may be called twice, and frees the port', async () => {
    const service = await startRetailService({ port: 0 });
    await raw(service.url, '/_faults', { method: 'POST', body: { tool: 'get_order', kind: 'slow_reply', ms: 60_000 } });
    const hanging = raw(service.url, '/orders/O-417');
    await expect.poll(async () => JSON.parse((await raw(service.url, '/_books')).text).requests['GET /orders/{id}']).toBe(1);
    const headers = { 'idempotency-key': 'k', 'content-length': '9' };
    const halfSent = raw(service.url, '/orders/O-417/cancel', { method: 'POST', headers });
    await expect.poll(async () => JSON.parse((await raw(service.url, '/_books')).text).requests['POST /orders/{id}/cancel']).toBe(1);
    await service.close();
    await service.close();
    expect([(await hanging).bytes, (await halfSent).bytes]).toEqual([0, 0]);
    const again = await startRetailService({ port: Number(new URL(service.url).port) });
    await again.close();
  });

  it('a port that is taken is an error for the caller', async () => {
    await expect(startRetailService({ port: Number(new URL(shop.url).port) })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });
});
