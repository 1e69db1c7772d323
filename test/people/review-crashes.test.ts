import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openGateway, openHouse, type House } from '../support/gateway.js';
import { extraOrder } from '../recovery/many-orders.js';
import { type CrashPoint, spawnFused, until } from '../recovery/process.js';
import { quickEnv } from '../recovery/quick.js';
import { decide, decideNow, intoReview, reviewOf, seeing } from './reviews.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/**
 * A person's word to send once more outlives the process that took it (semantics.md section 6, the last row; case-42). If this is lost, the
 * word is forgotten, or the customer is paid twice for one click.
 */
describe('killed after a person decided to send once more', () => {
  const sight = { blind: false };
  let house: House;
  let n = 0;
  beforeAll(async () => { house = await openHouse(quickEnv({ CALLGATE_RECONCILE_DEADLINE: '1s' })); });
  afterAll(() => house.close());

  const rows: { killed: string; at: CrashPoint }[] = [
    { killed: 'after the decision, before anybody picks it up', at: 'after_decision' },
    { killed: 'after it was picked up, before it is sent', at: 'before_decided_send' },
    { killed: 'after it was sent', at: 'after_exchange' },
  ];
  it.each(rows)('$killed: it is sent once, and every asker is told the one answer', async ({ at }) => {
    const order = extraOrder(n++);
    const first = await openGateway(house, {}, seeing(sight));
    const one = await intoReview(house, first, sight, order, 'drop_before_commit');
    await first.gateway.close();

    const doomed = await spawnFused(house, at);
    const desk = doomed.control(house.keys.reviewer);
    const verdict = { decision: 'resend', expected_digest: (await reviewOf(desk, one.review)).digest };
    await decide(desk, one.review, verdict).catch(() => 'cut off');
    expect(await doomed.ended).toBe('SIGKILL');

    sight.blind = false;
    const next = await openGateway(house, {}, seeing(sight));
    try {
      expect(await decide(next.control(house.keys.secondReviewer), one.review, verdict)).toMatchObject({ http: 409, code: 'ALREADY_DECIDED' });
      expect(await next.agent.settled(one.operation)).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
      expect((await house.shop.books()).credits.filter(({ order_id }) => order_id === order)).toMatchObject([{ key: one.operation }]);
    } finally {
      await next.gateway.close();
    }
  });
});

/** A review that nobody comes for is loud, and one that a replica of the version before left behind is found. */
describe('reviews that wait', () => {
  const sight = { blind: false };
  let house: House;
  beforeAll(async () => { house = await openHouse(quickEnv({ CALLGATE_RECONCILE_DEADLINE: '1s', CALLGATE_APPROVALS_REVIEW_DEADLINE: '300ms' })); });
  afterAll(() => house.close());

  it('past its deadline it is escalated once, counted as overdue, and can still be decided', async () => {
    const open = await openGateway(house, {}, seeing(sight));
    try {
      const desk = open.control(house.keys.reviewer);
      const { review, operation } = await intoReview(house, open, sight, extraOrder(50), 'drop_before_commit');
      await until(async () => (await reviewOf(desk, review)).escalated_at !== null, 15_000);
      const { escalated_at: escalated } = await reviewOf(desk, review);
      await until(async () => (await (await fetch(`${open.gateway.controlUrl}/metrics`)).text()).includes('callgate_reviews_open{overdue="true"} 1'), 15_000);
      expect(await reviewOf(desk, review)).toMatchObject({ state: 'open', overdue: true, escalated_at: escalated });
      expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'review' });
      expect(await decideNow(desk, review, { decision: 'abandon' })).toMatchObject({ http: 200, state: 'decided', overdue: false });
    } finally {
      await open.gateway.close();
    }
  });

  it('an operation that is in that state without a review gets one', async () => {
    const open = await openGateway(house, {}, seeing(sight));
    const db = new pg.Client({ connectionString: house.databaseUrl });
    await db.connect();
    try {
      const { review, operation } = await intoReview(house, open, sight, extraOrder(51), 'drop_before_commit');
      await db.query('delete from reviews where id = $1', [review]);
      await db.query('update operations set review_id = null where operation_id = $1', [operation]);
      const again = await openGateway(house, {}, seeing(sight)); // looks for leftovers as it starts
      try {
        const adopted = `rev_${operation.slice(3)}`;
        await until(async () => (await open.agent.get(`/v1/operations/${operation}`)).review_id === adopted, 15_000);
        expect(await decideNow(again.control(house.keys.reviewer), adopted, { decision: 'abandon' })).toMatchObject({ http: 200, reason: 'DEADLINE_PASSED' });
      } finally {
        await again.gateway.close();
      }
    } finally {
      await db.end();
      await open.gateway.close();
    }
  });
});
