import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Joints } from '../../src/main.js';
import type { Exchange } from '../../src/upstream/exchange.js';
import { type House, type Opened, openGateway, openHouse, type Sent, token, unique } from '../support/gateway.js';
import { anotherKey, contractsWith, HeldAgent } from './guarded.js';

/**
 * Which calls are the same call, and which are the same effect (semantics.md section 1). What this protects is somebody's money: an
 * identity too narrow pays twice, one too wide swallows a payment that was meant, and one that crosses callers tells secrets.
 */
const creditRoute = 'POST /orders/{id}/credits';

let house: House;
let open: Opened;
let second: Opened;
let agent: HeldAgent;
let other: HeldAgent;
let session = '';

/** Between both gateways and the service: what happens to the next writes, the keys of all that were sent, and how many were under way at once. */
const wire = { keys: [] as string[], unreachable: 0, before: undefined as (() => Promise<void>) | undefined, inFlight: 0, most: 0 };
const reset = (): void => { Object.assign(wire, { keys: [], unreachable: 0, before: undefined, inFlight: 0, most: 0 }); };
const joints: Joints = {
  upstream: (upstream) => ({
    ...upstream,
    async send(request, options): Promise<Exchange> {
      if (request.method !== 'POST') return upstream.send(request, options);
      wire.keys.push(request.headers['idempotency-key'] ?? '');
      if (wire.unreachable-- > 0) return { kind: 'failure', sent: false, reason: 'refused', ms: 0 };
      const hook = wire.before;
      wire.before = undefined;
      await hook?.();
      wire.most = Math.max(wire.most, ++wire.inFlight);
      return upstream.send(request, options).finally(() => { wire.inFlight--; });
    },
  }),
};

beforeAll(async () => {
  house = await openHouse(contractsWith([
    ['    settle_after: 10s\n      lag: 0s\n    verify: always', '    settle_after: 200ms\n      lag: 0s\n    verify: always'],
    ['    expect: observed\n', '    expect: observed\n    repeatable: true\n'],
    ['currency: { enum: [GBP] }\n      required: [order_id, amount, currency]', 'currency: { enum: [GBP] }\n        note: { type: string, maxLength: 200 }\n      required: [order_id, amount, currency]'],
  ]));
  open = await openGateway(house, {}, joints);
  second = await openGateway(house, {}, joints);
  agent = new HeldAgent(open.gateway.agentUrl, house.keys.agent);
  other = new HeldAgent(second.gateway.agentUrl, house.keys.agent);
});
afterAll(async () => {
  await open.gateway.close();
  await second.gateway.close();
  await house.close();
});
beforeEach(async () => {
  await house.shop.reset();
  reset();
  session = unique('s');
});

const credit = (call: string | undefined, more: { order_id?: string; amount?: number; note?: string } = {}, change: Record<string, unknown> = {}, by = agent, headers = {}): Promise<Sent> =>
  by.credit({ session_id: session, ...(call === undefined ? {} : { call_id: call }), arguments: { order_id: 'O-420', amount: 1000, ...more }, ...change }, headers);
const credits = async () => (await house.shop.books()).credits;

/** Somebody else's write at the service itself, so that the version moves on under the gateway's feet. */
async function outsideCredit(order = 'O-420'): Promise<void> {
  const response = await fetch(`${house.service.url}/orders/${order}/credits`, {
    method: 'POST', body: JSON.stringify({ amount: 1, currency: 'GBP', customer_id: 'C-17' }),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': unique('outside') },
  });
  if (response.status !== 201) throw new Error(await response.text());
}
const byGateway = async () => (await credits()).filter(({ key }) => key.startsWith('op_'));

describe('the same call again', () => {
  it('is answered from what was stored, as often as it is asked, by either gateway', async () => {
    const first = await credit('c-1');
    for (const by of [agent, other]) {
      const again = await credit('c-1', {}, {}, by);
      expect(again).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, result: first.result, states: first.states, receipts: first.receipts, verified: true });
      expect(again.duplicate_of).toBeUndefined();
    }
    expect(await credits()).toHaveLength(1);
  });

  it('case-01: with other key order, other spelling of numbers and arguments as text it is the same call', async () => {
    const first = await credit('c-1', { amount: 1000 });
    const reordered = await agent.post('/v1/calls', `{"arguments":{"currency":"GBP","amount":1.0e3,"order_id":"O-420"},"tool":"issue_credit","call_id":"c-1","session_id":"${session}"}`);
    const asText = await agent.call({ session_id: session, call_id: 'c-2', tool: 'issue_credit', arguments: '{ "currency": "GBP", "order_id": "O-420", "amount": 1000 }' });
    expect(reordered).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(asText).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, duplicate_of: 'c-1' });
    expect(await credits()).toHaveLength(1);
  });

  it('case-07: seven proposals under seven new ids are one effect, and each says whose duplicate it is, also when asked again', async () => {
    const first = await credit('c-1');
    for (let n = 2; n <= 7; n++) {
      for (let times = 0; times < 2; times++) {
        expect(await credit(`c-${n}`)).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, duplicate_of: 'c-1', call_id: `c-${n}` });
      }
    }
    expect(await credits()).toHaveLength(1);
  });
});

describe('the same id for something else', () => {
  const disclosesNothing = (answer: Sent, first: Sent): void => {
    expect(answer).toMatchObject({ http: 422, disposition: 'id_conflict', code: 'ID_CONFLICT', operation_id: null, result: null, outcome: null, states: {} });
    const text = JSON.stringify(answer);
    for (const secret of [first.operation_id, first.receipts.decision, first.receipts.effect, (first.result as { receipt_id: string }).receipt_id]) expect(text).not.toContain(secret);
  };

  it('is id_conflict and discloses nothing of the first: other amount, other order, other tool', async () => {
    const first = await credit('c-1');
    disclosesNothing(await credit('c-1', { amount: 999 }), first);
    disclosesNothing(await credit('c-1', { order_id: 'O-417' }), first);
    disclosesNothing(await agent.call({ session_id: session, call_id: 'c-1', tool: 'cancel_order', arguments: { order_id: 'O-418' } }), first);
    expect(await credits()).toHaveLength(1);
  });

  it('is id_conflict between reads and writes too, whichever came first', async () => {
    const write = await credit('c-1');
    disclosesNothing(await agent.order('O-420', { session_id: session, call_id: 'c-1' }), write);
    await agent.order('O-420', { session_id: session, call_id: 'c-2' });
    expect(await credit('c-2', { amount: 77 })).toMatchObject({ disposition: 'id_conflict' });
    expect(await agent.order('O-417', { session_id: session, call_id: 'c-2' })).toMatchObject({ disposition: 'id_conflict' });
    expect(await credits()).toHaveLength(1);
  });

  it('of a duplicate is id_conflict as well: an id that was answered from another call is taken', async () => {
    await credit('c-1');
    expect(await credit('c-2')).toMatchObject({ disposition: 'replayed', duplicate_of: 'c-1' });
    expect(await credit('c-2', { amount: 5 })).toMatchObject({ disposition: 'id_conflict' });
    expect(await credit('c-1', { amount: 5 }, { turn_id: 't-2' })).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-1', {}, { turn_id: 't-3' })).toMatchObject({ disposition: 'replayed' });
    expect(await credit('c-1', { amount: 6 }, { turn_id: 't-3' })).toMatchObject({ disposition: 'id_conflict' });
    expect((await credits()).map(({ amount }) => amount).sort()).toEqual([1000, 5]);
  });

  it.each([['one gateway', () => agent], ['two gateways', () => other]])('in the same moment has one effect and one id_conflict, through %s', async (_, by) => {
    for (let round = 0; round < 5; round++) {
      const call = `c-${round}`;
      const answers = await Promise.all([credit(call, { order_id: 'O-417', amount: 100 + round }), credit(call, { order_id: 'O-420', amount: 200 + round }, {}, by())]);
      expect(answers.map(({ disposition }) => disposition).sort()).toEqual(['executed', 'id_conflict']);
      expect(await credits()).toHaveLength(round + 1);
    }
  });

  it('of two duplicates in the same moment only one is answered', async () => {
    await credit('a', { amount: 11 });
    await credit('b', { amount: 12 });
    const answers = await Promise.all([credit('c', { amount: 11 }), credit('c', { amount: 12 }, {}, other)]);
    expect(answers.map(({ disposition }) => disposition).sort()).toEqual(['id_conflict', 'replayed']);
  });
});

describe('an id whose call was refused', () => {
  it.each([
    ['arguments', { amount: 0 }, 'invalid_arguments'],
    ['the world', { order_id: 'O-418' }, 'transition_error'],
    ['a precondition', { order_id: 'O-417', amount: 9000 }, 'precondition_failed'],
    ['policy', { order_id: 'O-900' }, 'denied'],
  ])('before dispatch by %s is evaluated anew, also with other arguments', async (_, wrong, disposition) => {
    expect(await credit('c-1', wrong)).toMatchObject({ disposition });
    expect(await credit('c-1', wrong)).toMatchObject({ disposition });
    expect(await credit('c-1')).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-1', wrong)).toMatchObject({ disposition: disposition === 'invalid_arguments' ? disposition : 'id_conflict' });
    expect(await credits()).toHaveLength(1);
  });

  it('by the upstream is a new proposal with the same arguments, under another upstream key', async () => {
    wire.before = outsideCredit;
    const rejected = await credit('c-1');
    expect(rejected).toMatchObject({ http: 412, disposition: 'version_conflict', code: 'ORDER_CHANGED', next_action: 'refresh', outcome: 'rejected' });
    const again = await credit('c-1');
    expect(again).toMatchObject({ disposition: 'executed', verified: true });
    expect(again.operation_id).not.toBe(rejected.operation_id);
    expect(wire.keys).toEqual([rejected.operation_id, again.operation_id]);
    expect(await byGateway()).toEqual([expect.objectContaining({ key: again.operation_id })]);
  });

  it('by the upstream is a new proposal with other arguments too', async () => {
    wire.before = outsideCredit;
    expect(await credit('c-1')).toMatchObject({ outcome: 'rejected' });
    expect(await credit('c-1', { amount: 900 })).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-1')).toMatchObject({ disposition: 'id_conflict' });
    expect((await byGateway()).map(({ amount }) => amount)).toEqual([900]);
  });
});

describe('a new generation after an end without effect', () => {
  it('case-14: keeps the upstream key while nothing was ever decided there: not started', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: '503_not_started', times: 3 });
    const ended = await credit('c-1');
    expect(ended).toMatchObject({ http: 422, disposition: 'rejected', code: 'NOT_COMMITTED', next_action: 'retry', outcome: 'not_committed' });
    const again = await credit('c-1');
    expect(again).toMatchObject({ disposition: 'executed' });
    expect(again.operation_id).not.toBe(ended.operation_id);
    expect(await credits()).toEqual([expect.objectContaining({ key: ended.operation_id })]);
    expect(new Set(wire.keys)).toEqual(new Set([ended.operation_id]));
  });

  it('case-04: keeps the upstream key after a failure in which no byte left', async () => {
    wire.unreachable = 3;
    const ended = await credit('c-1');
    expect(ended).toMatchObject({ http: 502, disposition: 'failed', next_action: 'retry', outcome: 'not_committed' });
    expect(await credits()).toEqual([]);
    expect(await credit('c-2')).toMatchObject({ disposition: 'executed' });
    expect(await credits()).toEqual([expect.objectContaining({ key: ended.operation_id })]);
  });

  it('case-54: keeps the upstream key after a rate limit, and sends nothing before its pause is over', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: '429', retry_after: 1 });
    const limited = await credit('c-1');
    expect(limited).toMatchObject({ http: 429, disposition: 'rate_limited', next_action: 'retry', retry_after_ms: 1000 });
    expect(limited.header('retry-after')).toBe('1');
    expect(await credit('c-1')).toMatchObject({ http: 429, disposition: 'rate_limited' });
    expect((await house.shop.books()).requests[creditRoute]).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    expect(await credit('c-1')).toMatchObject({ disposition: 'executed' });
    expect(await credits()).toEqual([expect.objectContaining({ key: limited.operation_id })]);
  });

  it('counts on from whoever was last: gone through another id, the first id is answered from that effect', async () => {
    wire.before = outsideCredit;
    await credit('c-1');
    const effect = await credit('c-2');
    expect(await credit('c-1')).toMatchObject({ disposition: 'replayed', operation_id: effect.operation_id, duplicate_of: 'c-2' });
    expect(await credit('c-1', { amount: 4 })).toMatchObject({ disposition: 'id_conflict' });
    expect(await byGateway()).toHaveLength(1);
  });
});

describe('a repeat that is meant', () => {
  it('case-06: occurrence 2 is a second effect, once the first has committed, and is itself replayed', async () => {
    expect(await credit('c-0', {}, { occurrence: 2 })).toMatchObject({ http: 400, disposition: 'invalid_call', code: 'OCCURRENCE_NOT_ALLOWED' });
    const first = await credit('c-1', {}, { occurrence: 1 });
    expect(await credit('c-2')).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(await credit('c-3', {}, { occurrence: 3 })).toMatchObject({ code: 'OCCURRENCE_NOT_ALLOWED' });
    const repeat = await credit('c-4', {}, { occurrence: 2 });
    expect(repeat).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-5', {}, { occurrence: 2 })).toMatchObject({ disposition: 'replayed', operation_id: repeat.operation_id, duplicate_of: 'c-4' });
    expect(await credit('c-6', {}, { occurrence: 3 })).toMatchObject({ disposition: 'executed' });
    expect(await credits()).toHaveLength(3);
  });

  it('is refused where the contract does not say that it is repeatable', async () => {
    const answer = await agent.call({ session_id: session, tool: 'cancel_order', arguments: { order_id: 'O-418' }, occurrence: 2 });
    expect(answer).toMatchObject({ http: 400, code: 'OCCURRENCE_NOT_ALLOWED', next_action: 'repair' });
    expect((await house.shop.books()).cancellations).toEqual([]);
  });
});

describe('the application’s own key', () => {
  const key = (text: string) => ({ 'idempotency-key': text });

  it('names the operation in header and member alike, and in both when they are equal; different ones are refused', async () => {
    const own = unique('k');
    const first = await credit('c-1', {}, {}, agent, key(own));
    expect(first).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-2', {}, { idempotency_key: own, session_id: unique('s') })).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(await credit('c-3', {}, { idempotency_key: own }, agent, key(own))).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(await credit('c-4', {}, { idempotency_key: own }, agent, key('x'))).toMatchObject({ http: 400, disposition: 'invalid_call', code: 'KEY_MISMATCH' });
    const text = 'clé-🔑';
    const inBody = await credit('c-5', { amount: 3 }, { idempotency_key: text });
    const inHeader = await credit('c-6', { amount: 3 }, {}, agent, key(Buffer.from(text).toString('latin1')));
    expect(inHeader).toMatchObject({ disposition: 'replayed', operation_id: inBody.operation_id });
    expect(await credits()).toHaveLength(2);
  });

  it('replaces the identity: equal calls under different keys are different effects', async () => {
    await credit('c-1', {}, {}, agent, key(unique('k')));
    expect(await credit('c-2', {}, {}, agent, key(unique('k')))).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-3')).toMatchObject({ disposition: 'executed' });
    expect(await credits()).toHaveLength(3);
  });

  it('case-23: stands for one call only', async () => {
    const own = unique('k');
    const first = await credit('c-1', {}, {}, agent, key(own));
    for (const change of [{ amount: 9000 }, { order_id: 'O-417' }]) {
      const conflict = await credit('c-2', change, {}, agent, key(own));
      expect(conflict).toMatchObject({ http: 422, disposition: 'id_conflict', next_action: 'repair', operation_id: null, result: null });
      expect(JSON.stringify(conflict)).not.toContain(first.operation_id);
    }
    expect(await credits()).toHaveLength(1);
  });

  it('case-15: is not bound by a refusal before dispatch, and stays bound after one of the upstream', async () => {
    const own = unique('k');
    expect(await credit('c-1', { order_id: 'O-417', amount: 9000 }, {}, agent, key(own))).toMatchObject({ disposition: 'precondition_failed' });
    wire.before = outsideCredit;
    expect(await credit('c-2', { amount: 50 }, {}, agent, key(own))).toMatchObject({ outcome: 'rejected' });
    expect(await credit('c-3', { amount: 60 }, {}, agent, key(own))).toMatchObject({ disposition: 'id_conflict' });
    expect(await credit('c-4', { amount: 50 }, {}, agent, key(own))).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-5', { amount: 60 }, {}, agent, key(unique('k')))).toMatchObject({ disposition: 'executed' });
    expect((await byGateway()).map(({ amount }) => amount)).toEqual([50, 60]);
  });

  it('is refused from a credential that was not granted it', async () => {
    const plain = await anotherKey(house, { grants: { assertSubject: false, ownKeys: false } });
    const by = new HeldAgent(open.gateway.agentUrl, plain);
    expect(await credit('c-1', {}, {}, by, key('k'))).toMatchObject({ http: 403, disposition: 'denied', code: 'OWN_KEYS_NOT_GRANTED' });
    expect(await credit('c-1', {}, { idempotency_key: 'k' }, by)).toMatchObject({ http: 403, code: 'OWN_KEYS_NOT_GRANTED' });
    expect(await credits()).toEqual([]);
  });

  it('case-16: of one principal or tenant never meets another’s', async () => {
    const own = unique('k');
    const first = await credit('c-1', {}, {}, agent, key(own));
    const principal = await credit('c-1', { amount: 321 }, {}, new HeldAgent(open.gateway.agentUrl, house.keys.otherAgent), key(own));
    const tenant = await credit('c-1', { order_id: 'O-900', amount: 654 }, {}, new HeldAgent(open.gateway.agentUrl, house.keys.otherTenant), key(own));
    expect(principal).toMatchObject({ disposition: 'executed', result: { amount: 321 } });
    expect(tenant).toMatchObject({ disposition: 'executed', result: { amount: 654 } });
    expect(new Set([first, principal, tenant].map(({ operation_id }) => operation_id)).size).toBe(3);
    expect((await credits()).map(({ amount }) => amount)).toEqual([1000, 321, 654]);
  });
});

describe('the scope of an effect', () => {
  it('is the intent where one is named, over sessions, and else the session', async () => {
    const intent = unique('int');
    const first = await credit('c-1', {}, { intent_id: intent });
    expect(await credit('c-1', {}, { intent_id: intent, session_id: unique('s') })).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(await credit('c-2', {}, { intent_id: unique('int') })).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-3')).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-4', {}, { intent_id: session })).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-5', {}, { session_id: unique('s') })).toMatchObject({ disposition: 'executed' });
    expect(await credits()).toHaveLength(5);
  });

  it('does not take in arguments that the contract leaves out: a new remark is no new effect', async () => {
    const first = await credit('c-1', { note: 'asked on Monday' });
    expect(await credit('c-2', { note: 'asked again' })).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, duplicate_of: 'c-1' });
    expect(await credit('c-1', { note: 'asked again' })).toMatchObject({ disposition: 'id_conflict' });
    expect(await credits()).toHaveLength(1);
  });

  it('a call id is one turn’s: the same id in another turn is another call', async () => {
    await credit('c-1', { amount: 10 }, { turn_id: 't-1' });
    expect(await credit('c-1', { amount: 20 }, { turn_id: 't-2' })).toMatchObject({ disposition: 'executed' });
    expect(await credit('c-1', { amount: 20 }, { turn_id: 't-1' })).toMatchObject({ disposition: 'id_conflict' });
    expect(await credit('c-1', { amount: 30 })).toMatchObject({ disposition: 'executed' });
    expect((await credits()).map(({ amount }) => amount)).toEqual([10, 20, 30]);
  });

  it('case-19: missing and empty ids are minted and collide with nothing; a text such as "undefined" is an id like any other', async () => {
    const minted = [await credit(undefined, { amount: 1 }), await credit('', { amount: 2 }), await credit('', { amount: 3 }), await credit(undefined, { amount: 4 })];
    for (const answer of minted) expect(answer).toMatchObject({ disposition: 'executed', call_id: expect.stringMatching(/^call_/) });
    expect(new Set(minted.map(({ call_id }) => call_id)).size).toBe(4);
    expect(await credit(undefined, { amount: 1 })).toMatchObject({ disposition: 'replayed', duplicate_of: minted[0]?.call_id });
    expect(await credit('undefined', { amount: 5 })).toMatchObject({ disposition: 'executed', call_id: 'undefined' });
    expect(await credit('undefined', { amount: 6 })).toMatchObject({ disposition: 'id_conflict' });
    expect(await credits()).toHaveLength(5);
  });

  it('a call id of 512 bytes comes back verbatim, and one byte more is refused', async () => {
    const long = 'é'.repeat(256);
    expect(await credit(long, { amount: 1 })).toMatchObject({ disposition: 'executed', call_id: long });
    expect(await credit(`${long}x`, { amount: 2 })).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE', errors: [{ pointer: '/call_id' }] });
    expect(await credits()).toHaveLength(1);
  });
});

describe('a dedupe window', () => {
  const windowMs = 4_000;
  it('takes an equal proposal under a new id for a duplicate while it lasts, and for a new effect after it; the old id still has its old answer', async () => {
    const windowed = await openGateway(house, contractsWith([['    settle_after: 10s\n      lag: 0s', '    settle_after: 200ms\n      lag: 0s'], ['arguments: [order_id, amount, currency] }', `arguments: [order_id, amount, currency], window: ${windowMs}ms }`]]));
    try {
      const by = new HeldAgent(windowed.gateway.agentUrl, house.keys.agent);
      const first = await credit('c-1', {}, {}, by);
      expect(await credit('c-2', {}, {}, by)).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
      await new Promise((resolve) => setTimeout(resolve, windowMs + 100));
      const later = await credit('c-3', {}, {}, by, { prefer: 'wait=2' });
      expect(later).toMatchObject({ disposition: 'executed' });
      expect(later.operation_id).not.toBe(first.operation_id);
      expect(await credit('c-1', {}, {}, by)).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
      expect(await credit('c-4', {}, {}, by)).toMatchObject({ disposition: 'replayed', operation_id: later.operation_id });
      expect((await credits()).map(({ key }) => key)).toEqual([first.operation_id, later.operation_id]);
    } finally {
      await windowed.gateway.close();
    }
  });
});

describe('many at once', () => {
  it('case-08: 50 equal calls on one gateway are one effect and 50 equal answers', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => credit(`c-${n}`)));
    expect(answers.filter(({ disposition }) => disposition === 'executed')).toHaveLength(1);
    const told = answers.map(({ operation_id, result, outcome, verified, states, receipts }) => JSON.stringify({ operation_id, result, outcome, verified, states, receipts }));
    expect(new Set(told).size).toBe(1);
    expect(await credits()).toHaveLength(1);
    expect((await house.shop.books()).requests[creditRoute]).toBe(1);
  });

  it.each([['one gateway', () => agent], ['two gateways', () => other]])('case-22: writes on one order through %s are never in flight together, and each is judged on what the one before left', async (_, by) => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', times: 3, ms: 100 });
    const answers = await Promise.all([credit('c-1', { order_id: 'O-417', amount: 2000 }), credit('c-2', { order_id: 'O-417', amount: 2001 }, {}, by()), credit('c-3', { order_id: 'O-417', amount: 2002 })]);
    expect(answers.map(({ disposition }) => disposition).sort()).toEqual(['executed', 'executed', 'precondition_failed']);
    expect(answers.find(({ disposition }) => disposition === 'precondition_failed')).toMatchObject({ code: 'AMOUNT_EXCEEDS_BALANCE' });
    expect(wire.most).toBe(1);
    expect((await house.shop.books()).requests[creditRoute]).toBe(2);
  });

  it('writes on different orders do run together', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', times: 2, ms: 2_000 });
    await Promise.all([credit('c-1', { order_id: 'O-417' }), credit('c-2', { order_id: 'O-420' })]);
    expect(wire.most).toBe(2);
  });

  it('who runs out of patience behind another call on the same order is told to wait, and nothing of that call', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 4_000 });
    const slow = credit('c-1', { amount: 70 });
    await expect.poll(async () => (await house.shop.books()).requests[creditRoute], { timeout: 5_000 }).toBe(1);
    const waiting = await credit('c-2', { amount: 80 }, {}, agent, { prefer: 'wait=0' });
    expect(waiting).toMatchObject({ http: 409, disposition: 'in_progress', next_action: 'wait', operation_id: null, result: null });
    const same = await credit('c-3', { amount: 70 }, {}, agent, { prefer: 'wait=0' });
    const first = await slow;
    expect(same).toMatchObject({ http: 409, disposition: 'in_progress', operation_id: first.operation_id });
    expect(JSON.stringify(waiting)).not.toContain(first.operation_id);
    expect(await credit('c-2', { amount: 80 })).toMatchObject({ disposition: 'executed' });
  });
});
