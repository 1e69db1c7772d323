import { beforeEach, describe, expect, it } from 'vitest';
import { retailGateway, unique } from '../support/gateway.js';

/**
 * What the product is: one proposed call becomes one verified effect, however often it is proposed. If this is lost, customers are
 * paid twice.
 */
describe('a proposed call becomes one verified effect', () => {
  const at = retailGateway();
  let session = '';
  beforeEach(async () => {
    await at.house.shop.reset();
    session = unique('s');
  });
  const ids = (call: string): Record<string, unknown> => ({ session_id: session, call_id: call });

  it('executes once, verified by a read-back, with both receipts', async () => {
    const answer = await at.opened.agent.credit(ids('c-1'));
    expect(answer).toMatchObject({ http: 200, disposition: 'executed', next_action: 'continue', outcome: 'committed', verified: true, evidence_of_change: true });
    expect(answer.states).toEqual({ 'order:O-417': 'DELIVERED' });
    expect(answer.result).toMatchObject({ amount: 2500 });
    const { credits } = await at.house.shop.books();
    expect(credits).toEqual([{ order_id: 'O-417', amount: 2500, key: answer.operation_id, receipt_id: (answer.result as { receipt_id: string }).receipt_id }]);
    for (const id of [answer.receipts.decision, answer.receipts.effect]) {
      expect(await at.opened.control().get(`/v1/receipts/${id}`)).toMatchObject({ http: 200, operation_id: answer.operation_id });
    }
  });

  it('replays the same call, and an equal call under a new id, without a second effect', async () => {
    const first = await at.opened.agent.credit(ids('c-1'));
    const again = await at.opened.agent.credit(ids('c-1'));
    const replanned = await at.opened.agent.credit(ids('c-2'));
    expect(again).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, result: first.result });
    expect(again.duplicate_of).toBeUndefined();
    expect(replanned).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, duplicate_of: 'c-1', call_id: 'c-2' });
    expect((await at.house.shop.books()).credits).toHaveLength(1);
  });

  it('refuses other arguments under an id that was answered', async () => {
    await at.opened.agent.credit(ids('c-1'));
    const other = await at.opened.agent.credit({ ...ids('c-1'), arguments: { amount: 100 } });
    expect(other).toMatchObject({ http: 422, disposition: 'id_conflict', code: 'ID_CONFLICT', result: null, operation_id: null });
    expect((await at.house.shop.books()).credits).toHaveLength(1);
  });

  it('refuses what the state, the balance and the caller’s sight do not allow', async () => {
    const pending = await at.opened.agent.credit({ ...ids('c-1'), arguments: { order_id: 'O-418' } });
    expect(pending).toMatchObject({ http: 409, disposition: 'transition_error', legal_actions: ['cancel_order'], states: { 'order:O-418': 'PENDING' } });
    const much = await at.opened.agent.credit({ ...ids('c-2'), arguments: { amount: 6000 } });
    expect(much).toMatchObject({ http: 409, disposition: 'precondition_failed', code: 'AMOUNT_EXCEEDS_BALANCE', next_action: 'ask' });
    const foreign = await at.opened.agent.credit({ ...ids('c-3'), arguments: { order_id: 'O-900' } });
    const missing = await at.opened.agent.credit({ ...ids('c-4'), arguments: { order_id: 'O-999' } });
    const visible = ({ call_id, trace, receipts, ...rest }: typeof foreign): object => ({ ...rest, stages: trace.map(({ stage, verdict }) => [stage, verdict]) });
    expect(foreign).toMatchObject({ http: 404, disposition: 'denied', code: 'NOT_FOUND' });
    expect(JSON.stringify(visible(foreign))).toBe(JSON.stringify(visible(missing)));
    expect((await at.house.shop.books()).requests['POST /orders/{id}/credits']).toBe(0);
  });
});
