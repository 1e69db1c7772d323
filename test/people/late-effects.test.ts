import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Joints } from '../../src/main.js';
import { until } from '../recovery/process.js';
import { quickEnv } from '../recovery/quick.js';
import { type Checkout, checkoutFolder, openCheckout } from '../support/checkout.js';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { decideNow, reviewOf } from './reviews.js';

/**
 * What had counted as not done and was done after all, as a person finds out, has happened for the states that the gateway keeps as well. If
 * this is lost, an order that is paid is offered to be paid again, because nothing but the gateway knows its state.
 */
describe('a late effect that only a person can tell of', () => {
  let house: House;
  let checkout: Checkout;
  let open: Opened;
  let database: pg.Client;
  let letGo: () => void = () => undefined;
  let held: Promise<void> | null = null;
  /** A process that stands still between its check of the fence and the socket; the answer then says no more than that it was accepted. */
  const joints: Joints = {
    upstream: (upstream) => ({
      async send(request, options) {
        if (request.method !== 'POST' || !held) return upstream.send(request, options);
        await held;
        held = null;
        const { sendBefore: _, ...rest } = options;
        const exchange = await upstream.send(request, rest);
        return exchange.kind === 'response' ? { ...exchange, status: 202 } : exchange;
      },
      close: () => upstream.close(),
    }),
  };
  beforeAll(async () => {
    checkout = await openCheckout();
    process.env['CHECKOUT_URL'] = checkout.url;
    house = await openHouse(quickEnv({ CALLGATE_CONTRACTS_FOLDER: checkoutFolder(['retry: { attempts: 3, elapsed: 20s }', 'retry: { attempts: 1, elapsed: 20s }']), CHECKOUT_URL: checkout.url }));
    open = await openGateway(house, {}, joints);
    database = new pg.Client({ connectionString: house.databaseUrl });
    await database.connect();
  });
  beforeEach(() => { held = null; });
  afterAll(async () => {
    await database.end();
    await open.gateway.close();
    await Promise.all([checkout.close(), house.close()]);
  });

  const call = (agent: Agent, session: string, tool: string, order: string, prefer = 'wait=10'): Promise<Sent> =>
    agent.call({ session_id: session, call_id: unique('c'), tool, arguments: { order_id: order, ...(tool === 'create_transaction' ? { amount: 7 } : {}) } }, { prefer });
  const stateOf = async (session: string, order: string): Promise<string | undefined> => (await call(open.agent, session, 'quote_fee', order)).states[`transaction:${order}`];

  /** Called absent, then accepted by the service, which tells nothing of what it does. */
  async function contradicted(): Promise<{ session: string; order: string; operation: string; review: string }> {
    const [session, order] = [unique('s'), unique('k').slice(0, 20)];
    held = new Promise<void>((resolve) => { letGo = resolve; });
    const pending = call(open.agent, session, 'create_transaction', order, 'wait=30');
    const row = async (): Promise<{ operation_id: string; state: string; review_id: string } | undefined> =>
      (await database.query(`select operation_id, state, review_id from operations where session_id = $1 and tool = 'create_transaction'`, [session])).rows[0];
    await until(async () => (await row()) !== undefined, 10_000);
    await database.query('update operations set due_at = now() where session_id = $1', [session]);
    await until(async () => (await row())?.state === 'rejected', 15_000);
    expect(await stateOf(session, order)).toBe('NEW');
    letGo();
    await pending;
    await until(async () => (await row())?.state === 'review', 10_000);
    const { operation_id: operation, review_id: review } = (await row()) as { operation_id: string; review_id: string };
    return { session, order, operation, review };
  }

  it('committed by a person moves the state that the gateway keeps, and what rests on the result can go on', async () => {
    const { session, order, operation, review } = await contradicted();
    expect(await stateOf(session, order)).toBe('NEW');
    const desk = open.control(house.keys.reviewer);
    expect(await reviewOf(desk, review)).toMatchObject({ reason: 'CONTRADICTED', options: { committed: { possible: true }, abandon: { possible: false } } });
    const [effect] = checkout.effects.filter((each) => each.order === order);
    expect(await decideNow(desk, review, { decision: 'committed', result: { transaction_id: effect?.transaction } })).toMatchObject({ http: 200, state: 'decided' });
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'executed', outcome: 'committed', result: { transaction_id: effect?.transaction } });
    expect(await stateOf(session, order)).toBe('CREATED');
    expect(await call(open.agent, session, 'create_transaction', order)).toMatchObject({ disposition: 'replayed', operation_id: operation });
    expect(await call(open.agent, session, 'charge_payment', order)).toMatchObject({ disposition: 'executed' });
    expect(checkout.effects.filter((each) => each.order === order).map(({ tool }) => tool)).toEqual(['create_transaction', 'charge_payment']);
  });

  it('not a state that has moved on since', async () => {
    const { session, order, review } = await contradicted();
    await database.query(`insert into entity_states (tenant, service, entity, state) values ('acme', 'checkout', $1, 'CHARGED')`, [`transaction:${order}`]);
    expect(await decideNow(open.control(house.keys.reviewer), review, { decision: 'committed' })).toMatchObject({ http: 200 });
    expect(await stateOf(session, order)).toBe('CHARGED');
  });

  it('nobody claims the entity who has decided on the state of before', async () => {
    const { order, review } = await contradicted();
    const epoch = async (): Promise<number> => Number((await database.query('select epoch from guards where guard_key = $1', [`transaction:${order}`])).rows[0]?.epoch);
    const before = await epoch();
    expect(await decideNow(open.control(house.keys.reviewer), review, { decision: 'committed' })).toMatchObject({ http: 200 });
    expect(await epoch()).toBe(before + 1);
    const { rows } = await database.query('select operation_id from guards where guard_key = $1', [`transaction:${order}`]);
    expect(rows).toEqual([{ operation_id: null }]);
  });
});
