import { afterAll, beforeAll, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { type Checkout, checkoutFolder, openCheckout } from '../support/checkout.js';
import { BatchAgent, type Call, dispositions } from './till/house.js';

/**
 * A turn over an entity whose state only the gateway knows, with values that one call takes from the result of another of the same turn. The
 * service would charge whatever it is told to, so an order that is worked out wrongly, or a value that is bound too early, is money.
 */
let house: House;
let open: Opened;
let agent: BatchAgent;
let checkout: Checkout;
beforeAll(async () => {
  checkout = await openCheckout();
  house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: checkoutFolder() });
  process.env['CHECKOUT_URL'] = checkout.url;
  open = await openGateway(house);
  agent = new BatchAgent(open.gateway.agentUrl, house.keys.agent);
});
afterAll(async () => {
  await open.gateway.close();
  await house.close();
  await checkout.close();
});

const call = (tool: string, order: string, more: object = {}): Call => ({ call_id: unique(tool), tool, arguments: { order_id: order, ...more } });
const create = (order: string): Call => call('create_transaction', order, { amount: 100 });
const done = (order: string): string[] => checkout.effects.filter((effect) => effect.order === order).map(({ tool }) => tool);

it('create_transaction and charge_payment the wrong way round: right way round, and the charge is of the transaction that this turn made', async () => {
  const order = unique('o');
  const session = unique('s');
  const calls = [call('charge_payment', order), create(order), call('quote_fee', order)];
  const answered = await agent.batch(calls, { session_id: session });
  expect(dispositions(answered)).toEqual(['executed', 'executed', 'executed']);
  expect(done(order)).toEqual(['create_transaction', 'charge_payment']);
  const effects = checkout.effects.filter((effect) => effect.order === order);
  expect(effects[1]?.transaction).toBe(effects[0]?.transaction);
  expect(answered.results[0]?.states).toEqual({ [`transaction:${order}`]: 'CHARGED' });
  expect(dispositions(await agent.batch(calls, { session_id: session }))).toEqual(['replayed', 'replayed', 'replayed']);
  expect(done(order)).toHaveLength(2);
});

it('with a cancel in between the illegal one is refused with what is legal, and nothing is charged', async () => {
  const order = unique('o');
  const answered = await agent.batch([create(order), call('cancel', order), call('charge_payment', order)]);
  expect(dispositions(answered)).toEqual(['executed', 'executed', 'TRANSITION_ERROR']);
  expect(answered.results[2]?.states).toEqual({ [`transaction:${order}`]: 'CANCELLED' });
  expect(done(order)).toEqual(['create_transaction', 'cancel']);
});

it('a create that is refused leaves a charge that is not legal, and none that rests on an older transaction', async () => {
  const order = unique('o');
  checkout.faults.push({ tool: 'create_transaction', fault: 'refuse' });
  const answered = await agent.batch([create(order), call('charge_payment', order)]);
  expect(answered.results.map(({ disposition }) => disposition)).toEqual(['rejected', 'precondition_failed']);
  expect(answered.results[1]?.code).toBe('PREDECESSOR_FAILED');
  expect(done(order)).toEqual([]);
});

it('a create whose answer was lost is read back first, then charged once', async () => {
  const order = unique('o');
  checkout.faults.push({ tool: 'create_transaction', fault: 'commit_then_drop' });
  expect(dispositions(await agent.batch([call('charge_payment', order), create(order)]))).toEqual(['executed', 'executed']);
  expect(done(order)).toEqual(['create_transaction', 'charge_payment']);
});
