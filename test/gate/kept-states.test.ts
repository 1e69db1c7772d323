/**
 * States that nothing at the upstream shows: the service charges whatever it is told to, as often as it is told. If the gateway loses count
 * of what it did, or counts what did not happen, a customer pays twice or is never charged.
 */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { type Checkout, checkoutFolder, type CheckoutTool, openCheckout } from '../support/checkout.js';

let house: House;
let checkout: Checkout;
let here: Opened;
let there: Opened;
let database: pg.Pool;

beforeAll(async () => {
  checkout = await openCheckout();
  process.env['CHECKOUT_URL'] = checkout.url;
  house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: checkoutFolder(), CHECKOUT_URL: checkout.url, CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms' });
  [here, there] = [await openGateway(house), await openGateway(house)];
  database = new pg.Pool({ connectionString: house.databaseUrl, max: 1 });
});
afterAll(async () => {
  await Promise.all([here?.gateway.close(), there?.gateway.close(), database?.end()]);
  await checkout.close();
  await house.close();
});
beforeEach(() => { checkout.faults.length = 0; });

interface Customer { order: string; session: string; call(tool: string, on?: Agent, more?: object): Promise<Sent> }

function customer(session = unique('s')): Customer {
  const order = unique('O').slice(0, 20);
  return {
    order, session,
    call: (tool, on = here.agent, more = {}) => on.call({
      session_id: session, tool, arguments: { order_id: order, ...(tool === 'create_transaction' ? { amount: 100 } : {}) }, ...more,
    }),
  };
}

const effectsOn = (order: string): CheckoutTool[] => checkout.effects.filter((effect) => effect.order === order).map(({ tool }) => tool);
const key = ({ order }: Customer): string => `transaction:${order}`;

describe('a state kept by the gateway', () => {
  it('begins where the contract says, is moved by what committed, and is told in answers, refusals and reads', async () => {
    const one = customer();
    const { call } = one;
    expect(await call('charge_payment')).toMatchObject({ disposition: 'transition_error', states: { [key(one)]: 'NEW' }, legal_actions: ['create_transaction'] });
    expect(await call('quote_fee')).toMatchObject({ disposition: 'executed', result: { fee: 30 }, states: { [key(one)]: 'NEW' }, legal_actions: ['create_transaction'] });
    expect(await call('create_transaction')).toMatchObject({
      disposition: 'executed', verified: true, states: { [key(one)]: 'CREATED' }, legal_actions: ['charge_payment', 'cancel'],
    });
    expect(await call('charge_payment', there.agent)).toMatchObject({ disposition: 'executed', states: { [key(one)]: 'CHARGED' }, legal_actions: [] });
    const refused = await call('cancel', there.agent);
    expect(refused).toMatchObject({ disposition: 'transition_error', code: 'TRANSITION_ERROR', states: { [key(one)]: 'CHARGED' }, legal_actions: [] });
    expect(await call('quote_fee', there.agent)).toMatchObject({ states: { [key(one)]: 'CHARGED' } });
    expect(effectsOn(one.order)).toEqual(['create_transaction', 'charge_payment']);
    expect(new Set(checkout.effects.filter((effect) => effect.order === one.order).map(({ transaction }) => transaction)).size).toBe(1);
    const { rows } = await database.query<{ state: string; version: string | null }>('select state, version from session_entities where session_id = $1 and entity = $2', [one.session, key(one)]);
    expect(rows).toEqual([{ state: 'CHARGED', version: null }]);
  });

  it('is of its entity for every session and person of the tenant, and of nobody else’s', async () => {
    const { order, call } = customer();
    await call('create_transaction');
    const args = { tool: 'create_transaction', arguments: { order_id: order, amount: 5 } };
    expect(await here.as(house.keys.otherAgent).call({ session_id: unique('s'), ...args })).toMatchObject({ disposition: 'transition_error' });
    expect(await here.as(house.keys.otherTenant).call({ session_id: unique('s'), ...args })).toMatchObject({ disposition: 'executed' });
  });

  it('is moved by an effect that was found afterwards, and not by one that was refused or never happened', async () => {
    const one = customer();
    checkout.faults.push({ tool: 'create_transaction', fault: 'refuse' });
    expect(await one.call('create_transaction')).toMatchObject({ disposition: 'rejected' });
    expect(await one.call('quote_fee')).toMatchObject({ states: { [key(one)]: 'NEW' } });
    checkout.faults.push({ tool: 'create_transaction', fault: 'commit_then_drop' });
    const created = await one.call('create_transaction');
    expect(await here.agent.settled(created.operation_id as string)).toMatchObject({ outcome: 'committed', states: { [key(one)]: 'CREATED' } });
    checkout.faults.push({ tool: 'charge_payment', fault: 'drop_before_commit' });
    const charged = await one.call('charge_payment', there.agent);
    expect(await here.agent.settled(charged.operation_id as string)).toMatchObject({ outcome: 'committed', states: { [key(one)]: 'CHARGED' } });
    expect(effectsOn(one.order)).toEqual(['create_transaction', 'charge_payment']);
  });

  it('lets one of many calls at once on two replicas through, whatever they are', async () => {
    const one = customer();
    await one.call('create_transaction');
    const calls = Array.from({ length: 12 }, (_, n) => one.call(n % 2 === 0 ? 'charge_payment' : 'cancel', n % 3 === 0 ? here.agent : there.agent, { intent_id: unique('i') }));
    const answers = await Promise.all(calls);
    expect(answers.filter(({ disposition }) => disposition === 'executed')).toHaveLength(1);
    expect(answers.filter(({ disposition }) => disposition === 'transition_error')).toHaveLength(11);
    expect(effectsOn(one.order)).toHaveLength(2);
  });
});

describe('a turn whose values come from each other', () => {
  const turn = async ({ session, order }: Customer, tools: CheckoutTool[], on = here.agent): Promise<Sent[]> => {
    const calls = tools.map((tool) => ({ call_id: unique('c'), tool, arguments: { order_id: order, ...(tool === 'create_transaction' ? { amount: 100 } : {}) } }));
    return ((await on.post('/v1/batches', JSON.stringify({ session_id: session, calls }))) as unknown as { results: Sent[] }).results;
  };

  it('wrong way round: both run, right way round, one charge, of the transaction that was just created', async () => {
    const one = customer();
    expect((await turn(one, ['charge_payment', 'create_transaction'])).map(({ disposition }) => disposition)).toEqual(['executed', 'executed']);
    expect(effectsOn(one.order)).toEqual(['create_transaction', 'charge_payment']);
  });

  it('with a cancellation in between: the illegal one is refused, nothing is charged', async () => {
    const one = customer();
    const answers = await turn(one, ['create_transaction', 'cancel', 'charge_payment'], there.agent);
    expect(answers.map(({ disposition }) => disposition)).toEqual(['executed', 'executed', 'transition_error']);
    expect(effectsOn(one.order)).toEqual(['create_transaction', 'cancel']);
  });
});

describe('what a later call takes from an earlier result', () => {
  it('is no part of what makes two calls equal: the same call is a replay after the result has changed', async () => {
    const one = customer();
    await one.call('create_transaction');
    const first = await one.call('cancel', here.agent, { call_id: 'c-1' });
    await database.query('delete from session_results where session_id = $1', [one.session]);
    expect(await one.call('cancel', there.agent, { call_id: 'c-1' })).toMatchObject({ disposition: 'replayed', result: first.result });
  });

  it('is the result of this session, this person and this entity, and of no other', async () => {
    const one = customer();
    await one.call('create_transaction');
    const args = { tool: 'charge_payment', arguments: { order_id: one.order } };
    const missing = { disposition: 'precondition_failed', code: 'EARLIER_RESULT_MISSING' };
    expect(await here.agent.call({ session_id: unique('s'), ...args })).toMatchObject({ ...missing, next_action: 'refresh', legal_actions: ['create_transaction'] });
    expect(await here.as(house.keys.otherSubject).call({ session_id: one.session, ...args })).toMatchObject(missing);
    expect(await here.as(house.keys.otherAgent).call({ session_id: one.session, ...args })).toMatchObject(missing);
    expect(await customer(one.session).call('charge_payment')).toMatchObject({ disposition: 'transition_error' });
    expect(effectsOn(one.order)).toEqual(['create_transaction']);
  });

  it('that has passed its retention refuses, and does not ask for the effect again', async () => {
    const one = customer();
    const created = await one.call('create_transaction');
    await database.query('update operations set sealed_answer = null where operation_id = $1', [created.operation_id]);
    expect(await one.call('charge_payment')).toMatchObject({ disposition: 'precondition_failed', code: 'EARLIER_RESULT_EXPIRED', next_action: 'escalate' });
    expect(effectsOn(one.order)).toEqual(['create_transaction']);
  });
});
