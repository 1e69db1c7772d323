/**
 * Budgets as agents meet them, over two gateways on one database (semantics.md section 5; cases 07 and 37). What was started is counted in the
 * books of the service: a gateway's own count would say what it believes, and the bill says what it did.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Ledger } from '../../src/gate/ports.js';
import { extraOrder } from '../recovery/many-orders.js';
import { spawnFused } from '../recovery/process.js';
import { quickEnv } from '../recovery/quick.js';
import { type Agent, type CallBody, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

let house: House;
let both: [Opened, Opened];
beforeAll(async () => {
  house = await openHouse(quickEnv({ CALLGATE_BUDGETS_PROPOSALS: '3', CALLGATE_BUDGETS_TURNS: '32' }));
  both = [await openGateway(house), await openGateway(house)];
});
afterAll(async () => {
  await Promise.all(both.map(({ gateway }) => gateway.close()));
  await house.close();
});

let orders = 0;
const nextOrder = (): string => extraOrder(orders++);
const agent = (n: number): Agent => (both[n % 2] as Opened).agent;
const application = (): Agent => both[0].control(house.keys.application);
const credits = async (): Promise<number> => (await house.shop.books()).credits.length;
const posts = async (): Promise<number> => (await house.shop.books()).requests['POST /orders/{id}/credits'] ?? 0;
interface Shown { budgets: Record<'executions' | 'proposals' | 'turns', { limit: number; used: number }> }
const shown = async (id: string): Promise<Shown['budgets']> => ((await application().get(`/v1/sessions/${id}`)) as unknown as Shown).budgets;

async function created(budgets: object, more: object = {}): Promise<string> {
  const id = unique('s');
  expect((await application().put(`/v1/sessions/${id}`, { budgets, ...more })).http).toBe(200);
  return id;
}

async function final(send: () => Promise<Sent>): Promise<Sent> {
  for (let tries = 0; ; tries++) {
    const answer = await send();
    if (!['wait', 'retry'].includes(answer.next_action) || tries > 200) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function expectExhausted(answer: Sent, budget: object): void {
  expect(answer).toMatchObject({ http: 429, disposition: 'budget_exhausted', code: 'BUDGET_EXHAUSTED', next_action: expect.stringMatching(/^(abandon|escalate)$/) as string, budget });
  expect(answer.header('x-should-retry')).toBe('false');
  expect(answer.header('retry-after')).toBeNull();
}

describe('executions of a session', () => {
  it('20 turns of abuse in parallel on two replicas: exactly the limit is started, and everybody else is told which budget', { timeout: 60_000 }, async () => {
    const session = await created({ executions: 6 });
    const before = await credits();
    const calls = Array.from({ length: 20 }, (_, turn) => Array.from({ length: 3 }, (_, n): CallBody => ({
      session_id: session, turn_id: `t-${turn}`, call_id: `c-${n}`, arguments: { order_id: extraOrder(20 + turn * 3 + n), amount: 10 },
    }))).flat();
    const answers = await Promise.all(calls.map((call, n) => final(() => agent(n).credit(call))));
    expect(answers.filter(({ outcome }) => outcome === 'committed')).toHaveLength(6);
    const refused = answers.filter(({ outcome }) => outcome !== 'committed');
    for (const answer of refused) expectExhausted(answer, { kind: 'executions', of: 'session', per: 'session', limit: 6, used: 6 });
    expect(await credits() - before).toBe(6);
    expect((await shown(session)).executions).toEqual({ limit: 6, used: 6 });

    const [receipt] = ((await both[0].control().get(`/v1/receipts?session_id=${session}&disposition=budget_exhausted&limit=1`)) as unknown as { items: { budget: object }[] }).items;
    expect(receipt?.budget).toEqual({ kind: 'executions', of: 'session', per: 'session', limit: 6, used: 6 });
    const again = await agent(1).credit(calls[answers.findIndex(({ outcome }) => outcome === 'committed')]);
    expect(again).toMatchObject({ disposition: 'replayed', outcome: 'committed' });
  });

  it('may be raised and lowered by the application, and by nobody else', async () => {
    const session = await created({ executions: 1 });
    const propose = (): Promise<Sent> => agent(0).credit({ session_id: session, arguments: { order_id: nextOrder(), amount: 10 } });
    expect(await propose()).toMatchObject({ disposition: 'executed' });
    expectExhausted(await propose(), { kind: 'executions', limit: 1, used: 1 });
    await application().put(`/v1/sessions/${session}`, { budgets: { executions: 2 } });
    expect(await propose()).toMatchObject({ disposition: 'executed' });
    await application().put(`/v1/sessions/${session}`, { budgets: { executions: 1 } });
    expectExhausted(await propose(), { kind: 'executions', limit: 1, used: 2 });
    expect((await shown(session)).executions).toEqual({ limit: 1, used: 2 });

    const raised = { budgets: { executions: 50 } };
    expect(await both[0].as(house.keys.agent).put(`/v1/sessions/${session}`, raised)).toMatchObject({ http: 404 });
    expect(await both[0].control(house.keys.agent).put(`/v1/sessions/${session}`, raised)).toMatchObject({ http: 403, code: 'WRONG_PLANE' });
    expect(await both[0].control(house.keys.auditor).put(`/v1/sessions/${session}`, raised)).toMatchObject({ http: 403, code: 'FORBIDDEN' });
    expect((await shown(session)).executions.limit).toBe(1);
  });

  it('are drawn from the topmost parent by all that hang below it', async () => {
    const root = await created({ executions: 2 });
    const [left, right] = [await created({}, { parent_session_id: root }), await created({}, { parent_session_id: root })];
    const started = await Promise.all([left, right, root, left].map((id, n) => final(() => agent(n).credit({ session_id: id, arguments: { order_id: nextOrder(), amount: 10 } }))));
    expect(started.filter(({ outcome }) => outcome === 'committed')).toHaveLength(2);
    expect((await shown(right)).executions).toEqual({ limit: 2, used: 2 });
  });

  it('come back when not one byte left, and not for an outcome that is unknown', { timeout: 60_000 }, async () => {
    const session = await created({ executions: 5 });
    await house.shop.fault({ tool: 'issue_credit', kind: 'drop_before_commit' });
    const unknown = await agent(0).credit({ session_id: session, arguments: { order_id: nextOrder(), amount: 10 } }, { prefer: 'wait=0' });
    expect((await shown(session)).executions.used).toBe(1);
    expect(await agent(0).settled(unknown.operation_id as string)).toMatchObject({ disposition: 'executed', outcome: 'committed' });
    expect((await shown(session)).executions.used).toBe(1); // sent twice, started once

    const elsewhere = await openHouse();
    const open = await openGateway(elsewhere);
    const control = open.control(elsewhere.keys.application);
    await control.put(`/v1/sessions/${session}`, { budgets: { executions: 1 } });
    await elsewhere.service.close();
    const voided = (n: number): Promise<Sent> => open.agent.call({ session_id: session, tool: 'void_credit', arguments: { receipt_id: `CR-${n}` } });
    for (const n of [1, 2]) expect(await voided(n)).toMatchObject({ disposition: 'failed', code: 'UPSTREAM_UNREACHABLE' });
    expect(((await control.get(`/v1/sessions/${session}`)) as unknown as Shown).budgets.executions).toEqual({ limit: 1, used: 0 });
    await open.gateway.close();
  });

  it('stay charged when the replica is killed after it reserved, and recovery draws none of its own', { timeout: 60_000 }, async () => {
    const session = await created({ executions: 1 });
    const order = nextOrder();
    const before = await posts();
    const doomed = await spawnFused(house, 'after_reserve');
    await doomed.agent.credit({ session_id: session, call_id: 'c', arguments: { order_id: order, amount: 10 } }).catch(() => undefined);
    expect(await doomed.ended).toBe('SIGKILL');
    expect((await shown(session)).executions).toEqual({ limit: 1, used: 1 });
    expectExhausted(await final(() => agent(0).credit({ session_id: session, call_id: 'd', arguments: { order_id: nextOrder(), amount: 10 } })), { limit: 1, used: 1 });
    expect(await final(() => agent(1).credit({ session_id: session, call_id: 'c', arguments: { order_id: order, amount: 10 } }))).toMatchObject({ outcome: 'committed' });
    expect((await shown(session)).executions).toEqual({ limit: 1, used: 1 });
    expect(await posts() - before).toBe(1);
  });

  it('case-07: a loop that repeats one write seven times has one effect and draws one execution', async () => {
    const session = await created({ executions: 5 });
    const order = nextOrder();
    const before = await credits();
    for (let n = 0; n < 7; n++) {
      const answer = await agent(n).credit({ session_id: session, turn_id: `t-${n}`, call_id: `c-${n}`, arguments: { order_id: order, amount: 10 } });
      expect(answer).toMatchObject({ disposition: n === 0 ? 'executed' : 'replayed', next_action: 'continue' });
    }
    expect(await credits() - before).toBe(1);
    expect((await shown(session)).executions.used).toBe(1);
  });
});

describe('re-proposals of one tool for one intent', () => {
  const tooMuch = { order_id: 'O-417', amount: 9_999 };
  const invalid = { order_id: 'O-417', amount: 'lots' };

  it('three refusals of whatever kind, then no more; another tool, intent or session is untouched, and nothing was sent', async () => {
    const session = unique('s');
    const before = await posts();
    expect(await agent(0).credit({ session_id: session, intent_id: 'i', arguments: tooMuch })).toMatchObject({ code: 'AMOUNT_EXCEEDS_BALANCE' });
    expect(await agent(1).credit({ session_id: session, intent_id: 'i', arguments: invalid })).toMatchObject({ disposition: 'invalid_arguments' });
    expect(await agent(0).credit({ session_id: session, intent_id: 'i', arguments: { order_id: 'O-418' } })).toMatchObject({ disposition: 'transition_error' });
    const good = { session_id: session, intent_id: 'i', arguments: { order_id: nextOrder(), amount: 10 } };
    const budget = { kind: 'proposals', of: 'session', per: 'tool and intent', limit: 3, used: 3, tool: 'issue_credit', intent_id: 'i' };
    expectExhausted(await agent(1).credit(good), budget);
    expectExhausted(await agent(0).credit({ ...good, arguments: invalid }), budget);
    expectExhausted(await agent(1).credit({ ...good, call_id: 'again', arguments: tooMuch }), budget);

    expect(await agent(0).credit({ ...good, intent_id: 'j' })).toMatchObject({ disposition: 'executed' });
    expect(await agent(0).call({ session_id: session, intent_id: 'i', tool: 'get_order', arguments: { order_id: 'O-417' } })).toMatchObject({ disposition: 'executed' });
    expect(await agent(0).credit({ ...good, session_id: unique('s'), arguments: { order_id: nextOrder(), amount: 10 } })).toMatchObject({ disposition: 'executed' });
    expect(await both[0].as(house.keys.otherAgent).credit({ ...good, intent_id: 'i', arguments: { order_id: nextOrder(), amount: 10 } })).toMatchObject({ disposition: 'executed' });
    expect(await posts() - before).toBe(3);
  });

  it('20 refusals at once over two replicas: exactly three verdicts, and the rest is told that it is enough', async () => {
    const session = unique('s');
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => agent(n).credit({ session_id: session, arguments: invalid })));
    expect(answers.filter(({ disposition }) => disposition === 'invalid_arguments')).toHaveLength(3);
    for (const answer of answers.filter(({ disposition }) => disposition !== 'invalid_arguments')) expectExhausted(answer, { kind: 'proposals', limit: 3, used: 3 });
  });

  it('a replay, a rejection by the service, a failed and a busy call count for nothing; what was answered is told also when it is used up', async () => {
    const session = unique('s');
    const done = { session_id: session, call_id: 'done', arguments: { order_id: nextOrder(), amount: 10 } };
    for (let n = 0; n < 5; n++) expect(await agent(n).credit(done)).toMatchObject({ outcome: 'committed' });
    for (let n = 0; n < 4; n++) {
      await house.shop.fault({ tool: 'issue_credit', kind: '503_not_started', times: 3 });
      expect(await agent(n).credit({ session_id: session, call_id: `r-${n}`, arguments: { order_id: nextOrder(), amount: 10 } })).toMatchObject({ disposition: 'rejected' });
    }
    for (let n = 0; n < 3; n++) expect(await agent(n).credit({ session_id: session, call_id: `x-${n}`, arguments: tooMuch })).toMatchObject({ code: 'AMOUNT_EXCEEDS_BALANCE' });
    expectExhausted(await agent(0).credit({ session_id: session, arguments: { order_id: nextOrder(), amount: 10 } }), { kind: 'proposals' });
    expect(await agent(1).credit(done)).toMatchObject({ disposition: 'replayed', outcome: 'committed' });
  });

  it('a tool that does not exist, again and again, under one name', async () => {
    const session = unique('s');
    const ghost = (n: number): Promise<Sent> => agent(n).call({ session_id: session, tool: 'issue_kredit', arguments: {} });
    for (let n = 0; n < 3; n++) expect(await ghost(n)).toMatchObject({ http: 404, disposition: 'blocked_tool' });
    expectExhausted(await ghost(3), { kind: 'proposals', tool: 'issue_kredit' });
  });
});

describe('turns of a session', () => {
  it('exactly the limit over two replicas; a turn that is sent again draws none, nor does a call without one', async () => {
    const session = await created({ turns: 4 });
    const read = (n: number, turn?: string): Promise<Sent> => agent(n).call({
      session_id: session, ...(turn === undefined ? {} : { turn_id: turn }), tool: 'get_order', arguments: { order_id: extraOrder(n) },
    });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => read(n, `t-${n}`)));
    const went = answers.flatMap(({ disposition }, n) => (disposition === 'executed' ? [n] : []));
    expect(went).toHaveLength(4);
    for (const answer of answers.filter(({ disposition }) => disposition !== 'executed')) expectExhausted(answer, { kind: 'turns', of: 'session', limit: 4, used: 4 });
    for (const n of went) expect(await read(n + 1, `t-${n}`)).toMatchObject({ disposition: 'executed' });
    expect(await read(70)).toMatchObject({ disposition: 'executed' });
    expect((await shown(session)).turns).toEqual({ limit: 4, used: 4 });
  });

  it('a turn whose only call is refused for its shape is a turn', async () => {
    const session = await created({ turns: 1, proposals: 10 });
    const wrong = (turn: string): Promise<Sent> => agent(0).credit({ session_id: session, turn_id: turn, arguments: { amount: 'lots' } });
    expect(await wrong('1')).toMatchObject({ disposition: 'invalid_arguments' });
    expect(await wrong('1')).toMatchObject({ disposition: 'invalid_arguments' });
    expectExhausted(await wrong('2'), { kind: 'turns', limit: 1, used: 1 });
  });
});

describe('a happy call', () => {
  it('costs no statement for its budgets: one look-up and two commits, in a created session and beside one', async () => {
    const sessions = [await created({}), unique('s')];
    for (const session of sessions) {
      const counts: Record<string, number> = {};
      const open = await openGateway(house, {}, {
        ledger: (ledger) => Object.fromEntries(Object.entries(ledger).map(([name, method]) => [name, typeof method !== 'function' ? method : (...given: unknown[]) => {
          counts[name] = (counts[name] ?? 0) + 1;
          return (method as (...given: unknown[]) => unknown)(...given);
        }])) as unknown as Ledger,
      });
      expect(await open.agent.credit({ session_id: session, arguments: { order_id: nextOrder(), amount: 10 } })).toMatchObject({ disposition: 'executed' });
      await open.gateway.close();
      expect(counts).toEqual({ find: 1, reserve: 1, transition: 1 });
    }
  });
});
