import { describe, expect, it } from 'vitest';
import { retailGateway } from '../support/gateway.js';

/**
 * A tool without an entity has no resource for policy to look at; its bindings keep a caller to what is its own. If they are lost, one
 * customer's agent takes back another customer's credit, or learns of it.
 */
describe('credits of one customer, to an agent of another', () => {
  const at = retailGateway();

  it('are not there: neither to be read nor to be voided, in the words for what does not exist', async () => {
    const credit = await at.opened.agent.credit();
    const { receipt_id } = credit.result as { receipt_id: string };
    const stranger = at.opened.as(at.house.keys.otherSubject);
    const read = await stranger.call({ session_id: 's', tool: 'get_credit_receipt', arguments: { request_key: credit.operation_id } });
    expect(read.result).toEqual({ count: 0, amount: 0, voided: false, receipt: null });
    const voided = await stranger.call({ session_id: 's', tool: 'void_credit', arguments: { receipt_id } });
    const missing = await stranger.call({ session_id: 's', tool: 'void_credit', arguments: { receipt_id: 'CR-0000000000' } });
    expect(voided).toMatchObject({ http: 404, disposition: 'denied', code: 'NOT_FOUND', result: null });
    const told = ({ operation_id, call_id, receipts, trace, ...rest }: typeof missing): string => JSON.stringify(rest);
    expect(told(voided)).toBe(told(missing));
    expect((await at.house.shop.books()).voids).toEqual([]);
  });

  it('are their own customer’s to read and to void', async () => {
    const credit = await at.opened.agent.credit({ arguments: { order_id: 'O-420', amount: 700 } });
    const { receipt_id } = credit.result as { receipt_id: string };
    const read = await at.opened.agent.call({ session_id: 's', tool: 'get_credit_receipt', arguments: { request_key: credit.operation_id } });
    expect(read.result).toMatchObject({ count: 1, amount: 700 });
    const voided = await at.opened.agent.call({ session_id: 's', tool: 'void_credit', arguments: { receipt_id } });
    expect(voided).toMatchObject({ http: 200, disposition: 'executed', verified: true, result: { receipt_id, voided: true, amount: 700 } });
  });
});
