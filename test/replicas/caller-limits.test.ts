/**
 * A bound that each replica counts for itself is as many times the bound as there are replicas. Over two of them it has to be the bound; a
 * replica that dies must not keep its places, and a Redis that dies must neither shut the door nor open it for everybody.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Leave, limitCallers } from '../../src/http/caller-limits.js';
import type { CallerBound } from '../../src/http/caller-share.js';
import { openRedisLocks, type RedisLocks } from '../../src/locks/redis-locks.js';
import type { ShareRequest } from '../../src/ports.js';
import { type House, openHouse, type Sent, spawnGateway, type Spawned, unique } from '../support/gateway.js';
import { startRedis, type TestRedis } from '../support/servers.js';

const none: CallerBound = { perSecond: 0, atOnce: 0 };
const caller = { tenant: 'acme', id: 'agent-1' };

interface Replica { enter(of?: typeof caller): Promise<Leave | string>; locks: RedisLocks; questions: ShareRequest[]; alone: () => number; stop(): void }
const open = new Set<Replica>();

async function replica(url: string, principal: CallerBound, { tenant = none, aloneShare = 1, answerMs = 250 } = {}): Promise<Replica> {
  const locks = openRedisLocks({ url, installation: 'test', answerMs });
  const questions: ShareRequest[] = [];
  let alone = 0;
  const limits = limitCallers({
    principal, tenant, aloneShare, metrics: { refused: () => undefined, decidedAlone: () => { alone += 1; } },
    shared: { ...locks.bounds, lend: (name, request) => {
      questions.push(request);
      return locks.bounds.lend(name, request);
    } },
  });
  const made: Replica = {
    locks, questions, alone: () => alone,
    async enter(of = caller) {
      const entered = await limits.enter(of);
      return typeof entered === 'function' ? entered : entered.refused;
    },
    stop: limits.stop,
  };
  open.add(made);
  await expect.poll(() => locks.reachable(), { timeout: 5_000 }).toBe(true);
  return made;
}
const letIn = (entries: (Leave | string)[]): Leave[] => entries.filter((entry) => typeof entry === 'function');
/** At once: before anything else could happen, however busy the machine. */
const inThisTurn = <T>(work: Promise<T>): Promise<T> => Promise.race([work, new Promise<never>((_, reject) => { setImmediate(reject, new Error('it waited for something')); })]);
const times = <T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, (_, n) => work(n)));

describe('bounds over replicas', () => {
  let redis: TestRedis;
  let probe: Redis;
  beforeAll(async () => {
    redis = await startRedis();
    probe = new Redis(redis.url);
  });
  afterAll(async () => {
    probe.disconnect();
    await redis.stop();
  });
  afterEach(async () => {
    for (const { locks, stop } of open) {
      stop();
      await locks.close();
    }
    open.clear();
    await probe.flushall();
  });
  /** A busy machine is not a Redis that is away. */
  const trio = (bound: CallerBound, more = {}): Promise<Replica[]> => times(3, () => replica(redis.url, bound, { answerMs: 10_000, ...more }));

  it.each([1, 2, 7, 100])('let in %i at once and no more, all that there are, wherever they are asked for', async (atOnce) => {
    const replicas = await trio({ perSecond: 0, atOnce });
    for (let round = 0; round < 5; round++) {
      const entries = await times(atOnce * 3, (n) => (replicas[n % 3] as Replica).enter());
      expect(letIn(entries)).toHaveLength(atOnce);
      for (const leave of letIn(entries)) leave();
      // all on one of them, which first has to be given what the others had
      const alone = await times(atOnce + 2, () => (replicas[round % 3] as Replica).enter());
      expect(letIn(alone), `round ${round}`).toHaveLength(atOnce);
      for (const leave of letIn(alone)) leave();
    }
    expect(replicas.map(({ alone }) => alone())).toEqual([0, 0, 0]);
  });

  it('hold while callers come and go at random', async () => {
    const replicas = await trio({ perSecond: 0, atOnce: 5 }, { tenant: { perSecond: 0, atOnce: 8 } });
    const now = { all: 0, most: 0, entered: 0 };
    const under = new Map<string, number>();
    await times(60, async (n) => {
      const id = `agent-${n % 3}`;
      // However slow the machine: until enough have come in for a bound that does not hold to show.
      for (let step = 0; step < 30 || now.entered <= 200 || now.most < 8; step++) {
        const entry = await (replicas[(n + step) % 3] as Replica).enter({ tenant: 'acme', id });
        if (typeof entry === 'string') {
          await delay((n * 7 + step * 3) % 20);
          continue;
        }
        now.entered += 1;
        under.set(id, (under.get(id) ?? 0) + 1);
        now.most = Math.max(now.most, ++now.all);
        expect(under.get(id)).toBeLessThanOrEqual(5);
        expect(now.all).toBeLessThanOrEqual(8);
        await delay((n + step) % 5);
        under.set(id, (under.get(id) ?? 0) - 1);
        now.all -= 1;
        entry();
      }
    });
    expect(now.most).toBe(8);
  });

  it('let in the rate of a second and what comes after it, over all of them', async () => {
    const replicas = await trio({ perSecond: 40, atOnce: 0 });
    const began = performance.now();
    const taken: number[] = [];
    await times(30, async (n) => {
      while (performance.now() - began < 2_000) {
        const entry = await (replicas[n % 3] as Replica).enter();
        if (typeof entry === 'function') {
          taken.push(performance.now() - began);
          entry();
        } else {
          expect(entry).toBe('CALLER_RATE_LIMITED');
          await delay(5);
        }
      }
    });
    const seconds = Math.max(...taken) / 1_000;
    expect(taken.length).toBeLessThanOrEqual(Math.ceil(40 + 40 * seconds));
    expect(taken.length).toBeGreaterThan(40 + 40 * 2 * 0.7);
  });

  it('ask nobody about a call of a caller who is known and within them', async () => {
    const [one] = await trio({ perSecond: 0, atOnce: 500 }, { tenant: { perSecond: 0, atOnce: 2_000 } });
    const { enter, questions } = one as Replica;
    (await enter() as Leave)();
    const asked = questions.length;
    expect(asked).toBe(2);
    for (let n = 0; n < 2_000; n++) (await enter() as Leave)();
    expect(questions.length - asked).toBeLessThanOrEqual(4); // renewals
  });

  it('take tokens in lots, before there are none, for who asks often; one at a time for who does not', async () => {
    const [one] = await trio({ perSecond: 1_000, atOnce: 0 });
    const { enter, questions } = one as Replica;
    let entered = 0;
    for (let n = 0; n < 900; n++) {
      const entry = await enter();
      if (typeof entry === 'function') entered += 1;
    }
    expect(entered).toBe(900);
    expect(questions.length).toBeLessThan(120);
    expect(questions[0]).toMatchObject({ tokens: 1 });
    expect(Math.max(...questions.map(({ tokens }) => tokens))).toBe(50);
  });

  it('do not let a principal that is refused use up what its tenant may', async () => {
    const [one] = await trio({ perSecond: 0, atOnce: 1 }, { tenant: { perSecond: 0, atOnce: 2 } });
    const { enter } = one as Replica;
    const first = await enter();
    const flood = times(200, () => enter());
    const other = await enter({ tenant: 'acme', id: 'agent-2' });
    expect(typeof other).toBe('function');
    expect(letIn(await flood)).toEqual([]);
    for (const leave of letIn([first, other])) leave();
  });

  it('keep no name of a caller in Redis, and nothing for ever', async () => {
    const [one] = await trio({ perSecond: 10, atOnce: 10 }, { tenant: { perSecond: 10, atOnce: 10 } });
    await one?.enter({ tenant: 'acme', id: 'agent-1' });
    const keys = await probe.keys('*');
    expect(keys).toHaveLength(4);
    for (const key of keys) {
      expect(key).toMatch(/^callgate:test:(places|tokens):[\w-]{22}$/);
      expect(await probe.pttl(key)).toBeGreaterThan(0);
      expect(JSON.stringify(await probe.hgetall(key))).not.toMatch(/acme|agent/);
    }
  });

  it('are not moved by what others publish on the channel', async () => {
    const [one] = await trio({ perSecond: 0, atOnce: 2 });
    const entry = await one?.enter();
    const strange = ['{"recalled":1,"by":"x"}', '{"recalled":"x"}', '{"recalled":"x","by":1}', '{"recalled":"nobody","by":"x"}', 'null', '[]', '{'];
    for (const message of strange) await probe.publish('callgate:test:changed', message);
    expect(typeof entry).toBe('function');
    expect(typeof await one?.enter()).toBe('function');
    expect(await one?.enter()).toBe('CALLER_BUSY');
  });

  it('count what is under way again after Redis has lost everything', async () => {
    const [one, two] = await trio({ perSecond: 0, atOnce: 4 }) as [Replica, Replica];
    expect(letIn(await times(4, () => one.enter()))).toHaveLength(4);
    await probe.flushall();
    // as after a restart: what is under way is told again within a third of a lease
    await expect.poll(async () => (await probe.keys('*places*')).length, { timeout: 4_000 }).toBe(1);
    expect(await two.enter()).toBe('CALLER_BUSY');
  });
});

describe.each(['SIGKILL', 'SIGSTOP'] as const)('while Redis has got %s', (signal) => {
  it('each replica lets in its own share, at once, and no more; and the bounds are shared again afterwards', async () => {
    const redis = await startRedis();
    try {
      const both = await times(2, () => replica(redis.url, { perSecond: 0, atOnce: 8 }, { aloneShare: 0.5 })) as [Replica, Replica];
      const [one, two] = both;
      const before = letIn(await times(3, () => one.enter()));
      process.kill(redis.pid, signal);
      // the first that is not answered waits for that; nobody waits for ever, and nobody is let in beyond the bound
      const first = await times(20, () => two.enter());
      expect(letIn(first).length).toBeGreaterThanOrEqual(1);
      expect(letIn(first).length).toBeLessThanOrEqual(8);
      await expect.poll(() => both.every(({ locks }) => !locks.reachable()), { timeout: 5_000 }).toBe(true);
      for (const leave of letIn(first)) leave();
      expect(letIn(await inThisTurn(times(50, () => two.enter())))).toHaveLength(4);
      expect(letIn(await inThisTurn(times(50, () => one.enter())))).toHaveLength(4 - before.length);
      expect(two.alone()).toBeGreaterThanOrEqual(50);
      if (signal === 'SIGKILL') return;
      process.kill(redis.pid, 'SIGCONT');
      await expect.poll(() => both.every(({ locks }) => locks.reachable()), { timeout: 10_000 }).toBe(true);
      // eight are under way: no place is left, on neither
      await expect.poll(async () => [await one.enter(), await two.enter()].filter((entry) => entry === 'CALLER_BUSY').length, { timeout: 5_000 }).toBe(2);
      const alone = two.alone();
      expect(await two.enter()).toBe('CALLER_BUSY');
      expect(two.alone()).toBe(alone);
    } finally {
      for (const { stop, locks } of open) {
        stop();
        await locks.close();
      }
      open.clear();
      if (signal === 'SIGSTOP') process.kill(redis.pid, 'SIGCONT');
      await redis.stop();
    }
  });
});

describe('two gateways as processes', () => {
  let house: House;
  let redis: TestRedis;
  let both: [Spawned, Spawned];
  const atOnce = 6;
  beforeAll(async () => {
    house = await openHouse();
    redis = await startRedis();
  });
  beforeEach(async () => {
    await house.shop.reset();
    const env = { REDIS_URL: redis.url, CALLGATE_CALLERS_PRINCIPAL_CONCURRENT: String(atOnce), CALLGATE_CALLERS_ALONE_SHARE: '0.5' };
    both = await Promise.all([spawnGateway(house, env), spawnGateway(house, env)]);
    for (const { controlUrl } of both) await expect.poll(() => redisState(controlUrl), { timeout: 5_000 }).toBe('up');
  });
  afterAll(async () => {
    await redis.stop();
    await house.close();
  });

  const redisState = async (controlUrl: string): Promise<string> => {
    const { checks } = (await (await fetch(`${controlUrl}/readyz`)).json()) as { checks: { redis: { state: string } } };
    return checks.redis.state;
  };
  /** On one order: the first is under way for as long as the service takes, the others behind it. */
  const flood = (count: number, on: (n: number) => Spawned): Promise<Sent[]> =>
    times(count, (n) => on(n).agent.credit({ session_id: unique('s'), arguments: { amount: 100 + n } }));
  const busy = (answers: Sent[]): number => answers.filter(({ code }) => code === 'CALLER_BUSY').length;
  const metric = async ({ controlUrl }: Spawned, name: string): Promise<number> =>
    Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'm').exec(await (await fetch(`${controlUrl}/metrics`)).text())?.[1] ?? 0);

  /** A replica that Redis does not answer within 250 ms goes by its own share for a second; on a busy machine that happens to one that is well, and then it is asked again. */
  async function sharedFlood(again = 2): Promise<{ answers: Sent[]; counted: number }> {
    const sum = async (name: string): Promise<number> => (await metric(both[0], name)) + (await metric(both[1], name));
    const [alone, refused] = [await sum('callgate_callers_bounded_alone_total'), await sum('callgate_caller_refusals_total')];
    const answers = await flood(20, (n) => both[n % 2 as 0 | 1]);
    if (again > 0 && (await sum('callgate_callers_bounded_alone_total')) > alone) return sharedFlood(again - 1);
    return { answers, counted: (await sum('callgate_caller_refusals_total')) - refused };
  }

  it('let in as many as one would, and those of one that is killed are free again once its lease ends', async () => {
    const [one, two] = both;
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 2_000, times: 100 });
    const { answers, counted } = await sharedFlood();
    expect(busy(answers)).toBe(20 - atOnce);
    expect(counted).toBe(20 - atOnce);

    const refused = await metric(one, 'callgate_caller_refusals_total');
    const dying = flood(atOnce + 1, () => one).catch(() => []);
    await expect.poll(() => metric(one, 'callgate_caller_refusals_total'), { timeout: 5_000 }).toBe(refused + 1);
    const taken = async () => (await two.agent.get('/v1/tools')).http;
    expect(await taken()).toBe(429);
    await one.kill9();
    await dying;
    expect(await taken()).toBe(429);
    const killed = performance.now();
    await expect.poll(taken, { timeout: 10_000 }).toBe(200);
    expect(performance.now() - killed).toBeLessThan(7_000);
    await two.stop();
  }, 60_000);

  it('go on each by its own share while Redis is stopped, and together when it is back', async () => {
    const [one, two] = both;
    process.kill(redis.pid, 'SIGSTOP');
    try {
      await expect.poll(async () => (await two.agent.get('/v1/tools')).http, { timeout: 5_000 }).toBe(200);
      await expect.poll(() => redisState(one.controlUrl), { timeout: 5_000 }).toBe('degraded');
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 2_000, times: 100 });
      const answers = await flood(20, (n) => both[n % 2 as 0 | 1]);
      expect(busy(answers)).toBe(20 - 2 * (atOnce / 2));
      const detail = 'This principal has 3 requests under way at this replica, and may have no more.';
      expect(answers.find(({ code }) => code === 'CALLER_BUSY')).toMatchObject({ detail });
      expect(await metric(two, 'callgate_callers_bounded_alone_total')).toBeGreaterThanOrEqual(10);
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    for (const { controlUrl } of both) await expect.poll(() => redisState(controlUrl), { timeout: 10_000 }).toBe('up');
    await expect.poll(async () => busy(await flood(20, (n) => both[n % 2 as 0 | 1])), { timeout: 20_000 }).toBe(20 - atOnce);
    await Promise.all(both.map((gateway) => gateway.stop()));
  }, 60_000);
});
