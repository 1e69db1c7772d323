import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { extraOrder } from '../recovery/many-orders.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/** The contracts as they are shipped, windows and all: what a newcomer meets. If a window were not kept, a late commit would be paid again. */
describe('the shipped settle windows', () => {
  let house: House;
  let open: Opened;
  beforeAll(async () => {
    house = await openHouse({ CALLGATE_EXECUTION_PATIENCE: '1s' });
    open = await openGateway(house);
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
  });

  it('nothing is sent again before the window has passed, and then once: drop_before_commit, a commit after the deadline, a lost answer', async () => {
    const began = performance.now();
    const faults = [{ kind: 'drop_before_commit' }, { kind: 'delay_commit', ms: 8_000 }, { kind: 'commit_then_drop' }];
    const answers = [];
    for (const [n, fault] of faults.entries()) {
      await house.shop.fault({ tool: 'issue_credit', ...fault });
      answers.push(await open.agent.credit({ session_id: unique('s'), call_id: 'c-1', arguments: { order_id: extraOrder(n) } }));
    }
    expect(answers.map(({ http, disposition }) => `${http} ${disposition}`)).toEqual(['202 unknown', '202 unknown', '200 executed']);
    const atLast = await Promise.all(answers.map(async ({ operation_id: id }) => ({ ...(await open.agent.settled(id as string, 25_000)), tookMs: performance.now() - began })));
    for (const answer of atLast) expect(answer).toMatchObject({ disposition: 'executed', verified: true });
    expect(atLast[0]?.tookMs).toBeGreaterThan(10_000);
    expect(atLast[0]?.tookMs).toBeLessThan(13_000);
    const { credits, requests } = await house.shop.books();
    expect(credits.map(({ order_id }) => order_id).sort()).toEqual([0, 1, 2].map(extraOrder));
    expect(requests['POST /orders/{id}/credits']).toBe(4);
  });
});
