/**
 * Recorded conversations through a real gateway, over real sockets, with the first answer of every write lost after its commit: the same
 * answers, each accepted write once, and nothing of what was refused.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readRetailData, type RetailData, Store } from '../../examples/tau-retail/domain/store.js';
import { type Sent, unique } from '../support/gateway.js';
import { attempt } from './edition.js';
import { openTauHouse, type TauHouse } from './house.js';
import {
  answerOf, argumentsOf, type Conversation, conversations, dataFolder, isInjected, isKnownFault, place, recorded, type RecordedCall, toTheCent,
} from './recording.js';

if (recorded) {
  const data: RetailData = readRetailData(dataFolder);

  describe.each(['tau1', 'tau2'] as const)('%s through the gateway', (edition) => {
    let house: TauHouse;
    beforeAll(async () => {
      house = await openTauHouse(edition, '300ms');
    });
    afterAll(() => house?.close());

    test('reads give the recorded answers, accepted writes happen once, refused ones not at all, and the data end as without those', async () => {
      const chosen = conversations().filter((each, index) => each.edition === edition && (index % 6 === 0 || each.calls.some(({ write, rejected }) => write && rejected)));
      for (const conversation of chosen) await replay(house, conversation, data);
      expect(chosen.some(({ calls }) => calls.some(({ write, rejected }) => write && !rejected))).toBe(true);
    }, 120_000);

    test('an agent is shown the sixteen tools of the store, and may not use the reads that the gateway decides by', async () => {
      const listed = (await house.agent.get('/v1/tools')) as unknown as { tools: { name: string }[] };
      const wanted = (JSON.parse(readFileSync(join(dataFolder, 'tools.openai.json'), 'utf8')) as { function: { name: string } }[]).map((tool) => tool.function.name);
      expect(listed.tools.map(({ name }) => name).sort()).toEqual(wanted.sort());
      const subject = 'mia_garcia_4516';
      const wallet = await house.agent.call({ session_id: unique('s'), tool: 'get_wallet', arguments: { user_id: subject }, subject });
      expect(wallet).toMatchObject({ disposition: 'denied', result: null });
    });

    test('what is proposed again is meant again: an address may be set back, and an order is cancelled once', async () => {
      house.service.reset();
      const [[order_id, order] = ['', undefined]] = Object.entries(data.orders).filter(([, { status }]) => status === 'pending');
      const session_id = unique('s');
      const propose = (tool: string, args: object): Promise<Sent> =>
        house.agent.call({ session_id, tool, arguments: { order_id, ...args }, subject: order?.user_id });
      const there = { address1: '1 Elm Street', address2: '', city: 'Austin', state: 'TX', country: 'USA', zip: '78712' };
      for (const address of [there, order?.address, there]) expect(await propose('modify_pending_order_address', address ?? {})).toMatchObject({ disposition: 'executed', result: { address } });
      expect(await propose('cancel_pending_order', { reason: 'no longer needed' })).toMatchObject({ disposition: 'executed' });
      expect(await propose('cancel_pending_order', { reason: 'no longer needed' })).toMatchObject({ disposition: 'transition_error', states: { [`order:${order_id}`]: 'cancelled' }, legal_actions: [] });
      expect(house.service.effects().map(({ tool }) => tool)).toEqual([...Array(3).fill('modify_pending_order_address'), 'cancel_pending_order']);
    });

    test('a refund that moves a gift card is no reason to refuse the same agent the change of an address', async () => {
      house.service.reset();
      const paidByGiftCard = ({ status, payment_history }: (typeof data.orders)[string]): boolean =>
        status === 'pending' && payment_history.some(({ payment_method_id }) => payment_method_id.startsWith('gift_card'));
      const [order_id = '', order] = Object.entries(data.orders).find(([, each]) => paidByGiftCard(each)) ?? [];
      const [session_id, subject] = [unique('s'), order?.user_id];
      const propose = (tool: string, args: object): Promise<Sent> => house.agent.call({ session_id, tool, arguments: args, subject });
      await propose('get_user_details', { user_id: subject });
      expect(await propose('cancel_pending_order', { order_id, reason: 'no longer needed' })).toMatchObject({ disposition: 'executed' });
      expect(await propose('modify_user_address', { user_id: subject, ...order?.address, zip: '10001' })).toMatchObject({ disposition: 'executed', result: { address: { zip: '10001' } } });
    });

    test('an order of another user and one that does not exist are told apart by nothing, and neither is touched', async () => {
      house.service.reset();
      const [[id, order] = ['', undefined]] = Object.entries(data.orders).filter(([, { status }]) => status === 'pending');
      const stranger = Object.keys(data.users).find((user) => user !== order?.user_id) as string;
      const cancel = (order_id: string): Promise<Sent> =>
        house.agent.call({ session_id: unique('s'), tool: 'cancel_pending_order', arguments: { order_id, reason: 'no longer needed' }, subject: stranger });
      const [hidden, missing] = [await cancel(id), await cancel('#W0000000')];
      expect(hidden).toMatchObject({ http: 404, disposition: 'denied', code: 'NOT_FOUND', states: {}, legal_actions: [] });
      expect(words(hidden)).toEqual(words(missing));
      expect(house.service.effects()).toEqual([]);
    });
  });
} else {
  test('the recordings are not beside this checkout (../shared/data/tau-retail), so none of them is sent through a gateway', () => {
    expect(recorded).toBe(false);
  });
}

async function replay(house: TauHouse, { edition, calls }: Conversation, data: RetailData): Promise<void> {
  house.service.reset();
  house.service.loseFirstAnswers();
  const model = new Store(edition, data);
  const session_id = unique('s');
  let subject: string | undefined;
  for (const call of calls) {
    const answer = await house.agent.call({ session_id, tool: call.name, arguments: call.args, ...(subject ? { subject } : {}) });
    if (call.write && !call.rejected) attempt(model, call.name, argumentsOf(call));
    expect(house.service.effects().length, place(call)).toBe(calls.filter((each) => each.write && !each.rejected && each.seq <= call.seq).length);
    if (!isInjected(call) && !isKnownFault(call)) expect({ of: place(call), ...told(answer) }).toEqual({ of: place(call), ...expected(call) });
    if (call.name.startsWith('find_user_id_') && answer.disposition === 'executed') subject = String(answer.result);
  }
  expect(house.service.store.changes()).toEqual(model.changes());
}

function told({ disposition, notice, result }: Sent): { refused: string } | { result: unknown } {
  return disposition === 'executed' || notice === 'REPEATED_READ' ? { result: toTheCent(result) } : { refused: disposition };
}

function expected(call: RecordedCall): { refused: string } | { result: unknown } {
  if (!call.rejected) return { result: toTheCent(answerOf(call)) };
  if (!call.write) return { refused: 'denied' };
  return { refused: /non-(pending|delivered) order/i.test(call.error ?? '') ? 'transition_error' : 'invalid_arguments' };
}

/** Without what every call has of its own: its ids, and how long it took. */
function words({ call_id, operation_id, receipts, header, ...rest }: Sent): unknown {
  return JSON.parse(JSON.stringify(rest, (name, value: unknown) => (name === 'ms' ? 0 : value)));
}
