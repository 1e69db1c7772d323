import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { startRedis, type TestRedis } from '../support/servers.js';

/** Polls of a call that waits lie 500 ms apart by then, the next one 400 ms after the end of the first: being woken cannot be taken for it. */
const upstreamMs = 1_300;
const atOnceMs = 250;

/** Whoever waits for another's call is told when it ends, not when a timer says so; a waiting agent costs a waiting customer. */
describe.each(['with Redis', 'without Redis'] as const)('waiting over replicas, %s', (kind) => {
  let house: House;
  let redis: TestRedis | undefined;
  let a: Opened;
  let b: Opened;
  beforeAll(async () => {
    house = await openHouse();
    if (kind === 'with Redis') redis = await startRedis();
    const env = redis ? { REDIS_URL: redis.url } : {};
    [a, b] = [await openGateway(house, env), await openGateway(house, env)];
    await delay(200);
  });
  afterAll(async () => {
    await Promise.all([a.gateway.close(), b.gateway.close()]);
    await redis?.stop();
    await house.close();
  });
  let session = '';
  beforeEach(async () => {
    await house.shop.reset();
    session = unique('s');
  });

  interface Timed { answer: Sent; at: number }
  const timed = async (work: Promise<Sent>): Promise<Timed> => ({ answer: await work, at: performance.now() });

  /** How much later than the first caller those were answered who came while it ran, in milliseconds; the worst of them. */
  async function lagBehindFirst(duplicates: () => Promise<Timed>[]): Promise<number> {
    const lags: number[] = [];
    for (let n = 0; n < 3; n++) {
      await house.shop.reset();
      session = unique('s');
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: upstreamMs });
      const first = timed(a.agent.credit({ session_id: session, call_id: 'c' }));
      await delay(100);
      const others = await Promise.all(duplicates());
      const { answer, at } = await first;
      expect(answer.disposition).toBe('executed');
      for (const other of others) {
        expect(other.answer).toMatchObject({ http: 200, operation_id: answer.operation_id, result: answer.result });
        lags.push(other.at - at);
      }
      expect((await house.shop.books()).credits).toHaveLength(1);
    }
    return Math.max(...lags);
  }
  const duplicate = (agent: Agent): Promise<Timed> => timed(agent.credit({ session_id: session, call_id: unique('c') }));

  it('a duplicate on the same gateway is answered as soon as the first', async () => {
    expect(await lagBehindFirst(() => [duplicate(a.agent), duplicate(a.agent)])).toBeLessThan(atOnceMs);
  });

  it('a duplicate on the other gateway attaches: woken at once over Redis, by the next poll without', async () => {
    expect(await lagBehindFirst(() => [duplicate(b.agent), duplicate(b.agent)])).toBeLessThan(redis ? atOnceMs : 1_000);
  });

  it('a GET that waits on the other gateway ends when the call does', async () => {
    expect(await lagBehindFirst(() => [
      (async () => {
        const known = await b.agent.credit({ session_id: session, call_id: unique('c') }, { prefer: 'wait=0' });
        return timed(b.agent.get(`/v1/operations/${known.operation_id}`, { prefer: 'wait=5' }));
      })(),
    ])).toBeLessThan(redis ? atOnceMs : 700);
  });

  it('another credit on the order goes ahead on the other gateway as soon as the first is done', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: upstreamMs });
    const first = timed(a.agent.credit({ session_id: session, call_id: 'c', arguments: { amount: 100 } }));
    await delay(100);
    const second = await timed(b.agent.credit({ session_id: unique('s'), call_id: 'c', arguments: { amount: 200 } }));
    const { answer, at } = await first;
    expect([answer.disposition, second.answer.disposition]).toEqual(['executed', 'executed']);
    expect(second.at - at).toBeGreaterThan(0);
    expect(second.at - at).toBeLessThan(redis ? atOnceMs : 1_000);
  });

  it('what was answered `respond-async` by one gateway is followed on the other', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: upstreamMs });
    const began = performance.now();
    const accepted = await a.agent.credit({ session_id: session, call_id: 'c' }, { prefer: 'respond-async' });
    expect(accepted).toMatchObject({ http: 202, disposition: 'pending', next_action: 'wait' });
    expect(accepted.header('preference-applied')).toBe('respond-async');
    expect(performance.now() - began).toBeLessThan(upstreamMs);
    const now = await b.agent.get(`/v1/operations/${accepted.operation_id}`);
    expect(now).toMatchObject({ http: 202, next_action: 'wait' });
    expect(performance.now() - began).toBeLessThan(upstreamMs);
    const later = await b.agent.get(`/v1/operations/${accepted.operation_id}`, { prefer: 'wait=5' });
    expect(later).toMatchObject({ http: 200, disposition: 'executed', verified: true, operation_id: accepted.operation_id });
    const again = await b.agent.credit({ session_id: session, call_id: 'c' }, { prefer: 'respond-async' });
    expect(again).toMatchObject({ http: 200, disposition: 'replayed', result: later.result });
    expect((await house.shop.books()).credits).toHaveLength(1);
  });

  it('a wait ends with the patience of whoever waits, and says that the call goes on', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 1_600 });
    const first = a.agent.credit({ session_id: session, call_id: 'c' });
    await delay(150);
    const began = performance.now();
    const waited = await b.agent.credit({ session_id: session, call_id: 'c' }, { prefer: 'wait=1' });
    expect(waited).toMatchObject({ http: 409, disposition: 'in_progress', next_action: 'wait' });
    const took = performance.now() - began;
    expect(took).toBeGreaterThan(900);
    expect(took).toBeLessThan(1_400);
    expect(await first).toMatchObject({ disposition: 'executed' });
    expect(await b.agent.credit({ session_id: session, call_id: 'c' })).toMatchObject({ disposition: 'replayed' });
  });
});

/** case-08: two equal requests at once both execute, because the second looked before the first had written. */
describe('three gateways', () => {
  it('50 equal sends at once on 3 nodes are one effect', async () => {
    const house = await openHouse();
    const redis = await startRedis();
    const nodes = await Promise.all([0, 1, 2].map(() => openGateway(house, { REDIS_URL: redis.url })));
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 400 });
    const key = unique('k-8');
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => (nodes[n % 3] as Opened).agent.credit({ session_id: unique('s') }, { 'idempotency-key': key })));
    const { credits, requests } = await house.shop.books();
    expect(credits).toHaveLength(1);
    expect(requests['POST /orders/{id}/credits']).toBe(1);
    expect(new Set(answers.map(({ operation_id, http }) => `${http} ${operation_id}`)).size).toBe(1);
    expect(answers.filter(({ disposition }) => disposition === 'executed')).toHaveLength(1);
    await Promise.all(nodes.map(({ gateway }) => gateway.close()));
    await redis.stop();
    await house.close();
  });
});
