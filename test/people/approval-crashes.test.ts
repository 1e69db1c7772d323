import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type House, openGateway, openHouse, unique } from '../support/gateway.js';
import { extraOrder } from '../recovery/many-orders.js';
import { type CrashPoint, spawnFused } from '../recovery/process.js';
import { quickEnv } from '../recovery/quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/**
 * An approval outlives the process that took it (semantics.md section 6, "while parked, approved" and the last row; case-42). If this is lost, it
 * is used up by a crash and cannot be given again, or the customer is paid twice for one approval.
 */
describe('killed with an approved call', () => {
  let house: House;
  let n = 0;
  beforeAll(async () => { house = await openHouse(quickEnv()); });
  afterAll(() => house.close());

  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  const verdictOn = (answer: { approval?: { digest: string } }) => JSON.stringify({ decision: 'approve', expected_digest: answer.approval?.digest });

  const rows: { killed: string; at: CrashPoint }[] = [
    { killed: 'after the approval, before anybody picks it up', at: 'after_approval' },
    { killed: 'after it was picked up, before it is an intent', at: 'before_dispatch' },
    { killed: 'after it is an intent, before it is sent', at: 'after_dispatch' },
    { killed: 'after it was sent', at: 'after_exchange' },
  ];
  it.each(rows)('case-42: $killed: it is sent once, and what waits beside it is untouched', async ({ at }) => {
    const [order, other] = [extraOrder(n++), extraOrder(n++)];
    const session = unique('s');
    const doomed = await spawnFused(house, at);
    const approve = (answer: { approval?: { id: string; digest: string } }, desk = doomed.control(house.keys.application)) =>
      desk.post(`/v1/approvals/${answer.approval?.id}/decision`, verdictOn(answer));
    const first = await doomed.agent.credit({ session_id: session, call_id: 'c-1', arguments: { order_id: order, amount: 15_000 } });
    const second = await doomed.agent.credit({ session_id: session, call_id: 'c-2', arguments: { order_id: other, amount: 15_000 } });
    await approve(first).catch(() => 'cut off');
    expect(await doomed.ended).toBe('SIGKILL');

    const next = await openGateway(house);
    try {
      expect(await approve(first, next.control(house.keys.application))).toMatchObject({ http: 409, code: 'ALREADY_DECIDED' });
      await vi.waitUntil(async () => (await next.agent.get(`/v1/operations/${first.operation_id}`)).disposition !== 'approval_required', { timeout: 15_000, interval: 50 });
      expect(await next.agent.settled(first.operation_id as string)).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
      expect(await creditsOf(order)).toMatchObject([{ amount: 15_000, key: first.operation_id }]);

      expect(await creditsOf(other)).toEqual([]);
      expect(await next.agent.get(`/v1/operations/${second.operation_id}`)).toMatchObject({ disposition: 'approval_required', approval: second.approval });
      expect(await approve(second, next.control(house.keys.application))).toMatchObject({ http: 200 });
      await vi.waitUntil(async () => (await next.agent.get(`/v1/operations/${second.operation_id}`)).disposition === 'executed', { timeout: 15_000, interval: 50 });
      expect(await creditsOf(other)).toMatchObject([{ key: second.operation_id }]);
    } finally {
      await next.gateway.close();
    }
  });
});
