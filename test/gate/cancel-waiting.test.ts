import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { extraOrder } from '../recovery/many-orders.js';
import { until } from '../recovery/process.js';
import { type Desk, type Desks, openDesks } from '../resilience/desk.js';
import { type CallBody, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/**
 * A call that waits in line can still be taken back: by its operation, or by hanging up (case-56). If this is lost, a user who said stop in time is
 * charged all the same; or is told that nothing happened while it did.
 */
const cancelled = { http: 409, disposition: 'cancelled', code: 'CANCELLED', next_action: 'abandon', outcome: 'not_committed', evidence_of_change: false };

/** An equal call that does not wait is told which operation it would become, while another one waits to become it. */
async function waitingId(of: Opened, call: CallBody): Promise<string> {
  let id: string | null = null;
  await until(async () => {
    const answer = await of.agent.call({ ...call, call_id: 'probe' }, { prefer: 'wait=0' });
    expect(answer.disposition).toBe('in_progress');
    id = answer.operation_id;
    return id !== null;
  }, 10_000);
  return id as unknown as string;
}

const cancel = (of: Opened, id: string): Promise<Sent> => of.agent.post(`/v1/operations/${id}/cancel`, '');

async function timed(work: Promise<Sent>): Promise<Sent & { at: number }> {
  return Object.assign(await work, { at: performance.now() });
}

describe('a call that waits for its turn on an entity', () => {
  let house: House;
  let open: Opened;
  let other: Opened;
  let n = 0;
  beforeAll(async () => {
    house = await openHouse();
    [open, other] = [await openGateway(house), await openGateway(house)];
  });
  afterAll(async () => {
    await Promise.all([open.gateway.close(), other.gateway.close()]);
    await house.close();
  });

  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  const creditOn = (order: string, amount: number): CallBody => ({ session_id: unique('s'), call_id: 'c', tool: 'issue_credit', arguments: { order_id: order, amount, currency: 'GBP' } });
  /** A credit on the order that its service answers late; the effect is there. */
  async function slowly(order: string, ms: number): Promise<{ first: Promise<Sent & { at: number }> }> {
    const before = (await creditsOf(order)).length;
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms });
    const first = timed(open.agent.call(creditOn(order, 100)));
    await until(async () => (await creditsOf(order)).length > before, 10_000);
    return { first };
  }

  it('is cancelled at once with no effect, its caller is told at once, and the record has it', async () => {
    const order = extraOrder(n++);
    const { first } = await slowly(order, 5_000);
    const call = creditOn(order, 200);
    const waiting = timed(open.agent.call(call));
    const id = await waitingId(open, call);
    expect(await open.agent.get(`/v1/operations/${id}`)).toMatchObject({ http: 409, disposition: 'in_progress', operation_id: id });
    const others = [house.keys.otherAgent, house.keys.otherSubject, house.keys.otherTenant].map((key) => open.as(key).post(`/v1/operations/${id}/cancel`, ''));
    for (const answer of await Promise.all(others)) expect(answer).toMatchObject({ http: 404, code: 'OPERATION_NOT_FOUND' });
    expect(await cancel(open, id)).toMatchObject({ ...cancelled, operation_id: id });
    const told = await waiting;
    expect(told).toMatchObject({ ...cancelled, operation_id: id, call_id: 'c' });
    expect(await first).toMatchObject({ disposition: 'executed' });
    expect(told.at).toBeLessThan((await first).at);
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }]);
    expect(await open.agent.get(`/v1/operations/${id}`)).toMatchObject({ ...cancelled, operation_id: id });
    expect(await cancel(other, id)).toMatchObject({ ...cancelled, operation_id: id });
    expect(await open.control().get(`/v1/operations/${id}`)).toMatchObject({ state: 'cancelled', effect: 'irreversible', receipts: [{ kind: 'decision', disposition: 'cancelled' }] });
    // Proposed anew it is another one.
    const anew = await open.agent.call({ ...call, call_id: 'anew' });
    expect(anew).toMatchObject({ disposition: 'executed' });
    expect(anew.operation_id).not.toBe(id);
  });

  it('with equal ones beside it, on another replica too: none of them is sent, and each is told', async () => {
    const order = extraOrder(n++);
    const { first } = await slowly(order, 1_500);
    const call = creditOn(order, 200);
    const all = [open, open, other, other].map(({ agent }, i) => agent.call({ ...call, call_id: `c-${i}` }));
    const id = await waitingId(open, call);
    expect(await waitingId(other, call)).toBe(id);
    expect(await cancel(other, id)).toMatchObject({ ...cancelled, operation_id: id });
    for (const answer of await Promise.all(all)) expect(answer).toMatchObject({ ...cancelled, operation_id: id });
    expect(await first).toMatchObject({ disposition: 'executed' });
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }]);
  });

  it('is cancelled at the other replica as well, where nothing is known of it; what waits nowhere is not found', async () => {
    const order = extraOrder(n++);
    const { first } = await slowly(order, 4_000);
    const call = creditOn(order, 200);
    const waiting = timed(open.agent.call(call));
    const id = await waitingId(open, call);
    expect(await other.as(house.keys.otherSubject).post(`/v1/operations/${id}/cancel`, '')).toMatchObject({ http: 404 });
    expect(await cancel(other, id)).toMatchObject({ ...cancelled, operation_id: id });
    expect(await waiting).toMatchObject({ ...cancelled, operation_id: id });
    expect((await waiting).at).toBeLessThan((await first).at);
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }]);
    expect(await cancel(other, `op_${'0'.repeat(32)}`)).toMatchObject({ http: 404, code: 'OPERATION_NOT_FOUND' });
  });

  it('behind others of its own batch: its place in the answer says cancelled, and the rest of the batch is untouched', async () => {
    const order = extraOrder(n++);
    const [session, free] = [unique('s'), extraOrder(n++)];
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 2_000 });
    const credit = (id: string, on: string, amount: number) => ({ call_id: id, tool: 'issue_credit', arguments: { order_id: on, amount, currency: 'GBP' } });
    const batch = open.agent.post('/v1/batches', JSON.stringify({ session_id: session, calls: [credit('a', order, 100), credit('b', order, 200), credit('c', free, 300)] })) as unknown as Promise<{ results: Sent[] }>;
    await until(async () => (await creditsOf(order)).length === 1, 10_000);
    const id = await waitingId(open, { session_id: session, ...credit('b', order, 200) });
    expect(await cancel(open, id)).toMatchObject({ ...cancelled, operation_id: id });
    const { results } = await batch;
    expect(results).toMatchObject([{ disposition: 'executed' }, { disposition: 'cancelled', code: 'CANCELLED', operation_id: id, call_id: 'b' }, { disposition: 'executed' }]);
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }]);
    expect(await creditsOf(free)).toHaveLength(1);
  });

  it('case-56: its client hangs up: it leaves the line and is not sent; the same call again is', async () => {
    const order = extraOrder(n++);
    const { first } = await slowly(order, 1_500);
    const call = creditOn(order, 200);
    const gone = new AbortController();
    const waiting = fetch(`${open.agent.url}/v1/calls`, {
      method: 'POST', signal: gone.signal, body: JSON.stringify(call), headers: { authorization: `Bearer ${open.agent.key}`, 'content-type': 'application/json' },
    });
    await waitingId(open, call);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    const receipts = async () => ((await open.control().get(`/v1/receipts?session_id=${String(call['session_id'])}`)) as unknown as { items: { disposition: string; operation_id: string | null }[] }).items;
    await until(async () => (await receipts()).length === 1, 10_000);
    expect(await receipts()).toMatchObject([{ disposition: 'cancelled', operation_id: null }]);
    expect(await first).toMatchObject({ disposition: 'executed' });
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }]);
    expect(await open.agent.call(call)).toMatchObject({ disposition: 'executed' });
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }, { amount: 200 }]);
  });

  it('case-63: its replica is told to stop: it is told to go elsewhere at once, and the other replica executes it', async () => {
    const leaving = await openGateway(house, { CALLGATE_DRAIN_TIMEOUT: '8s' });
    const order = extraOrder(n++);
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 3_000 });
    const first = timed(leaving.agent.call(creditOn(order, 100)));
    await until(async () => (await creditsOf(order)).length === 1, 10_000);
    const call = creditOn(order, 200);
    const waiting = timed(leaving.agent.call(call));
    await waitingId(leaving, call);
    const closed = leaving.gateway.close();
    const told = await waiting;
    expect(told).toMatchObject({ http: 503, disposition: 'unavailable', code: 'DRAINING', next_action: 'retry' });
    expect(await first).toMatchObject({ disposition: 'executed' });
    expect(told.at).toBeLessThan((await first).at);
    expect(await open.agent.call(call)).toMatchObject({ disposition: 'executed' });
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }, { amount: 200 }]);
    await closed;
  });

  it('cancelled and sent in the same moment, on two replicas: an effect exactly where the answer is not that it was cancelled, and both are told the same (property)', async () => {
    let [kept, sent] = [0, 0];
    await fc.assert(fc.asyncProperty(fc.integer({ min: 40, max: 240 }), fc.array(fc.integer({ min: -30, max: 60 }), { minLength: 3, maxLength: 3 }), fc.boolean(), fc.boolean(), async (slowMs, after, twice, elsewhere) => {
      const played = await Promise.all(after.map(async (ms) => {
        const order = extraOrder(n++);
        const { first } = await slowly(order, slowMs);
        const call = creditOn(order, 20);
        const answers = [open.agent.call(call), ...(twice ? [other.agent.call({ ...call, call_id: 'd' })] : [])];
        const probe = await open.agent.call({ ...call, call_id: 'probe' }, { prefer: 'wait=0' });
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, slowMs - 40 + ms)));
        const verdict = probe.operation_id === null ? null : await cancel(elsewhere ? other : open, probe.operation_id);
        const [, ...told] = await Promise.all([first, ...answers]);
        return { order, told, verdict };
      }));
      for (const { order, told, verdict } of played) {
        const effects = (await creditsOf(order)).filter(({ amount }) => amount === 20).length;
        for (const answer of told) expect(answer.disposition).toMatch(/^(executed|replayed|cancelled)$/);
        const isCancelled = told.map(({ disposition }) => disposition === 'cancelled');
        expect(new Set(isCancelled).size).toBe(1);
        expect(effects).toBe(isCancelled[0] ? 0 : 1);
        if (verdict) expect(verdict.code).toMatch(isCancelled[0] ? /^CANCELLED$/ : /^(TOO_LATE|OPERATION_NOT_FOUND)$/);
        if (isCancelled[0]) kept++; else sent++;
      }
    // In time for certain, and too late for certain, whatever the others come to on a busy machine.
    }), { numRuns: 12, endOnFailure: true, examples: [[4_000, [-4_000, -4_000, -4_000], false, false], [40, [5_000, 5_000, 5_000], false, false]] });
    console.log(`${kept} were cancelled, ${sent} were sent`);
    expect(kept).toBeGreaterThan(0);
    expect(sent).toBeGreaterThan(0);
  }, 120_000);
});

describe('a call that waits for its service', () => {
  let all: Desks;
  let open: Opened;
  let desk: Desk;
  beforeAll(async () => {
    all = await openDesks({ slow: { concurrency: 1, deadline: '1m', attempts: 5, elapsed: '40s' } });
    open = await openGateway(all.house);
    desk = all.desks['slow'] as Desk;
  });
  afterAll(async () => {
    desk.thaw();
    await open.gateway.close();
    await all.close();
  });

  it('for a place: it leaves the line at once, and whoever stands behind it moves up', async () => {
    desk.mend();
    desk.turns = ['freeze'];
    const first = open.agent.call({ session_id: unique('s'), tool: 'slow_look', arguments: { id: 'x' } }, { prefer: 'wait=30' });
    await desk.becomes(() => desk.calls.length === 1);
    const call = { session_id: unique('s'), call_id: 'c', tool: 'slow_note', arguments: { text: unique('t') } };
    const waiting = open.agent.call(call, { prefer: 'wait=30' });
    const id = await waitingId(open, call);
    const behind = open.agent.call({ session_id: unique('s'), tool: 'slow_note', arguments: { text: unique('t') } }, { prefer: 'wait=30' });
    expect(await cancel(open, id)).toMatchObject({ ...cancelled, operation_id: id });
    expect(await waiting).toMatchObject({ ...cancelled, operation_id: id });
    expect(desk.calls).toHaveLength(1);
    desk.thaw();
    expect(await behind).toMatchObject({ disposition: 'executed' });
    await first;
    expect(desk.effects.map(({ key }) => key)).not.toContain(id);
  }, 60_000);

  it('for the end of a pause, and its client hangs up: nothing is written for it, then or afterwards', async () => {
    desk.mend();
    desk.always = { status: 503, headers: { 'retry-after': '10' } };
    const session = unique('s');
    const gone = new AbortController();
    const waiting = fetch(`${open.agent.url}/v1/calls`, {
      method: 'POST', signal: gone.signal, headers: { authorization: `Bearer ${open.agent.key}`, 'content-type': 'application/json', prefer: 'wait=40' },
      body: JSON.stringify({ session_id: session, call_id: 'c', tool: 'slow_ship', arguments: { id: 'item' } }),
    });
    await desk.becomes(() => desk.calls.length === 1);
    desk.always = 'commit';
    gone.abort();
    await expect(waiting).rejects.toThrow();
    const receipts = async () => ((await open.control().get(`/v1/receipts?session_id=${session}`)) as unknown as { items: { disposition: string }[] }).items;
    await until(async () => (await receipts()).length === 1, 9_000); // before the pause has ended
    expect(await receipts()).toMatchObject([{ disposition: 'cancelled' }]);
    // The pause is over, and the entity is free.
    await until(async () => (await open.agent.call({ session_id: unique('s'), call_id: 'c', tool: 'slow_ship', arguments: { id: 'item' } })).disposition === 'executed', 20_000);
    expect(desk.calls.filter(({ path }) => path === '/ships')).toHaveLength(1);
    expect(await receipts()).toHaveLength(1);
  }, 60_000);
});
