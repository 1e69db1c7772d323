import { describe, expect, it } from 'vitest';
import { until } from '../recovery/process.js';
import { retailGateway, unique } from '../support/gateway.js';

/**
 * A client that hangs up after the send ends its own wait and nothing else (case-56): the work goes on, once, and its result is there to be asked
 * for. If this is lost, an impatient client leaves effects that nobody is told of.
 */
describe('clients that hang up', () => {
  const at = retailGateway();

  it('the call goes on, is one effect, and its result is found by its operation and by the same call again; it is too late to cancel it', async () => {
    await at.house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 1_000 });
    const body = { session_id: unique('s'), call_id: 'c-1', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 2500, currency: 'GBP' } };
    const gone = new AbortController();
    const call = fetch(`${at.opened.agent.url}/v1/calls`, {
      method: 'POST', signal: gone.signal, body: JSON.stringify(body), headers: { authorization: `Bearer ${at.opened.agent.key}`, 'content-type': 'application/json' },
    });
    await until(async () => (await at.house.shop.books()).credits.length === 1, 10_000);
    gone.abort();
    await expect(call).rejects.toThrow();
    const key = (await at.house.shop.books()).credits[0]?.key as string;
    expect(await at.opened.agent.post(`/v1/operations/${key}/cancel`, '')).toMatchObject({ http: 409, code: 'TOO_LATE' });
    const found = await at.opened.agent.settled(key);
    expect(found).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
    expect(await at.opened.agent.call(body)).toMatchObject({ disposition: 'replayed', operation_id: key, result: found.result });
    expect((await at.house.shop.books()).credits).toHaveLength(1);
  });

  it('a result that is posted for a call nobody proposed is for no path, and stored nowhere (case-21)', async () => {
    const receipts = async (): Promise<unknown> => (await at.opened.control().get('/v1/receipts?limit=1') as unknown as { items: { id: string }[] }).items[0]?.id;
    const before = await receipts();
    for (const path of ['/v1/calls/zzz/result', '/v1/operations/zzz/result', '/v1/operations/zzz']) {
      expect(await at.opened.agent.post(path, JSON.stringify({ call_id: 'zzz', content: 'done' }))).toMatchObject({ http: 404, code: 'ROUTE_NOT_FOUND' });
    }
    expect(await at.opened.agent.post('/v1/operations/zzz/cancel', '')).toMatchObject({ http: 404, code: 'OPERATION_NOT_FOUND' });
    expect(await receipts()).toBe(before);
  });
});
