import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../../src/embedded/free-port.js';
import { type House, openGateway, openHouse, type Sent, spawnGateway, type Spawned, unique } from '../support/gateway.js';
import { startRedis, type TestRedis } from '../support/servers.js';

/** The same as two-gateways.test.ts, between processes that share nothing: an unhandled rejection ends one of these. */
describe('two gateways as processes of their own', () => {
  let house: House;
  let redis: TestRedis;
  let both: [Spawned, Spawned];
  beforeAll(async () => {
    house = await openHouse();
    redis = await startRedis();
    both = await Promise.all([spawnGateway(house, { REDIS_URL: redis.url }), spawnGateway(house, { REDIS_URL: redis.url })]);
  });
  afterAll(async () => {
    expect(await Promise.all(both.map((gateway) => gateway.stop()))).toEqual([0, 0]);
    await redis.stop();
    await house.close();
  });
  beforeEach(() => house.shop.reset());

  async function insist(n: number, body: object): Promise<Sent> {
    for (let tries = 0; ; tries++) {
      const answer = await both[n % 2 as 0 | 1].agent.credit(body as Record<string, unknown>);
      if (answer.disposition !== 'in_progress' || tries > 30) return answer;
      await delay(200);
    }
  }

  async function twoHundred(meanwhile?: () => void): Promise<void> {
    const session = unique('s');
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 350 });
    const calls = Promise.all(Array.from({ length: 200 }, (_, n) => insist(n, { session_id: session, call_id: `c-${n % 50}` })));
    await delay(120);
    meanwhile?.();
    const answers = await calls;
    const { credits, requests } = await house.shop.books();
    expect(credits).toHaveLength(1);
    expect(requests['POST /orders/{id}/credits']).toBe(1);
    expect(new Set(answers.map(({ http, operation_id, result }) => JSON.stringify([http, operation_id, result]))).size).toBe(1);
    expect(answers.filter(({ disposition }) => disposition === 'executed')).toHaveLength(1);
  }

  it('200 equal proposals at once are one effect and 200 equal answers', () => twoHundred());

  it('also when Redis is killed in the middle, and afterwards without it', async () => {
    await twoHundred(() => process.kill(redis.pid, 'SIGKILL'));
    await house.shop.reset();
    await twoHundred();
  });

  it('10 orders of credits from both, one after another on each order, add up', async () => {
    const amounts = Array.from({ length: 12 }, (_, n) => 10 + n);
    const answers = await Promise.all(amounts.map((amount, n) => insist(n, { session_id: unique('s'), arguments: { order_id: n % 3 ? 'O-420' : 'O-417', amount } })));
    expect(answers.map(({ disposition }) => disposition)).toEqual(amounts.map(() => 'executed'));
    expect((await house.shop.books()).credits.map(({ amount }) => amount).sort()).toEqual([...amounts].sort());
  });
});

describe('a Redis that is dead from the start', () => {
  it('neither keeps a gateway from starting nor costs a call anything', async () => {
    const house = await openHouse();
    const dead = `redis://127.0.0.1:${await freePort()}`;
    const without = await openGateway(house);
    const began = performance.now();
    const withDead = await openGateway(house, { REDIS_URL: dead, CALLGATE_LOG_LEVEL: 'silent' });
    expect(performance.now() - began).toBeLessThan(5_000);
    const costs: [number[], number[]] = [[], []];
    for (let n = 0; n < 240; n++) {
      const sent = performance.now();
      const { agent } = n % 2 ? withDead : without;
      const answer = await agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420', amount: 1 } });
      expect(answer.disposition).toBe('executed');
      if (n >= 40) costs[n % 2 as 0 | 1].push(performance.now() - sent);
    }
    const [none, deadOne] = costs.map((of) => of.sort((x, y) => x - y)[of.length >> 1] as number) as [number, number];
    expect(deadOne).toBeLessThan(none * 1.3 + 1);
    await Promise.all([without.gateway.close(), withDead.gateway.close()]);
    await house.close();
  });
});
