/**
 * The same for states that nothing but the gateway knows, in two tables that judge each call together: the service charges whatever it is told
 * to charge, so an action that a table forbids and the gateway lets through is a second charge. The books hold an effect for each legal
 * call and for no other.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { type StateSpace, stateSpaces } from '../../src/contract/state-space.js';
import { type Checkout, checkoutFolder, openCheckout, ordersToo } from '../support/checkout.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';

let checkout: Checkout;
let house: House;
let opened: Opened;
const folder = checkoutFolder(...ordersToo);
beforeAll(async () => {
  checkout = await openCheckout();
  process.env['CHECKOUT_URL'] = checkout.url;
  house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: folder, CHECKOUT_URL: checkout.url });
  opened = await openGateway(house, { CALLGATE_BUDGETS_PROPOSALS: '100' });
});
afterAll(async () => {
  await opened.gateway.close();
  await house.close();
  await checkout.close();
});

const length = Number(process.env['SYNTHETIC_LENGTH'] ?? 4);
const actions = ['create_transaction', 'charge_payment', 'cancel'] as const;

function sequences(count: number): (typeof actions)[number][][] {
  return count === 0 ? [[]] : sequences(count - 1).flatMap((before) => actions.map((action) => [...before, action]));
}

/** One order through a sequence; what the tables say is what is decided, and what the books have. @returns how many calls were illegal */
async function play(spaces: readonly StateSpace[], sequence: readonly (typeof actions)[number][]): Promise<number> {
  const [order, session] = [unique('O').slice(0, 20), unique('s')];
  let states = spaces.map(({ states: [first] }) => first!.state);
  const effects: string[] = [];
  for (const [position, tool] of sequence.entries()) {
    const next = spaces.map((space, at) => space.states.find(({ state }) => state === states[at])!.actions.find((action) => action.tool === tool)!.next);
    const legal = next.every((state) => state !== null);
    const args = tool === 'create_transaction' ? { order_id: order, amount: 100 + position } : { order_id: order };
    const answer = await opened.agent.call({ session_id: session, intent_id: unique('i'), tool, arguments: args });
    const told = `${states.join('/')}: ${sequence.slice(0, position + 1).join(', ')}`;
    expect([answer.disposition, answer.code], told).toEqual(legal ? ['executed', undefined] : ['transition_error', 'TRANSITION_ERROR']);
    if (!legal) continue;
    effects.push(tool);
    states = next as string[];
  }
  const done = checkout.effects.filter((each) => each.order === order).map(({ tool }) => tool);
  expect(done, sequence.join(', ')).toEqual(effects);
  return sequence.length - effects.length;
}

test('what the gateway decides is what both tables say together, for every action in every order', async () => {
  const compiled = compileFolder(folder, house.env);
  if ('diagnostics' in compiled) throw new Error(JSON.stringify(compiled.diagnostics));
  const spaces = stateSpaces(compiled.catalogue);
  expect(spaces.map(({ entity }) => entity)).toEqual(['order', 'transaction']);
  const all = sequences(length);
  let illegal = 0;
  for (let at = 0; at < all.length; at += 9) illegal += (await Promise.all(all.slice(at, at + 9).map((sequence) => play(spaces, sequence)))).reduce((sum, each) => sum + each, 0);
  expect(illegal).toBeGreaterThan(all.length);
  expect(illegal).toBeLessThan(all.length * length);
}, 120_000);
