import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { until } from './process.js';
import { quickContracts, quickEnv } from './quick.js';

/**
 * A service that accepts a call, refuses it afterwards and tells nobody: nothing is there to be read back, for as long as the contract allows. If this is
 * lost, the call is pending for ever, and with it every other call to its order.
 */
describe('accepted, then refused without a word', () => {
  let house: House;
  let open: Opened;
  beforeAll(async () => {
    house = await openHouse(quickEnv({ CALLGATE_CONTRACTS_FOLDER: quickContracts([['deadline: 1h', 'deadline: 5s']]) }));
    open = await openGateway(house);
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
  });

  it('is asked for under its key after the deadline, told as it was refused, and frees its order and its identity', async () => {
    const session = unique('s');
    const credit = (id: string) => open.agent.credit({ session_id: session, call_id: id });
    const route = 'POST /orders/{id}/credits';
    const earlier = await open.agent.credit({ session_id: unique('before'), call_id: 'c-0', arguments: { amount: 100 } });
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 4_000 });
    const waiting = credit('c-1');
    await until(async () => (await house.shop.books()).requests[route] === 2, 20_000);
    // A void has no part in the order's turn, and moves its version on.
    const { receipt_id } = earlier.result as { receipt_id: string };
    expect(await open.agent.call({ session_id: unique('v'), call_id: 'v-1', tool: 'void_credit', arguments: { receipt_id } })).toMatchObject({ disposition: 'executed' });

    const answer = await waiting;
    const ended = ['pending', 'unknown'].includes(answer.disposition) ? await open.agent.settled(answer.operation_id as string, 20_000) : answer;
    expect(ended).toMatchObject({ disposition: 'version_conflict', code: 'ORDER_CHANGED', next_action: 'refresh', outcome: 'rejected', evidence_of_change: false });
    const { credits, requests } = await house.shop.books();
    expect(credits.map(({ amount }) => amount)).toEqual([100]);
    expect(requests[route]).toBe(3);
    expect(await credit('c-2')).toMatchObject({ disposition: 'executed', outcome: 'committed' });
  });
});
