/**
 * A decision may rest on several resources, each found through another. Over real sockets: what is read, how often, how many at once,
 * and what a call is told when the world does not allow it.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { type House, type Opened, openGateway, openHouse, type Sent, unique } from '../support/gateway.js';
import { catalogueOf } from './fixture.js';
import { openWarehouse, type Warehouse, warehouseFolder } from './warehouse.js';

let warehouse: Warehouse;
let house: House;
let open: Opened;

beforeAll(async () => {
  warehouse = await openWarehouse();
  process.env['WAREHOUSE_URL'] = warehouse.url;
  house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: warehouseFolder() });
  open = await openGateway(house);
});
afterAll(async () => {
  await open?.gateway.close();
  await house?.close();
  await warehouse?.close();
});
beforeEach(() => {
  const item = (n: number) => ({ item_id: `i${n}`, product_id: `p${Math.ceil(n / 2)}`, price: 100 * n });
  Object.assign(warehouse, {
    orders: { 'W-1': { order_id: 'W-1', user_id: 'u1', status: 'delivered', items: Array.from({ length: 20 }, (_, n) => item(n + 1)) } },
    products: Object.fromEntries(
      Array.from({ length: 10 }, (_, n) => [`p${n + 1}`, { product_id: `p${n + 1}`, variants: { [`v${n + 1}`]: { available: n !== 4, price: 250 } } }]),
    ),
    users: { u1: { user_id: 'u1', payment_methods: { card: { source: 'credit_card' }, gift: { source: 'gift_card', balance: 149 } } } },
    asked: [],
    most: 0,
    delayMs: 0,
  });
});

const exchange = (change: object = {}, at = open): Promise<Sent> =>
  at.agent.call({
    session_id: unique('s'),
    tool: 'exchange_items',
    arguments: { order_id: 'W-1', item_ids: ['i1', 'i3'], new_item_ids: ['v1', 'v2'], payment_method_id: 'card', ...change },
  });
const reads = (): string[] => warehouse.asked.filter((path) => path.startsWith('GET'));

describe('one read for each element', () => {
  test('each product of the order is read once, however many items refer to it, and the write goes out once', async () => {
    const answer = await exchange();
    expect(answer).toMatchObject({ http: 200, disposition: 'executed', result: { status: 'exchange_requested' } });
    const products = reads().filter((path) => path.includes('/products/'));
    expect(products.sort()).toEqual(Array.from({ length: 10 }, (_, n) => `GET /products/p${n + 1}`).sort());
    expect(warehouse.asked.filter((path) => path.startsWith('POST'))).toHaveLength(1);
  });

  test('what rests on another observation is asked after it, with what was seen there', async () => {
    await exchange();
    expect(reads()[0]).toBe('GET /orders/W-1');
    expect(reads()).toContain('GET /users/u1');
  });

  test('four reads of one call at once, neither one after another nor all together', async () => {
    warehouse.delayMs = 20;
    await exchange();
    expect(warehouse.most).toBe(4);
  });

  test('what is not found is not in the map, and a check that needs it cannot be taken for true', async () => {
    delete warehouse.products['p1'];
    expect(await exchange()).toMatchObject({ disposition: 'precondition_failed', code: 'PREDICATE_ERROR' });
    expect(warehouse.asked.some((path) => path.startsWith('POST'))).toBe(false);
  });

  test('a source that fails refuses the call and is not asked for the rest', async () => {
    const broken = warehouse.products as Record<string, unknown>;
    for (const id of Object.keys(broken)) broken[id] = { product_id: id };
    expect(await exchange()).toMatchObject({ http: 502, code: 'OBSERVATION_FAILED' });
    expect(new Set(reads().filter((path) => path.includes('/products/'))).size).toBeLessThanOrEqual(4);
  });
});

describe('preconditions over several resources', () => {
  test.each([
    ['LENGTHS_DIFFER', { new_item_ids: ['v1'] }, 'invalid_arguments'],
    ['SAME_ITEM', { new_item_ids: ['i1', 'v2'] }, 'invalid_arguments'],
    ['ITEM_NOT_IN_ORDER', { item_ids: ['i1', 'i1'] }, 'precondition_failed'],
    ['ITEM_NOT_IN_ORDER', { item_ids: ['i1', 'i99'] }, 'precondition_failed'],
    ['VARIANT_NOT_AVAILABLE', { new_item_ids: ['v1', 'v1'] }, 'precondition_failed'],
    ['VARIANT_NOT_AVAILABLE', { item_ids: ['i9'], new_item_ids: ['v5'] }, 'precondition_failed'],
    ['PAYMENT_METHOD_UNKNOWN', { payment_method_id: 'stolen' }, 'precondition_failed'],
  ])('%s for %j, and nothing is written', async (code, change, disposition) => {
    const answer = await exchange(change);
    expect(answer.disposition).toBe(disposition);
    expect(JSON.stringify(answer)).toContain(code);
    expect(warehouse.asked.some((path) => path.startsWith('POST'))).toBe(false);
  });

  test('a gift card covers the difference to the last unit', async () => {
    const one = { item_ids: ['i1'], new_item_ids: ['v1'], payment_method_id: 'gift' };
    expect(await exchange(one)).toMatchObject({ code: 'GIFT_CARD_TOO_SMALL', next_action: 'ask' });
    warehouse.users['u1']!.payment_methods['gift']!.balance = 150;
    expect((await exchange(one)).disposition).toBe('executed');
  });
});

describe('the bound', () => {
  test('a list longer than `max` refuses the call before any of its elements is read', async () => {
    const max = warehouseFolder(['as: id }', 'as: id, max: 9 }']);
    const other = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: max });
    try {
      expect(await exchange({}, other)).toMatchObject({ disposition: 'precondition_failed', code: 'PREDICATE_ERROR' });
      expect(reads().filter((path) => path.includes('/products/'))).toEqual([]);
    } finally {
      await other.gateway.close();
    }
  });

  test.each([
    ['no bound at all', [['maxItems: 30\n          items:\n            type: object', 'items:\n            type: object']], 'CG113'],
    ['a bound beyond what one decision may read', [['maxItems: 30', 'maxItems: 101']], 'CG113'],
    ['a list of objects', [['"order.items.map(item, item.product_id)"', 'order.items']], 'CG102'],
    ['an element with a name that is taken', [['as: id }', 'as: order }']], 'CG613'],
    ['a version of several', [['args: { product_id: id }', 'version: headers.etag\n        args: { product_id: id }']], 'CG113'],
    ['two that wait for each other', [['user_id: order.user_id }', 'user_id: product.p1.product_id }'], ['order.items.map(item, item.product_id)', '[user.user_id]']], 'CG101'],
  ] as [string, [string, string][], string][])('%s does not compile', (_, changes, code) => {
    const result = compileFolder(warehouseFolder(...changes), {});
    expect('diagnostics' in result && result.diagnostics.map((one) => one.code)).toContain(code);
  });

  test('the order in which observations are written means nothing', () => {
    const plan = (folder: string) => catalogueOf(compileFolder(folder, {})).tools.get('exchange_items')!;
    const user = '      user: { tool: get_user, args: { user_id: order.user_id }, max_age: 5s }\n';
    const last = plan(warehouseFolder([user, ''], ['    let:\n', `${user}    let:\n`]));
    expect(last.digest).toBe(plan(warehouseFolder()).digest);
    expect(last.observations.map(({ name }) => name)).toEqual(plan(warehouseFolder()).observations.map(({ name }) => name));
  });
});
