/**
 * A synthetic model calls every action in every order, from every state that the example's orders begin in. What the gateway decides is what
 * the table says, and the books of the service hold an effect for each legal call and for no other: a table that is not the behaviour would
 * be worse than none. `SYNTHETIC_LENGTH` makes the orders longer than in the suite.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { stateSpaces } from '../../src/contract/state-space.js';
import type { JsonObject } from '../../src/model.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';

let house: House;
let opened: Opened;
beforeAll(async () => {
  house = await openHouse();
  opened = await openGateway(house, { CALLGATE_BUDGETS_PROPOSALS: '100' });
});
afterAll(async () => {
  await opened.gateway.close();
  await house.close();
});

const longest = Number(process.env['SYNTHETIC_LENGTH'] ?? 3);
const firsts = [{ order: 'O-418', state: 'PENDING' }, { order: 'O-417', state: 'DELIVERED' }, { order: 'O-419', state: 'CANCELLED' }];
const argumentsOf: Record<string, (order: string, position: number) => JsonObject> = {
  // Amounts of their own, so that no call is the repetition of an earlier one.
  issue_credit: (order, position) => ({ order_id: order, amount: 100 + position, currency: 'GBP' }),
  cancel_order: (order) => ({ order_id: order }),
};

function sequences(actions: readonly string[], length: number): string[][] {
  if (length === 0) return [[]];
  const shorter = sequences(actions, length - 1);
  return [...shorter, ...shorter.filter((sequence) => sequence.length === length - 1).flatMap((sequence) => actions.map((action) => [...sequence, action]))];
}

test('what the gateway decides is what the table says, for every action in every order from every state', async () => {
  const compiled = compileFolder(house.env['CALLGATE_CONTRACTS_FOLDER']!, house.env);
  if ('diagnostics' in compiled) throw new Error('the example does not compile');
  const [space] = stateSpaces(compiled.catalogue);
  const actions = space!.states[0]!.actions.map(({ tool }) => tool);
  expect(actions.sort()).toEqual(Object.keys(argumentsOf).sort());
  const next = (state: string, tool: string): string | null => space!.states.find((each) => each.state === state)!.actions.find((each) => each.tool === tool)!.next;

  let calls = 0;
  for (const first of firsts) {
    for (const sequence of sequences(actions, longest).filter(({ length }) => length === longest)) {
      await house.shop.reset();
      const [session, intent] = [unique('s'), unique('i')];
      const expected: Record<string, number> = { issue_credit: 0, cancel_order: 0 };
      let { state } = first;
      for (const [position, tool] of sequence.entries()) {
        const after = next(state, tool);
        const told = `${first.state}: ${sequence.slice(0, position + 1).join(', ')}`;
        const repeated = tool === 'cancel_order' && expected['cancel_order']! > 0;
        const answer = await opened.agent.call({ session_id: session, intent_id: intent, tool, arguments: argumentsOf[tool]!(first.order, position) });
        calls++;
        if (repeated) expect(answer.disposition, told).toBe('replayed');
        else if (after === null) {
          expect([answer.disposition, answer.code], told).toEqual(['transition_error', 'TRANSITION_ERROR']);
        } else {
          expect(answer.disposition, told).toBe('executed');
          state = after;
          expected[tool]!++;
        }
      }
      const { credits, cancellations } = await house.shop.books();
      expect([credits.length, cancellations.length], `${first.state}: ${sequence.join(', ')}`).toEqual([expected['issue_credit'], expected['cancel_order']]);
    }
  }
  expect(calls).toBe(firsts.length * actions.length ** longest * longest);
}, 120_000);
