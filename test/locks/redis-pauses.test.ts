/**
 * A service that asks for a pause asks all of Callgate. Each replica that does not know of it sends a call more than was asked for; a
 * Redis that is away costs no more than that (semantics.md section 9, invariant 8).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openRedisLocks, type RedisLocks } from '../../src/locks/redis-locks.js';
import { keepPauses, type Pauses } from '../../src/upstream/pauses.js';
import { cpuMs } from '../support/cpu.js';
import { startRedis, type TestRedis } from '../support/servers.js';

const capMs = 60_000;
const open = new Set<RedisLocks>();

interface Replica { locks: RedisLocks; pauses: Pauses }

async function replica(url: string, installation = 'test'): Promise<Replica> {
  const locks = openRedisLocks({ url, installation });
  open.add(locks);
  await becomes(() => locks.reachable());
  return { locks, pauses: keepPauses(capMs, locks.pauses) };
}

async function becomes(what: () => boolean): Promise<void> {
  const end = performance.now() + 10_000;
  while (!what()) {
    if (performance.now() > end) throw new Error(`never: ${what}`);
    await delay(10);
  }
}

afterEach(async () => {
  await Promise.all([...open].map((locks) => locks.close()));
  open.clear();
});

describe('pauses over replicas', () => {
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
  afterEach(() => probe.flushall());

  it('are known to the other replicas, of this installation alone, and end for all at about the same time', async () => {
    const [a, b, stranger] = [await replica(redis.url), await replica(redis.url), await replica(redis.url, 'other')];
    a.pauses.pause('retail', 3_000);
    await becomes(() => b.pauses.leftMs('retail') > 0);
    expect(b.pauses.leftMs('retail')).toBeGreaterThan(1_000);
    expect(b.pauses.leftMs('retail')).toBeLessThanOrEqual(3_000);
    expect([b.pauses.leftMs('stock'), stranger.pauses.leftMs('retail')]).toEqual([0, 0]);
    await becomes(() => b.pauses.leftMs('retail') === 0);
    expect(a.pauses.leftMs('retail')).toBeLessThan(500);
  });

  it('are known to a replica that comes later, in a key that expires with the pause', async () => {
    const a = await replica(redis.url);
    a.pauses.pause('retail', 30_000);
    await becomes(() => a.pauses.leftMs('retail') > 0);
    let keys: string[] = [];
    while (keys.length === 0) keys = await probe.keys('*pause*');
    expect(keys).toEqual(['callgate:test:pause:retail']);
    expect(await probe.pttl(keys[0] as string)).toBeLessThanOrEqual(30_000);
    const late = await replica(redis.url);
    await becomes(() => late.pauses.leftMs('retail') > 20_000);
  });

  it('are not shortened by a shorter one of a replica that had not heard', async () => {
    const a = await replica(redis.url);
    a.pauses.pause('retail', 30_000);
    while ((await probe.exists('callgate:test:pause:retail')) === 0);
    a.locks.pauses.tell('retail', 1_000);
    (await a.locks.contend('later', 1_000))?.release(); // its answer comes after that of the pause
    expect(await probe.pttl('callgate:test:pause:retail')).toBeGreaterThan(20_000);
    a.locks.pauses.tell('retail', 50_000);
    while ((await probe.pttl('callgate:test:pause:retail')) < 40_000);
  });

  it('cost a look once for each service, and nothing on the calls after it', async () => {
    const a = await replica(redis.url);
    const looks = async (): Promise<number> => Number(/cmdstat_pttl:calls=(\d+)/.exec(await probe.info('commandstats'))?.[1] ?? 0);
    const before = await looks();
    for (let n = 0; n < 1_000; n++) a.pauses.leftMs('quiet');
    while ((await looks()) === before);
    await delay(100);
    expect(await looks() - before).toBe(1);
  });

  it('are not made by what others publish on the channel, nor beyond the cap', async () => {
    const a = await replica(redis.url);
    for (const message of ['{"paused":1,"ms":5000}', '{"paused":"retail"}', '{"paused":"retail","ms":"5000"}', '{"paused":"retail","ms":-1}', '{"paused":"retail","ms":null}', 'null', '[]', '{']) {
      await probe.publish('callgate:test:changed', message);
    }
    await probe.publish('callgate:test:changed', '{"paused":"stock","ms":1e300}');
    await becomes(() => a.pauses.leftMs('stock') > 0);
    expect(a.pauses.leftMs('stock')).toBeLessThanOrEqual(capMs);
    expect(a.pauses.leftMs('retail')).toBe(0);
  });
});

it.each(['SIGKILL', 'SIGSTOP'] as const)('a Redis that gets %s leaves every pause that is known, delays none, and is taken up again', async (signal) => {
  const redis = await startRedis();
  try {
    const [a, b] = [await replica(redis.url), await replica(redis.url)];
    a.pauses.pause('retail', 40_000);
    await becomes(() => b.pauses.leftMs('retail') > 0);
    process.kill(redis.pid, signal);
    expect(cpuMs(() => {
      for (let n = 0; n < 200; n++) {
        a.pauses.pause('stock', 10_000 + 200 * n);
        expect(a.pauses.leftMs('stock')).toBeGreaterThanOrEqual(5_000 + 100 * n);
      }
    })).toBeLessThan(1_000);
    expect(b.pauses.leftMs('retail')).toBeGreaterThan(0);
    expect(b.pauses.leftMs('stock')).toBe(0);
    await becomes(() => !a.locks.reachable() && !b.locks.reachable());
    if (signal === 'SIGKILL') return;
    process.kill(redis.pid, 'SIGCONT');
    await becomes(() => a.locks.reachable() && b.locks.reachable());
    a.pauses.pause('mail', 30_000);
    await becomes(() => b.pauses.leftMs('mail') > 0);
  } finally {
    try { process.kill(redis.pid, 'SIGCONT'); } catch { /* it is gone */ }
    await redis.stop();
  }
});
