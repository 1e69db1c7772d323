import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type House, openGateway, openHouse, type Opened, token, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { spawnFused } from './process.js';
import { quickContracts, quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * A service that never shows whose key an effect had can still be read back, by what was seen of the entity before the call (semantics.md section
 * 4). If what is compared with were read again afterwards, or lost with the process, an effect would be taken for absent and made twice.
 */
describe('a read-back that compares with what was observed before the call', () => {
  let house: House;
  let open: Opened;
  let n = 0;
  /** What happens before the gateway's next exchange. */
  let before: (method: string) => Promise<void> = async () => undefined;
  const contracts = quickContracts([
    ['tool: get_credit_receipt\n      args: { request_key: operation.id }\n      committed: result.count == 1 && result.amount == args.amount\n      absent: result.count == 0\n      result: result.receipt # the answer to give, checked against this tool\'s result schema',
      'tool: get_order\n      args: { order_id: args.order_id }\n      committed: result.refundable == order.refundable - args.amount\n      absent: result.refundable == order.refundable'],
  ]);
  beforeAll(async () => {
    house = await openHouse(quickEnv({ CALLGATE_CONTRACTS_FOLDER: contracts }));
    open = await openGateway(house, {}, { upstream: (sender) => ({ ...sender, send: async (request, options) => {
      await before(request.method);
      return sender.send(request, options);
    } }) });
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
  });

  const next = (): { order: string; body: object } => {
    const order = extraOrder(n++);
    return { order, body: { session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order } } };
  };
  const creditsOf = async (order: string): Promise<number[]> => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order).map(({ amount }) => amount);
  const outsideCredit = (order: string): Promise<Response> => fetch(`${house.shop.url}/orders/${order}/credits`, {
    method: 'POST', body: JSON.stringify({ amount: 1, currency: 'GBP', customer_id: 'C-17' }),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': unique('outside') },
  });
  const settled = async (body: object): Promise<Awaited<ReturnType<Opened['agent']['settled']>>> => open.agent.settled((await open.agent.credit({ ...body })).operation_id as string);

  it('finds an effect whose answer was lost', async () => {
    const { order, body } = next();
    await house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    expect(await settled(body)).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
    expect(await creditsOf(order)).toEqual([2500]);
  });

  it('finds that there is none, once the window has passed, and the call is sent again', async () => {
    const { order, body } = next();
    await house.shop.fault({ tool: 'issue_credit', kind: 'drop_before_commit' });
    expect(await settled(body)).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
    expect(await creditsOf(order)).toEqual([2500]);
  });

  it('calls neither what somebody else has changed besides: a person decides', async () => {
    const { order, body } = next();
    await house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    before = async (method) => {
      if (method === 'GET' && (await creditsOf(order)).length === 1) expect((await outsideCredit(order)).status).toBe(201);
    };
    expect(await settled(body)).toMatchObject({ disposition: 'review' });
    before = async () => undefined;
    expect(await creditsOf(order)).toEqual([2500, 1]);
  });

  it('compares with the same after a kill: it was stored with the intent', async () => {
    const { order, body } = next();
    const dying = await spawnFused(house, 'after_exchange');
    await expect(dying.agent.credit({ ...body })).rejects.toThrow();
    await dying.ended;
    expect(await creditsOf(order)).toEqual([2500]);
    expect(await settled(body)).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
    expect(await creditsOf(order)).toEqual([2500]);
  });
});
