import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { extraOrder } from '../recovery/many-orders.js';
import { deadlineMs, quickEnv, settleMs } from '../recovery/quick.js';
import { type Books, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/**
 * Whatever the service does to an answer, the caller is told what the service's own books say, once and for ever. If this is lost, a
 * timeout becomes a second refund (an agent re-plans with a new call id), or a refund that was refused is reported as given.
 */
interface Fault { kind: string; times?: number; ms?: number; retry_after?: number }
interface Case {
  name: string;
  fault: Fault;
  /** Of the first answer that is final. */
  ends: Partial<Sent>;
  /** Effects that the books then show, and requests of the tool that arrived. */
  effects: number;
  requests: number;
}

const done = { http: 200, disposition: 'executed', next_action: 'continue', outcome: 'committed', verified: true, evidence_of_change: true } as const;
const cases: Case[] = [
  { name: 'commit_then_drop', fault: { kind: 'commit_then_drop' }, ends: done, effects: 1, requests: 1 },
  { name: 'commit_then_500', fault: { kind: 'commit_then_500' }, ends: done, effects: 1, requests: 1 },
  { name: 'drop_before_commit, sent again after proven absence', fault: { kind: 'drop_before_commit' }, ends: done, effects: 1, requests: 2 },
  { name: 'delay_commit within the deadline', fault: { kind: 'delay_commit', ms: 200 }, ends: done, effects: 1, requests: 1 },
  { name: 'delay_commit beyond the deadline', fault: { kind: 'delay_commit', ms: deadlineMs + settleMs / 2 }, ends: done, effects: 1, requests: 1 },
  { name: 'slow_reply beyond the deadline', fault: { kind: 'slow_reply', ms: deadlineMs + 500 }, ends: done, effects: 1, requests: 1 },
  { name: 'truncate_body', fault: { kind: 'truncate_body' }, ends: done, effects: 1, requests: 1 },
  { name: 'bad_json', fault: { kind: 'bad_json' }, ends: done, effects: 1, requests: 1 },
  { name: 'accept_202', fault: { kind: 'accept_202', ms: 300 }, ends: done, effects: 1, requests: 1 },
];
const notStarted: Record<string, Case> = {
  once: { name: '503_not_started once', fault: { kind: '503_not_started' }, ends: done, effects: 1, requests: 2 },
  always: {
    name: '503_not_started until the attempts are used up', fault: { kind: '503_not_started', times: 3 },
    ends: { http: 422, disposition: 'rejected', code: 'NOT_COMMITTED', next_action: 'retry', outcome: 'not_committed', evidence_of_change: false }, effects: 0, requests: 3,
  },
};
/** Without a rule of the contract a 503 proves nothing: it is read back, and sent again only after the window. */
const unmapped: Case = { ...notStarted['once'] as Case, name: '503_not_started, which this contract does not map' };
const twice: Case = {
  name: 'double_effect', fault: { kind: 'double_effect' }, ends: { http: 202, disposition: 'review', next_action: 'escalate', code: 'MISMATCH' }, effects: 2, requests: 1,
};
/** Its read-back is the order, which is cancelled once however often: what the destination hides no gateway sees. */
const hidden: Case = { ...twice, ends: done };

interface Tool {
  name: string;
  route: string;
  cases: Case[];
  /** Makes what the tool needs and gives its arguments. An order whose case ends in review stays guarded: each case of a credit has its own. */
  prepare(open: Opened, n: number): Promise<object>;
  effects(books: Books): unknown[];
}
const tools: Tool[] = [
  {
    name: 'issue_credit', route: 'POST /orders/{id}/credits', cases: [...cases, ...Object.values(notStarted), twice],
    prepare: (_, n) => Promise.resolve({ order_id: extraOrder(n), amount: 2500, currency: 'GBP' }), effects: ({ credits }) => credits,
  },
  {
    name: 'cancel_order', route: 'POST /orders/{id}/cancel', cases: [...cases, unmapped, hidden],
    prepare: () => Promise.resolve({ order_id: 'O-418' }), effects: ({ cancellations }) => cancellations,
  },
  {
    name: 'void_credit', route: 'POST /credits/{receipt_id}/void', cases: [...cases, unmapped, twice],
    async prepare(open) {
      const { result } = await open.agent.credit({ session_id: unique('before'), call_id: 'given', arguments: { order_id: 'O-420' } });
      return { receipt_id: (result as { receipt_id: string }).receipt_id };
    },
    effects: ({ voids }) => voids,
  },
];

let house: House;
let open: Opened;
beforeAll(async () => {
  house = await openHouse(quickEnv());
  open = await openGateway(house);
});
afterAll(async () => {
  await open.gateway.close();
  await house.close();
});
beforeEach(() => house.shop.reset());

/** A call that was sent is never answered with what client libraries send again by themselves. */
function neverResent(answer: Sent, sent: number): void {
  if (sent > 0) expect(answer.http >= 500 || answer.http === 408, `${answer.http} ${answer.disposition}`).toBe(false);
}

for (const tool of tools) {
  describe(`${tool.name}, whatever happens to its answer`, () => {
    for (const [n, { name, fault, ends, effects, requests }] of tool.cases.entries()) {
      it(`${name}: the answer is what the books say, and a re-plan under a new call id changes nothing`, async () => {
        const args = await tool.prepare(open, n);
        const session = unique('s');
        const call = (id: string): Promise<Sent> => open.agent.call({ session_id: session, call_id: id, tool: tool.name, arguments: args });
        await house.shop.fault({ tool: tool.name, times: 1, ...fault });
        const sent = async (): Promise<number> => (await house.shop.books()).requests[tool.route] ?? 0;

        const first = await call('c-1');
        neverResent(first, await sent());
        const final = first.outcome === 'unknown' && first.disposition === 'unknown' ? await open.agent.settled(first.operation_id as string, 5_000) : first;
        neverResent(final, await sent());
        expect(final).toMatchObject(ends);
        expect(tool.effects(await house.shop.books())).toHaveLength(effects);
        expect(await sent()).toBe(requests);
        if (effects === 0) return;

        const replanned = await call('c-2');
        expect(replanned).toMatchObject({ operation_id: first.operation_id, duplicate_of: 'c-1', disposition: ends.disposition === 'review' ? 'review' : 'replayed', result: final.result });
        expect(await call('c-1')).toMatchObject({ operation_id: first.operation_id, disposition: replanned.disposition });
        expect(tool.effects(await house.shop.books())).toHaveLength(effects);
        expect(await sent()).toBe(requests);
      });
    }
  });
}

describe('a fault that ended without an effect frees the call', () => {
  it('after NOT_COMMITTED the same call is a new generation under the same upstream key, and takes effect once', async () => {
    const session = unique('s');
    await house.shop.fault({ tool: 'issue_credit', kind: '503_not_started', times: 3 });
    const refused = await open.agent.credit({ session_id: session, call_id: 'c-1' });
    expect(refused).toMatchObject({ code: 'NOT_COMMITTED', next_action: 'retry' });
    const again = await open.agent.credit({ session_id: session, call_id: 'c-1' });
    expect(again).toMatchObject(done);
    expect(again.operation_id).not.toBe(refused.operation_id);
    expect((await house.shop.books()).credits).toMatchObject([{ key: refused.operation_id }]);
  });

  it('429: rate_limited with Retry-After, shared by every caller of the service, no request before the time, one effect after it', async () => {
    const session = unique('s');
    await house.shop.fault({ tool: 'issue_credit', kind: '429', retry_after: 1 });
    const limited = await open.agent.credit({ session_id: session, call_id: 'c-1' });
    const since = performance.now();
    expect(limited).toMatchObject({ http: 429, disposition: 'rate_limited', next_action: 'retry', outcome: 'not_committed' });
    expect(limited.header('retry-after')).toBe('1');
    const { requests } = await house.shop.books();
    const meanwhile = await Promise.all([
      open.agent.credit({ session_id: session, call_id: 'c-1' }),
      open.as(house.keys.otherAgent).credit({ session_id: unique('s'), call_id: 'other', arguments: { order_id: 'O-420' } }),
      open.agent.call({ session_id: session, tool: 'get_order', arguments: { order_id: 'O-420' } }),
    ]);
    for (const answer of meanwhile) expect(answer).toMatchObject({ http: 429, disposition: 'rate_limited', next_action: 'retry' });
    expect((await house.shop.books()).requests).toEqual(requests);
    await new Promise((resolve) => setTimeout(resolve, 1_050 - (performance.now() - since)));
    expect(await open.agent.credit({ session_id: session, call_id: 'c-1' })).toMatchObject(done);
    expect((await house.shop.books()).credits).toHaveLength(1);
  });

  it('409 and 412 of the service are its refusals on a first attempt, by the contract’s code and next action', async () => {
    const { result } = await open.agent.credit({ session_id: unique('s'), call_id: 'c-1', arguments: { order_id: 'O-420' } });
    const args = { receipt_id: (result as { receipt_id: string }).receipt_id };
    const session = unique('s');
    expect(await open.agent.call({ session_id: session, call_id: 'v-1', intent_id: 'a', tool: 'void_credit', arguments: args })).toMatchObject(done);
    // Whoever gave the credit is told of that one void for ever; another caller of the same customer means one of their own.
    expect(await open.as(house.keys.otherAgent).call({ session_id: session, call_id: 'v-2', intent_id: 'b', tool: 'void_credit', arguments: args }))
      .toMatchObject({ http: 422, disposition: 'rejected', code: 'ALREADY_VOIDED', next_action: 'abandon', outcome: 'rejected' });
    expect(await open.agent.call({ session_id: session, call_id: 'v-3', tool: 'void_credit', arguments: { receipt_id: 'CR-NONE' } }))
      .toMatchObject({ http: 404, disposition: 'denied', code: 'NOT_FOUND', next_action: 'ask', outcome: 'rejected' });
  });
});

describe('what is not known yet', () => {
  it('is told as unknown or pending within the caller’s patience, with `wait`, and found out by recovery', async () => {
    for (const [fault, disposition] of [[{ kind: 'drop_before_commit' }, 'unknown'], [{ kind: 'accept_202', ms: 600 }, 'pending'], [{ kind: 'slow_reply', ms: 5_000 }, 'unknown']] as const) {
      await house.shop.reset();
      const session = unique('s');
      await house.shop.fault({ tool: 'issue_credit', ...fault });
      const early = await open.agent.credit({ session_id: session, call_id: 'c-1' }, { prefer: 'wait=0' });
      expect(early).toMatchObject({ http: 202, disposition: expect.stringMatching(/unknown|pending/) as string, next_action: 'wait', evidence_of_change: false });
      await new Promise((resolve) => setTimeout(resolve, 100));
      if (fault.kind !== 'slow_reply') expect(await open.agent.get(`/v1/operations/${early.operation_id}`)).toMatchObject({ http: 202, disposition, next_action: 'wait' });
      expect(await open.agent.credit({ session_id: session, call_id: 'c-9' }, { prefer: 'wait=0' })).toMatchObject({ next_action: 'wait', operation_id: early.operation_id });
      expect(await open.agent.settled(early.operation_id as string, 5_000)).toMatchObject(done);
      expect((await house.shop.books()).credits).toHaveLength(1);
    }
  });

  it('of an effect whose read-back fails is told as executed and unverified, with the read that shows it; verified later', async () => {
    await house.shop.fault({ tool: 'get_credit_receipt', kind: 'commit_then_500', times: 30 });
    const session = unique('s');
    const claimed = await open.agent.credit({ session_id: session, call_id: 'c-1' });
    expect(claimed).toMatchObject({
      http: 200, disposition: 'executed', next_action: 'verify', verified: false, outcome: 'committed',
      verify_with: { tool: 'get_credit_receipt', arguments: { request_key: claimed.operation_id } },
    });
    const verified = await open.agent.settled(claimed.operation_id as string, 15_000);
    expect(verified).toMatchObject({ ...done, result: claimed.result });
    expect((await house.shop.books()).credits).toHaveLength(1);
  });

  it('of an effect whose answer could not be read is told as executed without its result, which comes with the read-back that is owed, once; nothing else of the answer changes, and nothing after it', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'truncate_body' });
    await house.shop.fault({ tool: 'get_credit_receipt', kind: 'commit_then_500', times: 30 });
    const session = unique('s');
    const ask = (call: string): Promise<Sent> => open.agent.credit({ session_id: session, call_id: call });
    const claimed = await ask('c-1');
    const owed = { http: 200, outcome: 'committed', next_action: 'verify', verified: false, evidence_of_change: false, result: null };
    expect(claimed).toMatchObject({ ...owed, disposition: 'executed', verify_with: { tool: 'get_credit_receipt' } });
    expect(await ask('c-2')).toMatchObject({ ...owed, disposition: 'replayed', operation_id: claimed.operation_id, duplicate_of: 'c-1' });
    const known = await open.agent.settled(claimed.operation_id as string, 15_000);
    const [credit] = (await house.shop.books()).credits;
    expect(known).toMatchObject({ ...done, operation_id: claimed.operation_id, result: { receipt_id: credit?.receipt_id, amount: 2500 } });
    const changed = [...new Set([...Object.keys(claimed), ...Object.keys(known)])].filter((member) =>
      JSON.stringify(claimed[member as keyof Sent]) !== JSON.stringify(known[member as keyof Sent]) && !['trace', 'header'].includes(member));
    expect(changed.sort()).toEqual(['compensate', 'evidence_of_change', 'next_action', 'receipts', 'result', 'verified', 'verify_with']);
    for (const call of ['c-1', 'c-2', 'c-3']) expect(await ask(call)).toMatchObject({ disposition: 'replayed', operation_id: claimed.operation_id, result: known.result, receipts: known.receipts, verified: true, next_action: 'continue' });
    expect((await house.shop.books()).credits).toHaveLength(1);
  });
});
