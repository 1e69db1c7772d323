/** What a table permits is read by people before it is served, and by pipelines that stop a table which contradicts itself. */
import { afterEach, expect, test, vi } from 'vitest';
import { check } from '../../src/cli/check.js';
import { compileFolder } from '../../src/contract/compile.js';
import { contradicts, formatStateSpaces, type StateSpace, stateSpaces } from '../../src/contract/state-space.js';
import { checkoutFolder, ordersToo } from '../support/checkout.js';
import { catalogueOf, folderWith, retailFolder, retailText } from './fixture.js';

afterEach(() => {
  vi.restoreAllMocks();
});

const spacesOf = (dir: string): StateSpace[] => stateSpaces(catalogueOf(compileFolder(dir, {})));
/** Two states that lead to one another and that nothing leads to from outside: each is the end of some transition. */
const island = retailText
  .replace('states: [PENDING, DELIVERED, CANCELLED]', 'states: [PENDING, DELIVERED, CANCELLED, LOST, FOUND]')
  .replace('status: { enum: [PENDING, DELIVERED, CANCELLED] }', 'status: { enum: [PENDING, DELIVERED, CANCELLED, LOST, FOUND] }')
  .replace('DELIVERED: { issue_credit: DELIVERED }', 'DELIVERED: { issue_credit: DELIVERED }\n      LOST: { cancel_order: FOUND }\n      FOUND: { cancel_order: LOST }');

test('every state stands with every action: where it leads, or that it is illegal', () => {
  const [order, ...others] = spacesOf(retailFolder);
  expect(others).toEqual([]);
  expect(order).toMatchObject({
    service: 'retail', entity: 'order', unreachable: [], dead_ends: ['CANCELLED'], without_row: [],
    states: [
      { state: 'PENDING', entered: 'initial', actions: [{ tool: 'cancel_order', next: 'CANCELLED' }, { tool: 'issue_credit', next: null }] },
      { state: 'DELIVERED', entered: 'external', actions: [{ tool: 'cancel_order', next: null }, { tool: 'issue_credit', next: 'DELIVERED' }] },
      { state: 'CANCELLED', entered: 'action', actions: [{ tool: 'cancel_order', next: null }, { tool: 'issue_credit', next: null }] },
    ],
  });
  expect(contradicts(order!)).toBe(false);
  expect(formatStateSpaces([order!])).toContain('PENDING    initial   CANCELLED     -');
});

test('a read that names the entity is listed beside its table, which has no row for it', () => {
  const [order] = spacesOf(retailFolder);
  expect(order!.reading).toEqual(['quote_credit']);
  expect(formatStateSpaces([order!])).toContain('read in every state by: quote_credit');
});

test('states that the gateway keeps, in several tables that judge one tool', () => {
  const [order, transaction] = spacesOf(checkoutFolder(...ordersToo));
  expect(transaction).toMatchObject({ entity: 'transaction', unreachable: [], without_row: [], touching: [], reading: ['quote_fee'], dead_ends: ['CHARGED'] });
  expect(order).toMatchObject({ entity: 'order', unreachable: [], dead_ends: ['PAID'], touching: [], reading: [] });
  expect(order!.states[1]).toEqual({ state: 'REOPENED', entered: 'action', actions: [
    { tool: 'cancel', next: null }, { tool: 'charge_payment', next: 'PAID' }, { tool: 'create_transaction', next: 'REOPENED' },
  ] });
});

test('states that lead to one another alone are reached by nothing, which no look at single transitions would find', () => {
  const [order] = spacesOf(folderWith(island).dir);
  expect(order!.unreachable).toEqual(['LOST', 'FOUND']);
  expect(contradicts(order!)).toBe(true);
});

test('the command tells it to people and to programs, and ends with 1 where a table contradicts itself', async () => {
  const told: string[] = [];
  vi.spyOn(console, 'log').mockImplementation((text: string) => void told.push(text));
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
  expect(await check([retailFolder, '--exhaustive'])).toBe(0);
  expect(told.splice(0).join('\n')).toContain('nothing can be done any more in: CANCELLED');
  const { dir } = folderWith(island);
  expect(await check([dir, '--exhaustive', '--format', 'json'])).toBe(1);
  expect(JSON.parse(told.join('\n'))).toMatchObject({ state_spaces: [{ unreachable: ['LOST', 'FOUND'] }] });
  expect(await check([dir])).toBe(0);
});
