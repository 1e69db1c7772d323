/**
 * Which entity a call is about decides which calls wait for each other and which table judges them. An id that cannot be told, a state that
 * begins nowhere, or a result of another entity's call would be found out at the first effect; so each is an error at its line.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { compileFolder, compileSource } from '../../src/contract/compile.js';
import type { Diagnostic } from '../../src/contract/diagnostics.js';
import { loadFolder } from '../../src/contract/load.js';
import { diffSources } from '../../src/contract/diff/diff.js';
import { documentation } from '../../src/contract/views/documentation.js';
import { evaluatorView } from '../../src/contract/views/evaluator.js';
import type { Catalogue, ToolPlan } from '../../src/contract/plan.js';
import { checkoutFolder } from '../support/checkout.js';
import { catalogueOf } from './fixture.js';
import { warehouseFolder } from './warehouse.js';

function diagnosticsOf(folder: string): Diagnostic[] {
  const result = compileFolder(folder, {});
  return 'diagnostics' in result ? result.diagnostics : [];
}

function told(folder: string, file: string): string[] {
  const lines = readFileSync(join(folder, file), 'utf8').split('\n');
  return diagnosticsOf(folder).map(({ code, line, column, message }) => `${code} ${lines[line - 1]!.slice(column - 1)} | ${message}`);
}

const checkout = (...changes: [string, string][]): string[] => told(checkoutFolder(...changes), 'checkout.yaml');
const warehouse = (...changes: [string, string][]): string[] => told(warehouseFolder(...changes), 'warehouse.yaml');
const plan = (catalogue: Catalogue, name: string): ToolPlan => catalogue.tools.get(name)!;

/** Orders of a customer, whom each write on an order touches. */
const customer: [string, string][] = [
  ['tools:\n  get_order:', '  customer:\n    id: order.user_id\n    observe: { tool: get_user, args: { user_id: order.user_id }, max_age: 5s }\ntools:\n  get_order:'],
  ['    entity: order\n    purpose: Exchange', '    entity: order\n    touches: [customer]\n    purpose: Exchange'],
];

describe('a transition table', () => {
  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])('lists nothing under `%s` unless its contract does', (name) => {
    const { transitions } = plan(catalogueOf(compileFolder(checkoutFolder(), {})), 'charge_payment').entity!;
    expect(transitions[name]).toBeUndefined();
    for (const actions of Object.values(transitions)) expect(actions[name]).toBeUndefined();
  });
});

describe('a state that the gateway keeps', () => {
  const catalogue = catalogueOf(compileFolder(checkoutFolder(), {}));

  test('needs no observation; its state can be named and is one of those listed', () => {
    const { entity } = plan(catalogue, 'charge_payment');
    expect(entity).toMatchObject({ observation: null, state: null, kept: { initial: 'NEW' } });
    expect(checkout(['    effects: { changes: [transaction.state]', '    preconditions: [{ id: open, check: transaction.state == "CREATD", otherwise: { code: NOT_OPEN } }]\n    effects: { changes: [transaction.state]']))
      .toContainEqual(expect.stringMatching(/^CG101 .*did you mean `CREATED`/));
  });

  test.each<[string, string, string, RegExp]>([
    ['no initial state', '    initial: [NEW]\n', '    initial: []\n', /^CG619 initial: .*0 are given/],
    ['two initial states', 'initial: [NEW]', 'initial: [NEW, CREATED]', /^CG619 initial: .*2 are given/],
    ['a state that the service would enter', 'initial: [NEW]', 'initial: [NEW]\n    external: [CHARGED]', /^CG619 external:/],
    ['no word of where it begins', '    initial: [NEW]\n', '', /^CG005 transaction: .*`initial`/],
    ['no observation where the state is observed', 'state: gateway', 'state: transaction.status', /^CG005 transaction: .*`observe`/],
    ['a state that nothing leads to', 'cancel: CANCELLED }', 'cancel: CHARGED }', /^CG610 CANCELLED/],
  ])('%s is reported at its line', (_, from, to, wanted) => {
    expect(checkout([from, to])).toContainEqual(expect.stringMatching(wanted));
  });

  test('may be beside an observation, whose members stay to be named', () => {
    const changes: [string, string][] = [['state: gateway', 'observe: { tool: quote_fee, args: { order_id: args.order_id }, max_age: 5s }\n    state: gateway']];
    const { entity } = plan(catalogueOf(compileFolder(checkoutFolder(...changes, ['changes: [transaction.state]', 'changes: [transaction.state, transaction.fee]']), {})), 'cancel');
    expect(entity).toMatchObject({ observation: { name: 'transaction' }, kept: { initial: 'NEW' } });
  });

  test('is shown as what it is in documentation and evaluation', () => {
    const page = documentation(catalogue).get('checkout.md')!;
    expect(page).toContain('Its state is kept by the gateway, from NEW on');
    expect(page).toContain('The state of the transaction, which the gateway keeps: legal in CREATED (then CHARGED).');
    expect(evaluatorView(catalogue).tools.find(({ tool }) => tool === 'cancel')?.postconditions.observe).toEqual({ entity: 'transaction', tool: null, state: 'gateway' });
  });
});

describe('an id', () => {
  test('may be told by an observation of another entity, which is then made first', () => {
    const { entity, touches } = plan(catalogueOf(compileFolder(warehouseFolder(...customer), {})), 'exchange_items');
    expect(entity).toMatchObject({ name: 'order', idNeeds: [] });
    expect(touches).toMatchObject([{ entity: { name: 'customer', idNeeds: ['order'], observation: { needs: ['order'] } }, observed: false, governed: false }]);
  });

  test('of a touched entity that a rule reads is observed, and one that only `changes` names is not', () => {
    const read = plan(catalogueOf(compileFolder(warehouseFolder(...customer, ['user.payment_methods, otherwise', 'customer.payment_methods, otherwise']), {})), 'exchange_items');
    expect(read.touches).toMatchObject([{ observed: true }]);
    const changed = plan(catalogueOf(compileFolder(warehouseFolder(...customer, ['changes: [order.status]', 'changes: [order.status, customer.payment_methods]']), {})), 'exchange_items');
    expect(changed.touches).toMatchObject([{ observed: false }]);
  });

  test('may be told by an observation of the tool, by a bound value, by the session and the principal, and may be an integer', () => {
    expect(warehouse(['id: args.order_id', 'id: user.user_id'], ['args: { user_id: order.user_id }', 'args: { user_id: args.payment_method_id }'])
      .filter((each) => !each.includes('get_order')).map((each) => each.slice(0, 5))).toEqual([]);
    for (const id of ['bound.who', 'session.id', 'principal.id + "/" + args.order_id', 'subject', 'size(args.order_id)'])
      expect(checkout(['id: args.order_id', `id: ${id}`], ['    entity: transaction\n', '    entity: transaction\n    bind: &who { who: principal.id }\n'],
        ['    bind: { transaction_id: last(create_transaction).transaction_id }\n', ''], ['{bound.transaction_id}', '{bound.who}'])).toEqual([]);
  });

  test('is a text or an integer', () => {
    expect(checkout(['id: args.order_id', 'id: args.order_id == ""'])).toContainEqual(expect.stringMatching(/^CG102 args.order_id == .*a string or an integer/));
  });

  test.each([
    ['principal.idd', 'id'], ['session.idd', 'id'], ['principal.role', 'roles'], ['session.turn', undefined],
  ])('names of the principal and the session are checked: %s', (id, meant) => {
    expect(checkout(['id: args.order_id', `id: ${id}`])).toContainEqual(expect.stringMatching(meant ? new RegExp(`^CG101 .*did you mean \`${meant}\``) : /^CG101 /));
  });

  test('that rests on itself is reported with the way around, once', () => {
    const found = warehouse(...customer, ['id: args.order_id', 'id: customer.user_id']);
    expect(found).toContainEqual(expect.stringMatching(/^CG115 customer.user_id \| .*order → customer → order/));
    expect(found).toContainEqual(expect.stringMatching(/^CG115 order.user_id \| .*customer → order → customer/));
    expect(warehouse(['id: args.order_id', 'id: order.order_id'])).toContainEqual(expect.stringMatching(/^CG115 order.order_id/));
  });

  test('that rests on what the tool does not know is reported where the tool names the entity', () => {
    const unknown: [string, string] = ['    entity: order\n    touches: [customer]', '    entity: customer'];
    expect(warehouse(...customer, ['transitions: { delivered: { exchange_items: exchange_requested } }', 'transitions: { delivered: {} }'], unknown))
      .toContainEqual(expect.stringMatching(/^CG116 customer .*depends on `order`, and `exchange_items`/));
  });

  test('misspelt in a name or a member is reported at the id', () => {
    expect(warehouse(customer[0]!, customer[1]!, ['id: order.user_id', 'id: ordr.user_id'])).toContainEqual(expect.stringMatching(/^CG101 ordr.user_id .*did you mean `order`/));
    expect(warehouse(customer[0]!, customer[1]!, ['id: order.user_id', 'id: order.user_di'])).toContainEqual(expect.stringMatching(/^CG101 .*did you mean `user_id`/));
  });
});

describe('last(TOOL).MEMBER', () => {
  const bound = 'last(create_transaction).transaction_id';

  test('is typed by the result of that tool, which is remembered, and is apart from what the principal gives', () => {
    const catalogue = catalogueOf(compileFolder(checkoutFolder(), {}));
    const charge = plan(catalogue, 'charge_payment');
    expect(Object.keys(charge.bind)).toEqual([]);
    expect(Object.keys(charge.bindLast)).toEqual(['transaction_id']);
    expect(charge.lasts).toMatchObject([{ tool: 'create_transaction', sameEntity: true }]);
    expect([plan(catalogue, 'create_transaction').remembered, charge.remembered]).toEqual([true, false]);
    const again = compileSource(catalogue.source, {});
    expect('catalogue' in again && plan(again.catalogue, 'create_transaction').remembered).toBe(true);
    expect('catalogue' in again && plan(again.catalogue, 'charge_payment').digest).toBe(charge.digest);
  });

  test.each<[string, string, RegExp]>([
    ['a tool that does not exist', 'last(create_transactoin).transaction_id', /^CG106 create_transactoin.*did you mean `create_transaction`/],
    ['a member that its result does not have', 'last(create_transaction).transaction_di', /^CG101 .*did you mean `transaction_id`/],
    ['a tool that reads', 'last(quote_fee).fee', /^CG117 quote_fee/],
    ['no tool', 'last("create_transaction").transaction_id', /^CG117 .*the name of one tool/],
  ])('%s is reported at its line', (_, to, wanted) => {
    expect(checkout([`bind: { transaction_id: ${bound} }`, `bind: { transaction_id: ${to.includes('"') ? `'${to}'` : to} }`])).toContainEqual(expect.stringMatching(wanted));
  });

  test('of the tool itself, outside `bind`, and in a read that others make are reported', () => {
    expect(checkout([bound, 'last(cancel).transaction_id'])).toContainEqual(expect.stringMatching(/^CG117 cancel\)/));
    expect(checkout(['http: { method: GET, path: "/fees/{args.order_id}" }', `http: { method: GET, path: "/fees/{${bound}}" }`])).toContainEqual(expect.stringMatching(/^CG117 .*in `bind` alone/));
    expect(checkout(['http: { method: GET, path: "/receipts/{args.key}" }', `bind: { of: ${bound} }\n    http: { method: GET, path: "/receipts/{args.key}" }`])).toContainEqual(expect.stringMatching(/^CG117 find_receipt/));
  });

  test('on another entity, and for the id of the very entity that the result is kept under, are reported', () => {
    const order: [string, string] = ['tools:\n', '  order:\n    id: args.order_id\n    state: gateway\n    states: [OPEN]\n    initial: [OPEN]\n    transitions: { OPEN: { create_transaction: OPEN } }\ntools:\n'];
    const onOrder: [string, string] = ['    entity: transaction\n    purpose: Open', '    entity: order\n    purpose: Open'];
    const later: [string, string] = ['NEW: { create_transaction: CREATED }\n', ''];
    expect(checkout(order, onOrder, later, ['states: [NEW, CREATED', 'states: [CREATED'], ['initial: [NEW]', 'initial: [CREATED]'])).toContainEqual(expect.stringMatching(/^CG118 create_transaction/));
    expect(checkout(['id: args.order_id', 'id: bound.transaction_id'])).toContainEqual(expect.stringMatching(/^CG115 last\(.*last result of `create_transaction`/));
  });

  test('a tool whose name has a hyphen can be named', () => {
    const folder = checkoutFolder(['create_transaction:', 'create-2-transaction:'], ['last(create_transaction)', 'last(create-2-transaction)']);
    expect(plan(catalogueOf(compileFolder(folder, {})), 'cancel').lasts).toMatchObject([{ tool: 'create-2-transaction' }]);
  });
});

test('another state source, id or bound result changes the digest and is no compatible change', () => {
  const before = loadFolder(checkoutFolder()).source;
  const digest = plan(catalogueOf(compileFolder(checkoutFolder(), {})), 'charge_payment').digest;
  for (const [from, to] of [
    ['state: gateway', 'observe: { tool: quote_fee, args: { order_id: args.order_id }, max_age: 5s }\n    state: gateway'],
    ['id: args.order_id', 'id: args.order_id + "/" + principal.tenant'],
    ['result: &transaction { type: object, properties: { transaction_id: { type: string }', 'result: &transaction { type: object, properties: { transaction_id: { type: string, maxLength: 9 }'],
  ] as [string, string][]) {
    const folder = checkoutFolder([from, to]);
    expect(plan(catalogueOf(compileFolder(folder, {})), 'charge_payment').digest, to).not.toBe(digest);
    const { tools } = diffSources(before, loadFolder(folder).source);
    const impact = tools.find(({ tool }) => tool === 'charge_payment')?.impact;
    if (!to.startsWith('result')) expect(impact, to).toBe('behavioural');
  }
});
