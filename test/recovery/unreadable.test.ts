import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { changedContracts, quickEnv } from './quick.js';
import { decideNow, reviewOf, seeing } from '../people/reviews.js';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { until } from './process.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * What an open operation needs to go on does not open any more: its row was damaged, changed, or sealed under another key. Nothing may be guessed of
 * it; but what has a deadline comes to a person then, or an order is held by a row that nobody can read, for ever.
 */
describe('an open operation whose sealed request does not open', () => {
  const sight = { blind: false };
  let house: House;
  let open: Opened;
  let n = 0;
  beforeAll(async () => {
    house = await openHouse(quickEnv({
      CALLGATE_CONTRACTS_FOLDER: changedContracts([['expires: 10m', 'expires: 1s'], ['deadline: 5s }', 'deadline: 700ms }']]), CALLGATE_APPROVALS_DISPATCH_TRIES: '3', CALLGATE_RECONCILE_BACKOFF_FIRST: '100ms',
      CALLGATE_RECONCILE_DEADLINE: '3s', CALLGATE_LOG_LEVEL: 'silent',
    }));
    open = await openGateway(house, {}, seeing(sight));
  });
  afterAll(async () => {
    await open?.gateway.close();
    await house?.close();
  });

  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  async function damage(operation: string | null): Promise<void> {
    const client = new pg.Client({ connectionString: house.databaseUrl });
    await client.connect();
    try {
      expect((await client.query(`update operations set sealed_request = '\\x00' where operation_id = $1`, [operation])).rowCount).toBe(1);
    } finally {
      await client.end();
    }
  }
  const now = (answer: Sent): Promise<Sent> => open.agent.get(`/v1/operations/${answer.operation_id}`);
  async function became(answer: Sent, disposition: string): Promise<Sent> {
    await until(async () => (await now(answer)).disposition === disposition, 20_000);
    return now(answer);
  }
  const propose = (order: string, amount: number): Promise<Sent> => open.agent.credit({ session_id: unique('s'), call_id: 'c', arguments: { order_id: order, amount } }, { prefer: 'wait=1' });

  it('and that waits for an approval expires like any other', async () => {
    const parked = await propose(extraOrder(n++), 15_000);
    await damage(parked.operation_id);
    expect(await became(parked, 'denied')).toMatchObject({ http: 403, code: 'APPROVAL_EXPIRED', outcome: 'not_committed' });
  });

  it('case-39: and that was approved is not sent; after its tries it is a person’s, who can give it up and not send it', async () => {
    const order = extraOrder(n++);
    const parked = await propose(order, 45_000);
    await damage(parked.operation_id);
    for (const key of [house.keys.reviewer, house.keys.secondReviewer]) {
      const verdict = JSON.stringify({ decision: 'approve', reason: 'read it', expected_digest: parked.approval?.digest });
      expect(await open.control(key).post(`/v1/approvals/${parked.approval?.id}/decision`, verdict)).toMatchObject({ http: 200 });
    }
    const { review_id: review } = await became(parked, 'review');
    expect(await now(parked)).toMatchObject({ code: 'NOT_DISPATCHED', outcome: 'not_committed' });
    const desk = open.control(house.keys.reviewer);
    expect(await reviewOf(desk, review as string)).toMatchObject({
      attempts: [1, 2, 3].map(() => ({ sent: false, reason: 'unreadable' })), options: { committed: { possible: false }, resend: { possible: false }, abandon: { possible: true } },
    });
    expect(await creditsOf(order)).toEqual([]);
  });

  it('and that is unknown stays so until its deadline, then it is a person’s, whose word settles it and frees the order', async () => {
    const order = extraOrder(n++);
    sight.blind = true;
    await house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    const first = await propose(order, 100);
    expect(first).toMatchObject({ disposition: 'unknown' });
    await damage(first.operation_id);
    sight.blind = false;
    const { review_id: review } = await became(first, 'review');
    expect(await now(first)).toMatchObject({ code: 'DEADLINE_PASSED', outcome: 'unknown' });
    expect(await propose(order, 200)).toMatchObject({ disposition: 'in_progress' });
    const desk = open.control(house.keys.reviewer);
    expect((await reviewOf(desk, review as string)).options).toMatchObject({ committed: { possible: true }, not_committed: { possible: true }, resend: { possible: false } });
    const [credit] = await creditsOf(order);
    expect(await decideNow(desk, review as string, { decision: 'committed', result: { receipt_id: credit?.receipt_id, amount: 100 } })).toMatchObject({ http: 200 });
    expect(await now(first)).toMatchObject({ disposition: 'executed', outcome: 'committed', result: { receipt_id: credit?.receipt_id } });
    expect(await propose(order, 200)).toMatchObject({ disposition: 'executed' });
    expect(await creditsOf(order)).toHaveLength(2);
  });
});
