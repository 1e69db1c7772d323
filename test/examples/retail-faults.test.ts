import { describe, expect, it } from 'vitest';
import { raw } from './raw-client.js';
import { retail } from './retail.js';

const shop = retail();
const credits = async () => (await shop.books()).credits;
const arrived = (n: number) =>
  expect.poll(async () => (await shop.books()).requests['POST /orders/{id}/credits'], { timeout: 3_000, interval: 10 }).toBe(n);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('faults before the effect: none happened, and the same key executes afterwards', () => {
  it('drop_before_commit closes the connection without a byte', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'drop_before_commit' });
    expect((await shop.creditRaw('k-1')).bytes).toBe(0);
    expect(await credits()).toEqual([]);
    expect((await shop.credit('k-1')).headers['idempotent-replay']).toBeUndefined();
    expect(await shop.books()).toMatchObject({ credits: [{ key: 'k-1' }], requests: { 'POST /orders/{id}/credits': 2 } });
  });

  it('503_not_started says so', async () => {
    await shop.arm({ tool: 'issue_credit', kind: '503_not_started' });
    const reply = await shop.credit('k-1');
    expect([reply.status, reply.json]).toEqual([503, { code: 'NOT_STARTED' }]);
    expect(await credits()).toEqual([]);
    expect((await shop.credit('k-1')).status).toBe(201);
  });

  it('429 carries Retry-After', async () => {
    await shop.arm({ tool: 'issue_credit', kind: '429', retry_after: 7, ms: 'unused' });
    expect(await shop.credit('k-1')).toMatchObject({ status: 429, headers: { 'retry-after': '7' }, json: { code: 'RATE_LIMITED' } });
    expect(await credits()).toEqual([]);
    expect((await shop.credit('k-1')).status).toBe(201);
  });
});

describe('faults after the effect: it happened once, and the same key replays', () => {
  it('commit_then_drop closes the connection without a byte', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'commit_then_drop' });
    expect((await shop.creditRaw('k-1')).bytes).toBe(0);
    expect(await credits()).toHaveLength(1);
    expect(await shop.credit('k-1')).toMatchObject({ status: 201, headers: { 'idempotent-replay': 'true' } });
    expect(await credits()).toHaveLength(1);
  });

  it('commit_then_500 answers 500, and the stored answer is the good one', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'commit_then_500' });
    expect((await shop.credit('k-1')).status).toBe(500);
    expect((await shop.credit('k-1')).status).toBe(201);
    expect(await credits()).toHaveLength(1);
  });

  it('truncate_body declares more than it sends', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'truncate_body' });
    const reply = await shop.creditRaw('k-1');
    expect(reply.status).toBe(201);
    expect(reply.text.length).toBeGreaterThan(0);
    expect(Number(reply.headers['content-length'])).toBeGreaterThan(reply.text.length);
    expect(await credits()).toHaveLength(1);
  });

  it('bad_json is whole by its length and not JSON', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'bad_json' });
    const reply = await shop.creditRaw('k-1');
    expect([reply.status, reply.headers['content-length']]).toEqual([201, String(reply.text.length)]);
    expect(() => JSON.parse(reply.text)).toThrow(SyntaxError);
    expect(await credits()).toHaveLength(1);
  });

  it('slow_reply commits at once and answers after ms', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'slow_reply', ms: 2_000 });
    const slow = shop.credit('k-1').then((reply) => ({ ...reply, at: performance.now() }));
    await expect.poll(credits, { timeout: 1_950, interval: 10 }).toHaveLength(1);
    const committed = performance.now();
    const reply = await slow;
    expect(reply.status).toBe(201);
    expect(reply.ms).toBeGreaterThanOrEqual(1_990);
    expect(committed).toBeLessThan(reply.at);
  });

  it('double_effect happens twice under one key, answers once, and the read-back shows both', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'double_effect' });
    const reply = await shop.credit('k-1', { amount: 1000 });
    expect(reply.status).toBe(201);
    expect((await credits()).map(({ key, amount }) => [key, amount])).toEqual([['k-1', 1000], ['k-1', 1000]]);
    expect(new Set((await credits()).map((credit) => credit.receipt_id)).size).toBe(2);
    expect((await shop.ask('/credits?request_key=k-1')).json)
      .toEqual({ count: 2, amount: 2000, voided: false, receipt: { receipt_id: reply.json.receipt_id, amount: 1000, order_id: 'O-417' } });
    expect(await shop.order()).toMatchObject({ refundable: 3000, version: 9 });
  });

  it('double_effect reaches voids and cancellations too', async () => {
    const { receipt_id } = (await shop.credit('k-1')).json;
    await shop.arm({ tool: 'void_credit', kind: 'double_effect' });
    await shop.arm({ tool: 'cancel_order', kind: 'double_effect' });
    await shop.voidCredit(receipt_id, 'v-1');
    await shop.cancel('O-418', 'c-1');
    const books = await shop.books();
    expect([books.voids.length, books.cancellations.length]).toEqual([2, 2]);
  });
});

describe('faults with a late effect', () => {
  it('delay_commit commits and answers after ms, and a re-send meanwhile waits for it', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'delay_commit', ms: 500 });
    const first = shop.credit('k-1');
    await arrived(1);
    const second = shop.credit('k-1');
    expect((await shop.credit('k-1', { amount: 1 })).json).toEqual({ code: 'KEY_REUSED' });
    expect(await credits()).toEqual([]);
    const replies = await Promise.all([first, second]);
    expect(replies[0].ms).toBeGreaterThanOrEqual(495);
    expect(replies[1]).toMatchObject({ status: 201, text: replies[0].text, headers: { 'idempotent-replay': 'true' } });
    expect(await credits()).toHaveLength(1);
  });

  it('delay_commit decides at the moment of the commit, not at arrival', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'delay_commit', ms: 400 });
    const delayed = shop.credit('k-1', { amount: 5000 });
    await arrived(1);
    expect((await shop.credit('k-2', { amount: 1 })).status).toBe(201);
    expect(await delayed).toMatchObject({ status: 422, json: { code: 'LIMIT' } });
  });

  it('delay_commit commits although its client has gone', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'delay_commit', ms: 400 });
    const client = new AbortController();
    const given = fetch(`${shop.url}/orders/O-417/credits`, {
      method: 'POST', signal: client.signal,
      headers: { authorization: 'Bearer retail-secret', 'idempotency-key': 'k-1' },
      body: JSON.stringify({ amount: 2500, currency: 'GBP', customer_id: 'C-17' }),
    });
    await arrived(1);
    client.abort();
    await expect(given).rejects.toThrow('aborted');
    expect(await credits()).toEqual([]);
    await expect.poll(credits, { timeout: 3_000, interval: 20 }).toHaveLength(1);
  });

  it('accept_202 answers at once, commits after ms, and its key then gives the receipt', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 400 });
    const reply = await shop.credit('k-1');
    expect([reply.status, reply.json]).toEqual([202, { accepted: true }]);
    expect((await shop.ask('/credits?request_key=k-1')).json.count).toBe(0);
    expect(await shop.credit('k-1')).toMatchObject({ status: 201, headers: { 'idempotent-replay': 'true' } });
    expect((await shop.ask('/credits?request_key=k-1')).json.count).toBe(1);
  });
});

describe('faults on tools other than issue_credit', () => {
  const reads = {
    get_order: '/orders/O-417', quote_credit: '/orders/O-417/credit-quote?amount=1', get_credit_receipt: '/credits?request_key=k',
    convert_temperature: '/convert?value=1&from_unit=C&to_unit=K',
  };

  it.each(Object.entries(reads))('%s can be dropped, refused, slowed and damaged, and recovers', async (tool, path) => {
    const good = (await shop.call(path)).text;
    const kinds = ['commit_then_drop', 'drop_before_commit', 'commit_then_500', '503_not_started', '429', 'truncate_body', 'bad_json'];
    for (const kind of kinds) await shop.arm({ tool, kind });
    await shop.arm({ tool, kind: 'slow_reply', ms: 60 });
    await shop.arm({ tool, kind: 'delay_commit', ms: 60 });
    expect([(await shop.call(path)).bytes, (await shop.call(path)).bytes]).toEqual([0, 0]);
    for (const status of [500, 503, 429]) expect((await shop.call(path)).status).toBe(status);
    const cut = await shop.call(path);
    expect(Number(cut.headers['content-length'])).toBeGreaterThan(cut.text.length);
    const { text: broken } = await shop.call(path);
    expect(() => JSON.parse(broken)).toThrow(SyntaxError);
    for (const least of [55, 55]) {
      const slow = await shop.call(path);
      expect([slow.text, slow.ms >= least]).toEqual([good, true]);
    }
    expect(await shop.call(path)).toMatchObject({ status: 200, text: good });
  });

  it('cancel_order and void_credit keep their effect through a dropped answer', async () => {
    const { receipt_id } = (await shop.credit('k-1')).json;
    await shop.arm({ tool: 'cancel_order', kind: 'commit_then_drop' });
    await shop.arm({ tool: 'void_credit', kind: 'commit_then_drop' });
    const lost = (path: string, key: string) => shop.call(path, { method: 'POST', body: {}, headers: { 'idempotency-key': key } });
    expect((await lost('/orders/O-418/cancel', 'c-1')).bytes).toBe(0);
    expect((await lost(`/credits/${receipt_id}/void`, 'v-1')).bytes).toBe(0);
    expect((await shop.order('O-418')).cancelled_by).toBe('c-1');
    expect((await shop.ask('/credits?request_key=v-1')).json).toMatchObject({ count: 1, voided: true });
    expect((await shop.cancel('O-418', 'c-1')).status).toBe(200);
    expect((await shop.voidCredit(receipt_id, 'v-1')).status).toBe(200);
    const books = await shop.books();
    expect([books.cancellations.length, books.voids.length]).toEqual([1, 1]);
  });
});

describe('the queue of faults', () => {
  it('faults go in the order they were armed, each for its number of times, each for its own tool', async () => {
    await shop.arm({ tool: 'issue_credit', kind: '503_not_started', times: 2 });
    await shop.arm({ tool: 'issue_credit', kind: '429' });
    const statuses = [];
    for (let i = 0; i < 4; i += 1) {
      expect((await shop.call('/orders/O-417')).status).toBe(200);
      statuses.push((await shop.credit('k-1')).status);
    }
    expect(statuses).toEqual([503, 503, 429, 201]);
  });

  it('a malformed request does not use a fault up', async () => {
    await shop.arm({ tool: 'issue_credit', kind: '503_not_started' });
    expect((await shop.credit('k-1', { amount: 0 })).status).toBe(400);
    expect((await shop.credit('k-1')).status).toBe(503);
  });

  it.each(['commit_then_drop', 'commit_then_500', 'delay_commit', 'slow_reply', 'truncate_body', 'bad_json', 'accept_202'])(
    '%s, armed for three re-sends of one key, makes one credit', async (kind) => {
      await shop.arm({ tool: 'issue_credit', kind, times: 3, ms: 20 });
      for (let i = 0; i < 3; i += 1) await shop.creditRaw('k-1');
      expect(await shop.credit('k-1')).toMatchObject({ status: 201, headers: { 'idempotent-replay': 'true' } });
      expect(await credits()).toHaveLength(1);
    });

  it('double_effect on a re-send of a decided key makes no more of it', async () => {
    await shop.credit('k-1', { amount: 1 });
    await shop.arm({ tool: 'issue_credit', kind: 'double_effect' });
    expect((await shop.credit('k-1', { amount: 1 })).headers['idempotent-replay']).toBe('true');
    expect(await credits()).toHaveLength(1);
  });

  it('a refused write has no effect under any fault', async () => {
    for (const kind of ['commit_then_drop', 'double_effect', 'bad_json']) {
      await shop.arm({ tool: 'issue_credit', kind });
      await shop.creditRaw(shop.newKey(), { amount: 5001 });
    }
    expect(await credits()).toEqual([]);
  });

  it('what cannot be armed is refused in words that name the choice', async () => {
    for (const [fault, words] of [
      [{ tool: 'issue_credit', kind: 'explode' }, 'commit_then_drop'], [{ tool: 'refund', kind: '429' }, 'issue_credit'], [{}, 'absent'],
      [{ tool: 'get_order', kind: 'double_effect' }, 'only reads'], [{ tool: 'get_order', kind: '429', times: 0 }, 'times'],
      [{ tool: 'get_order', kind: 'slow_reply', ms: -1 }, 'ms'], [{ tool: 'get_order', kind: '429', retry_after: 'soon' }, 'retry_after'],
    ] as const) {
      const reply = await raw(shop.url, '/_faults', { method: 'POST', body: fault });
      expect(reply.status).toBe(400);
      expect(JSON.parse(reply.text).detail).toContain(words);
    }
    expect((await shop.call('/orders/O-417')).status).toBe(200);
  });
});

describe('POST /_reset', () => {
  it('brings back orders, books, keys and an empty queue of faults', async () => {
    await shop.credit('k-1');
    await shop.cancel('O-418', 'c-1');
    await shop.arm({ tool: 'issue_credit', kind: '503_not_started', times: 9 });
    await shop.reset();
    expect(await shop.order('O-418')).toMatchObject({ status: 'PENDING', version: 3 });
    const books = await shop.books();
    expect([books.credits, books.voids, books.cancellations]).toEqual([[], [], []]);
    expect(books.requests['POST /orders/{id}/credits']).toBe(0);
    expect(await shop.credit('k-1', { amount: 5000 })).toMatchObject({ status: 201, headers: { etag: '"8"' } });
  });

  it('cancels what is delayed: nothing from before reaches the new books, and those who wait are let go', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'delay_commit', ms: 600 });
    await shop.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 600 });
    const hanging = shop.creditRaw('k-1');
    await arrived(1);
    await shop.credit('k-2');
    await shop.reset();
    const reply = await hanging;
    expect([reply.bytes, reply.ms < 600]).toEqual([0, true]);
    await pause(650);
    expect(await credits()).toEqual([]);
    expect(await shop.order()).toMatchObject({ refundable: 5000, version: 7 });
  });
});
