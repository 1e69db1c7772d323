import { describe, expect, it } from 'vitest';
import { naiveRefund } from '../../examples/retail/naive-client.js';
import { retail, token } from './retail.js';

const shop = retail();
const refund = { orderId: 'O-417', amount: 2_500, customerId: 'C-17', timeoutMs: 500 };

describe('the naive client, the negative control of the demonstration', () => {
  it('pays once on a good day', async () => {
    expect(await naiveRefund(shop.url, token, refund)).toMatchObject([{ plan: 1, saw: 'answer', status: 201 }]);
    expect((await shop.books()).credits).toHaveLength(1);
  });

  it.each([
    [{ kind: 'commit_then_drop' }, 'the connection failed before a whole answer came'],
    [{ kind: 'slow_reply', ms: 5_000 }, 'nothing came within 500 ms'],
  ])('pays twice when the answer to the first credit is lost: %o', async (fault, reason) => {
    await shop.arm({ tool: 'issue_credit', ...fault });
    const log = await naiveRefund(shop.url, token, refund);
    expect(log).toMatchObject([{ plan: 1, saw: 'no answer', reason }, { plan: 2, saw: 'answer', status: 201 }]);
    const { credits } = await shop.books();
    expect(credits.map(({ key, amount }) => [key, amount])).toEqual(log.map(({ key }) => [key, 2_500]));
    expect(credits[0]?.key).not.toBe(credits[1]?.key);
  });

  it('gives up after its plans, and does not plan again after a refusal', async () => {
    await shop.arm({ tool: 'issue_credit', kind: 'drop_before_commit', times: 3 });
    expect(await naiveRefund(shop.url, token, refund)).toHaveLength(3);
    expect(await naiveRefund(shop.url, token, { ...refund, amount: 5_001 })).toMatchObject([{ saw: 'answer', status: 422 }]);
  });
});
