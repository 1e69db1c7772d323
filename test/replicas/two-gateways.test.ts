import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openProxy } from '../../faults/proxy.js';
import type { Joints } from '../../src/main.js';
import { type Agent, type CallBody, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { startRedis, type TestRedis } from '../support/servers.js';
import { openSlowProxy } from '../support/slow-proxy.js';

const post = 'POST /orders/{id}/credits';

/** How many writes are in flight at once, over all gateways that were opened with it. */
function watchWrites(): { joints: Joints; most: () => number } {
  let now = 0;
  let most = 0;
  return {
    most: () => most,
    joints: {
      upstream: (upstream) => ({
        ...upstream,
        async send(request, options) {
          if (request.method !== 'POST') return upstream.send(request, options);
          most = Math.max(most, ++now);
          try {
            return await upstream.send(request, options);
          } finally {
            now -= 1;
          }
        },
      }),
    },
  };
}

/** As an honest client does with 409: the same call with the same ids, after the pause that it was told. */
async function insist(agent: Agent, body: CallBody): Promise<{ answer: Sent; busy: number }> {
  for (let busy = 0; busy < 30; busy++) {
    const answer = await agent.credit(body);
    if (answer.disposition !== 'in_progress') return { answer, busy };
    expect(answer).toMatchObject({ http: 409, next_action: 'wait' });
    expect(Number(answer.header('retry-after'))).toBeGreaterThan(0);
    await delay(Math.min(answer.retry_after_ms ?? 1_000, 300));
  }
  throw new Error('it is busy for ever');
}

async function tell(redis: TestRedis, work: (client: Redis) => Promise<unknown>): Promise<void> {
  const client = new Redis(redis.url);
  await work(client);
  client.disconnect();
}

const kinds = ['with Redis', 'without Redis', 'with Redis killed in the middle', 'with Redis flushed in the middle', 'with Redis stopped in the middle', 'with Redis dead from the start',
  'with a slow Redis', 'with Redis failed over in the middle'] as const;

/**
 * Two gateways on one database are one gateway (semantics.md sections 1 and 9): whatever becomes of Redis, one meant effect happens once
 * and everybody who proposed it is told the same. If this is lost, a second replica doubles what customers are paid.
 */
describe.each(kinds)('two gateways on one database, %s', (kind) => {
  let house: House;
  let redis: TestRedis | undefined;
  let standby: TestRedis | undefined;
  let proxy: { url: string; close(): Promise<void>; turnTo?(port: number): void; cut?(): void } | undefined;
  let both: [Opened, Opened];
  const watch = watchWrites();
  beforeAll(async () => {
    house = await openHouse();
  });
  afterAll(() => house.close());
  let session = '';
  beforeEach(async () => {
    redis = kind === 'without Redis' ? undefined : await startRedis();
    if (kind === 'with Redis dead from the start') await redis?.stop();
    if (redis && kind === 'with a slow Redis') proxy = await openSlowProxy(redis.url, 100);
    if (redis && kind === 'with Redis failed over in the middle') {
      standby = await startRedis();
      await tell(standby, (client) => client.replicaof('127.0.0.1', new URL((redis as TestRedis).url).port));
      proxy = await openProxy(redis.url);
    }
    const env = { CALLGATE_LOG_LEVEL: 'error', ...(redis ? { REDIS_URL: proxy?.url ?? redis.url } : {}) };
    both = [await openGateway(house, env, watch.joints), await openGateway(house, env, watch.joints)];
    await delay(100);
    await house.shop.reset();
    session = unique('s');
  });
  afterEach(async () => {
    await Promise.all(both.map(({ gateway }) => gateway.close()));
    if (redis && kind === 'with Redis stopped in the middle') process.kill(redis.pid, 'SIGCONT');
    if (kind !== 'with Redis dead from the start') await redis?.stop();
    await standby?.stop();
    await proxy?.close();
    standby = proxy = undefined;
  });
  const agentOf = (n: number): Agent => both[n % 2 as 0 | 1].agent;

  /** Resolves when what is to happen to Redis in the middle has happened. */
  async function middle(): Promise<void> {
    await delay(60);
    if (kind === 'with Redis killed in the middle') process.kill((redis as TestRedis).pid, 'SIGKILL');
    if (kind === 'with Redis stopped in the middle') process.kill((redis as TestRedis).pid, 'SIGSTOP');
    if (redis && standby) await failOver(redis, standby);
    if (kind !== 'with Redis flushed in the middle') return;
    const client = new Redis((redis as TestRedis).url);
    for (let n = 0; n < 10; n++) {
      await client.flushall();
      await delay(20);
    }
    client.disconnect();
  }

  /** What was not replicated yet is gone, whoever is still connected to the old one can only read there, and then is cut off. */
  async function failOver(from: TestRedis, to: TestRedis): Promise<void> {
    await tell(to, (client) => client.replicaof('NO', 'ONE'));
    await tell(from, (client) => client.replicaof('127.0.0.1', new URL(to.url).port));
    proxy?.turnTo?.(Number(new URL(to.url).port));
    await delay(100);
    proxy?.cut?.();
  }

  it.each([['the same call id', true], ['a call id of its own', false]])('200 equal proposals at once, each under %s, are one effect and 200 equal answers', async (_, sameId) => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 250 });
    const [answers] = await Promise.all([
      Promise.all(Array.from({ length: 200 }, (_, n) => insist(agentOf(n), { session_id: session, call_id: sameId ? 'c' : `c-${n}` }))),
      middle(),
    ]);
    const { credits, requests } = await house.shop.books();
    expect(credits).toHaveLength(1);
    expect(requests[post]).toBe(1);
    const [first] = answers;
    for (const { answer } of answers) {
      expect(answer).toMatchObject({ http: 200, outcome: 'committed', verified: true, operation_id: first?.answer.operation_id, result: first?.answer.result });
    }
    expect(answers.filter(({ answer }) => answer.disposition === 'executed')).toHaveLength(1);
  });

  it('different credits on one order are never in flight together, and each is decided on what the one before it left', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 60, times: 6 });
    const amounts = [700, 800, 900, 1_000, 1_100, 1_200]; // 5000 are refundable: the last ones do not fit
    const [answers] = await Promise.all([
      Promise.all(amounts.map((amount, n) => insist(agentOf(n), { session_id: `${session}-${n}`, call_id: 'c', arguments: { amount } }))),
      middle(),
    ]);
    expect(watch.most()).toBe(1);
    const { credits } = await house.shop.books();
    const total = credits.reduce((sum, credit) => sum + credit.amount, 0);
    expect(total).toBeLessThanOrEqual(5_000);
    const executed = answers.filter(({ answer }) => answer.disposition === 'executed');
    expect(executed.map(({ answer }) => (answer.result as { amount: number }).amount).sort()).toEqual(credits.map(({ amount }) => amount).sort());
    for (const { answer } of answers) {
      if (answer.disposition !== 'executed') expect(answer).toMatchObject({ disposition: 'precondition_failed', code: 'AMOUNT_EXCEEDS_BALANCE' });
    }
    expect(executed.length).toBeGreaterThanOrEqual(4);
  });
});
