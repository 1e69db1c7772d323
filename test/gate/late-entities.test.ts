/**
 * An entity whose id is told by an observation. If its guard key were looked up after what the decision rests on was observed, two orders of
 * one customer would spend the same gift card; if it were not taken at all, nothing would hold it.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { openWarehouse, type Warehouse, warehouseFolder } from '../contract/warehouse.js';

let house: House;
let warehouse: Warehouse;
let here: Opened;
let there: Opened;
let database: pg.Pool;

const observed = 'observe: { tool: get_user, args: { user_id: order.user_id }, max_age: 5s }';

beforeAll(async () => {
  warehouse = await openWarehouse();
  process.env['WAREHOUSE_URL'] = warehouse.url;
  const folder = warehouseFolder(
    ['tools:\n  get_order:', `  customer:\n    id: order.user_id\n    ${observed}\ntools:\n  get_order:`],
    ['    entity: order\n    purpose: Exchange', '    entity: order\n    touches: [customer]\n    purpose: Exchange'],
    ['        order_id: { type: string }\n        user_id: { type: string }', '        order_id: { type: string }\n        user_id: { type: [string, "null"] }'],
    ['args.payment_method_id in user.payment_methods', 'args.payment_method_id in customer.payment_methods'],
  );
  house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: folder, WAREHOUSE_URL: warehouse.url });
  [here, there] = [await openGateway(house), await openGateway(house)];
  database = new pg.Pool({ connectionString: house.databaseUrl, max: 1 });
  warehouse.products['p'] = { product_id: 'p', variants: { new: { available: true, price: 5 } } };
  warehouse.users['ada'] = { user_id: 'ada', payment_methods: { card: { source: 'gift_card', balance: 9 } } };
});
afterAll(async () => {
  await Promise.all([here?.gateway.close(), there?.gateway.close(), database?.end()]);
  await warehouse.close();
  await house.close();
});

function order(user_id: string | null = 'ada'): string {
  const order_id = unique('w').slice(0, 20);
  warehouse.orders[order_id] = { order_id, user_id: user_id as string, status: 'delivered', items: [{ item_id: 'old', product_id: 'p', price: 3 }] };
  return order_id;
}

const exchange = (order_id: string, on = here): Promise<Sent> => on.agent.call({
  session_id: unique('s'), tool: 'exchange_items', arguments: { order_id, item_ids: ['old'], new_item_ids: ['new'], payment_method_id: 'card' },
});

describe('an entity that is known by an observation', () => {
  it('is observed after what tells it, and its guard key is held like that of the call’s own', async () => {
    const id = order();
    warehouse.asked.length = 0;
    expect(await exchange(id)).toMatchObject({ disposition: 'executed' });
    expect(warehouse.asked.indexOf(`GET /orders/${id}`)).toBeLessThan(warehouse.asked.indexOf('GET /users/ada'));
    const { rows } = await database.query<{ guard_key: string; operation_id: string | null }>('select guard_key, operation_id from guards where guard_key = any ($1)', [[`order:${id}`, 'customer:ada']]);
    expect(rows.map(({ guard_key }) => guard_key).sort()).toEqual(['customer:ada', `order:${id}`].sort());
    expect(rows.every(({ operation_id }) => operation_id === null)).toBe(true);
  });

  it('is never written by two calls at once, from whichever order and replica they come', async () => {
    const orders = Array.from({ length: 6 }, () => order());
    let open = 0;
    let most = 0;
    const timer = setInterval(() => {
      void database.query<{ n: number }>("select count(*)::integer as n from operations where tool = 'exchange_items' and state = 'sending'").then(({ rows }) => { most = Math.max(most, rows[0]?.n ?? 0); open++; }, () => undefined);
    }, 10);
    warehouse.delayMs = 20;
    const answers = await Promise.all(orders.map((id, n) => exchange(id, n % 2 === 0 ? here : there)));
    clearInterval(timer);
    warehouse.delayMs = 0;
    expect(answers.map(({ disposition }) => disposition)).toEqual(orders.map(() => 'executed'));
    expect(open).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(1);
  });

  it('that is held by another call makes this one wait, and says nothing of that one', async () => {
    const id = order();
    await database.query("insert into guards (tenant, guard_key, operation_id, write_id) values ('acme', 'customer:ada', 'op_other', gen_random_uuid()) on conflict (tenant, guard_key) do update set operation_id = 'op_other', epoch = guards.epoch + 1");
    const waiting = await here.agent.call({
      session_id: unique('s'), tool: 'exchange_items', arguments: { order_id: id, item_ids: ['old'], new_item_ids: ['new'], payment_method_id: 'card' },
    }, { prefer: 'wait=1' });
    expect(waiting).toMatchObject({ disposition: 'in_progress', next_action: 'wait', operation_id: null });
    await database.query("update guards set operation_id = null where guard_key = 'customer:ada'");
    expect(await exchange(id)).toMatchObject({ disposition: 'executed' });
  });

  it('refuses the call when its id is null, and nothing is written', async () => {
    const id = order(null);
    warehouse.asked.length = 0;
    expect(await exchange(id)).toMatchObject({ disposition: 'precondition_failed', code: 'PREDICATE_ERROR' });
    expect(warehouse.asked.filter((asked) => asked.startsWith('POST'))).toEqual([]);
  });
});
