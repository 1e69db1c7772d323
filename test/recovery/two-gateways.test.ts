import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/** Two replicas on one database. If they did not agree through it alone, every load balancer would pay twice, or wait for a deadlock. */
let house: House;
beforeAll(async () => { house = await openHouse(quickEnv()); });
afterAll(() => house.close());

const one = async <T>(text: string): Promise<T> => {
  const client = new pg.Client({ connectionString: house.databaseUrl });
  await client.connect();
  try {
    return (await client.query(text)).rows[0] as T;
  } finally {
    await client.end();
  }
};
const deadlocks = async (): Promise<number> => Number((await one<{ deadlocks: string }>(
  'select deadlocks from pg_stat_database where datname = current_database()')).deadlocks);

async function together(env: Record<string, string>, play: (both: [Opened, Opened]) => Promise<void>): Promise<void> {
  const both: [Opened, Opened] = [await openGateway(house, env), await openGateway(house, env)];
  try {
    await play(both);
  } finally {
    await Promise.all(both.map(({ gateway }) => gateway.close()));
  }
}

async function finalAnswer(send: () => Promise<Sent>): Promise<Sent> {
  const end = performance.now() + 20_000;
  for (;;) {
    const answer = await send();
    if (!['wait', 'retry'].includes(answer.next_action) || performance.now() > end) return answer;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('two gateways on one database', () => {
  it('200 identical proposals at once: one effect, and everybody is given the same answer in the end', () =>
    together({}, async (both) => {
      const session = unique('s');
      const order = extraOrder(0);
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 200 });
      const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => {
        const { agent } = both[n % 2] as Opened;
        return finalAnswer(() => agent.credit({ session_id: session, call_id: n % 3 === 0 ? 'c-1' : `c-${n}`, arguments: { order_id: order } }));
      }));
      expect(new Set(answers.map(({ operation_id: id, outcome, result }) => JSON.stringify([id, outcome, result]))).size).toBe(1);
      expect(answers.filter(({ disposition }) => disposition === 'executed')).toHaveLength(1);
      expect(answers.every(({ disposition }) => /^(executed|replayed)$/.test(disposition))).toBe(true);
      const { credits } = await house.shop.books();
      expect(credits.filter(({ order_id }) => order_id === order)).toHaveLength(1);
    }));

  it('different calls on the same few orders, by several principals, reads between them: every effect once, no deadlock', () =>
    together({}, async (both) => {
      const before = await deadlocks();
      const orders = [1, 2, 3, 4].map(extraOrder);
      const keys = [house.keys.agent, house.keys.otherAgent];
      const meant = Array.from({ length: 120 }, (_, n) => ({ n, order: orders[n % 4] as string, amount: 100 + n }));
      // One session over both replicas: what it was told of each order is written from both.
      const answers = await Promise.all(meant.map(async ({ n, order, amount }) => {
        const agent = (both[n % 2] as Opened).as(keys[(n >> 1) % 2] as string);
        if (n % 3 === 0) void agent.call({ session_id: 'shared', tool: 'get_order', arguments: { order_id: orders[(n >> 2) % 4] } });
        return finalAnswer(() => agent.credit({ session_id: 'shared', call_id: `c-${n}`, intent_id: `i-${n}`, arguments: { order_id: order, amount } }));
      }));
      const { credits } = await house.shop.books();
      for (const [n, { order, amount }] of meant.entries()) {
        const effects = credits.filter((credit) => credit.order_id === order && credit.amount === amount).length;
        const answer = answers[n] as Sent;
        expect(effects, JSON.stringify(answer)).toBe(answer.outcome === 'committed' ? 1 : 0);
        // `replayed`: its caller's patience had ended before the effect was known, and the same call was sent again
        expect(answer.disposition, JSON.stringify(answer)).toMatch(/^(executed|replayed|version_conflict)$/);
      }
      expect(answers.filter(({ outcome }) => outcome === 'committed').length).toBeGreaterThan(20);
      expect(await deadlocks() - before).toBe(0);
    }), 60_000);

  it('on a database whose default is serializable: the same answers, conflicts are tried again', async () => {
    const name = new URL(house.databaseUrl).pathname.slice(1);
    await one(`alter database ${name} set default_transaction_isolation = 'serializable'`);
    try {
      await together({}, async (both) => {
        const meant = Array.from({ length: 40 }, (_, n) => ({ n, order: extraOrder(20 + (n >> 1)) }));
        const answers = await Promise.all(meant.map(({ n, order }) => {
          const { agent } = both[n % 2] as Opened;
          return finalAnswer(() => agent.credit({ session_id: `serial-${n >> 1}`, call_id: `c-${n % 2}`, arguments: { order_id: order } }));
        }));
        expect(await one('show transaction_isolation')).toEqual({ transaction_isolation: 'serializable' });
        expect(answers.map(({ outcome }) => outcome)).toEqual(meant.map(() => 'committed'));
        const { credits } = await house.shop.books();
        for (const { order } of meant) expect(credits.filter(({ order_id }) => order_id === order)).toHaveLength(1);
      });
    } finally {
      await one(`alter database ${name} reset default_transaction_isolation`);
    }
  }, 60_000);
});

describe('the principal’s executions of a day', () => {
  const quota = 7;
  const scarce = { CALLGATE_BUDGETS_EXECUTIONS_PER_PRINCIPAL_PER_DAY: String(quota) };
  const empty = (): Promise<unknown> => one('delete from budgets');
  const used = async (): Promise<number> => Number((await one<{ used: string }>('select coalesce(sum(used), 0) as used from budgets')).used);

  it(`a budget of ${quota} starts exactly ${quota} of 40 proposals over both gateways; the rest are told so, and not to come again by themselves`, async () => {
    await empty();
    await together(scarce, async (both) => {
      const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => {
        const { agent } = both[n % 2] as Opened;
        return finalAnswer(() => agent.credit({ session_id: unique('s'), call_id: 'c', arguments: { order_id: extraOrder(60 + n) } }));
      }));
      const executed = answers.filter(({ disposition }) => disposition === 'executed');
      const refused = answers.filter(({ disposition }) => disposition === 'budget_exhausted');
      expect([executed.length, refused.length]).toEqual([quota, 40 - quota]);
      for (const answer of refused) {
        expect(answer).toMatchObject({ http: 429, next_action: expect.stringMatching(/abandon|escalate/) as string });
        expect(answer.header('x-should-retry')).toBe('false');
        expect(answer.header('retry-after')).toBeNull();
      }
      const { credits } = await house.shop.books();
      expect(credits.filter(({ order_id }) => Array.from({ length: 40 }, (_, n) => extraOrder(60 + n)).includes(order_id))).toHaveLength(quota);
      expect(await used()).toBe(quota);
    });
  });

  it('is given back when not one byte left, and not for a refusal, a limit or a proven absence', async () => {
    await empty();
    const elsewhere = await openHouse(quickEnv());
    const { credit, gone } = await (async () => {
      const open = await openGateway(elsewhere, { ...scarce });
      const db = new pg.Client({ connectionString: elsewhere.databaseUrl });
      await db.connect();
      const spent = async (): Promise<number> => Number((await db.query(`select coalesce(sum(used), 0) as used from budgets`)).rows[0].used);
      try {
        const voided = (receipt: string): Promise<Sent> => open.agent.call({ session_id: unique('s'), tool: 'void_credit', arguments: { receipt_id: receipt } });
        expect(await voided('CR-NONE')).toMatchObject({ code: 'NOT_FOUND' });
        expect(await spent()).toBe(1);
        await elsewhere.shop.fault({ tool: 'issue_credit', kind: '503_not_started', times: 3 });
        expect(await open.agent.credit({ session_id: unique('s') })).toMatchObject({ code: 'NOT_COMMITTED' });
        expect(await spent()).toBe(2);
        await elsewhere.shop.fault({ tool: 'issue_credit', kind: '429', retry_after: 0 });
        expect(await open.agent.credit({ session_id: unique('s') })).toMatchObject({ disposition: 'rate_limited' });
        expect(await spent()).toBe(3);
        await elsewhere.service.close();
        const failed = await voided('CR-1');
        return { credit: failed, gone: await spent() };
      } finally {
        await db.end();
        await open.gateway.close();
      }
    })();
    expect(credit).toMatchObject({ http: 502, disposition: 'failed', code: 'UPSTREAM_UNREACHABLE', next_action: 'retry', outcome: 'not_committed' });
    expect(gone).toBe(3);
  });
});
