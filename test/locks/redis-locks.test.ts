import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { spawnBound } from '../../src/embedded/bound-process.js';
import { freePort } from '../../src/embedded/free-port.js';
import { openRedisLocks, type RedisLocks } from '../../src/locks/redis-locks.js';
import { startRedis, type TestRedis } from '../support/servers.js';

/** As in src/locks/redis-locks.ts: what its tests wait for. */
const ttlMs = 3_000;
/** A busy machine is not a Redis that is away. */
const patientMs = 10_000;
/** What is woken is woken long before that. */
const sleepMs = 30_000;

const open = new Set<RedisLocks>();
const unhandled: unknown[] = [];
process.on('unhandledRejection', (error) => unhandled.push(error));

function locksAt(url: string, installation = 'test', onReachable?: (reachable: boolean) => void, answerMs?: number): RedisLocks {
  const locks = openRedisLocks({ url, installation, ...(onReachable ? { onReachable } : {}), ...(answerMs ? { answerMs } : {}) });
  open.add(locks);
  return locks;
}

async function until(what: () => boolean, ms = 8_000): Promise<void> {
  const end = performance.now() + ms;
  while (!what()) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await delay(10);
  }
}

async function timed<T>(work: Promise<T>): Promise<{ ms: number; value: T }> {
  const began = performance.now();
  const value = await work;
  return { ms: performance.now() - began, value };
}

afterEach(async () => {
  await Promise.all([...open].map((locks) => locks.close()));
  open.clear();
  await delay(20);
  expect(unhandled).toEqual([]);
});

/** A lock that is freed by somebody else, or that outlives its owner for long, is the failure of case-18. */
describe('locks over two clients of one Redis', () => {
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

  async function pair(): Promise<[RedisLocks, RedisLocks]> {
    const two = [1, 2].map(() => locksAt(redis.url, 'test', undefined, patientMs)) as [RedisLocks, RedisLocks];
    await until(() => two.every((locks) => locks.reachable()));
    return two;
  }
  const evals = async (): Promise<number> => Number(/cmdstat_eval:calls=(\d+)/.exec(await probe.info('commandstats'))?.[1] ?? 0);
  const lockKeys = (): Promise<string[]> => probe.keys('callgate:*');

  it('are taken with an expiry in the same command, so that no crash leaves one for ever', async () => {
    const [a] = await pair();
    const lock = await a.contend('k', 1_000);
    const [key] = await lockKeys();
    const ttl = await probe.pttl(key as string);
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(ttlMs);
    lock?.release();
    await expect.poll(lockKeys, { timeout: 5_000 }).toEqual([]);
  });

  it('hand over from one client to the other promptly', async () => {
    const [a, b] = await pair();
    const waits: number[] = [];
    for (let n = 0; n < 20; n++) {
      const lock = await a.contend('k', 1_000);
      const next = b.contend('k', sleepMs);
      await delay(30);
      const released = performance.now();
      lock?.release();
      const held = await next;
      waits.push(performance.now() - released);
      expect(held).toBeDefined();
      held?.release();
      await delay(5);
    }
    waits.sort((x, y) => x - y);
    expect(waits[10]).toBeLessThan(100); // a poll would come after 220 ms
  });

  it('exclude contenders of both clients from one another while Redis is well', async () => {
    const [a, b] = await pair();
    let inside = 0;
    let most = 0;
    await Promise.all(Array.from({ length: 16 }, async (_, n) => {
      const lock = await (n % 2 ? a : b).contend('k', 10_000);
      most = Math.max(most, ++inside);
      await delay(10);
      inside -= 1;
      lock?.release();
    }));
    expect(most).toBe(1);
  });

  it('are never freed by anybody but their owner, also when they ended early (case-18)', async () => {
    const [a, b] = await pair();
    const first = await a.contend('k', 1_000);
    await probe.flushall(); // the lock of `a` ends before its work
    const second = await b.contend('k', 1_000);
    const [key] = await lockKeys();
    const token = await probe.get(key as string);
    first?.release();
    (await a.contend('later', 1_000))?.release(); // its answer comes after that of the release
    expect(await probe.get(key as string)).toBe(token);
    second?.release();
    await expect.poll(lockKeys, { timeout: 5_000 }).toEqual([]);
  });

  it('are renewed while held, and not after', async () => {
    const [a, b] = await pair();
    const lock = await a.contend('k', 1_000);
    await delay(ttlMs + 500);
    const [key] = await lockKeys();
    expect(await probe.pttl(key as string)).toBeGreaterThan(1_000);
    lock?.release();
    await expect.poll(lockKeys, { timeout: 5_000 }).toEqual([]);
    const other = await b.contend('k', 1_000);
    const token = await probe.get(key as string);
    await delay(ttlMs / 2);
    expect(await probe.get(key as string)).toBe(token);
    other?.release();
    await expect.poll(lockKeys, { timeout: 5_000 }).toEqual([]);
    const before = await evals();
    await delay(ttlMs / 2);
    expect(await evals()).toBe(before);
  }, 15_000);

  it('make a contender wait no longer than they live, whoever left one behind; the ledger decides anyway', async () => {
    const [a] = await pair();
    const lock = await a.contend('k', 1_000);
    const [key] = await lockKeys();
    lock?.release();
    await expect.poll(lockKeys, { timeout: 5_000 }).toEqual([]);
    await probe.set(key as string, 'of a process that was killed', 'PX', 120_000);
    const { ms, value } = await timed(a.contend('k', 60_000));
    expect(value).toBeDefined();
    expect(ms).toBeLessThan(ttlMs + 500);
    value?.release();
    (await a.contend('later', 1_000))?.release(); // its answer comes after that of the release
    expect(await probe.get(key as string)).toBe('of a process that was killed');
    const late = await timed(a.contend('k', 100));
    expect(late.value).toBeUndefined();
    expect(late.ms).toBeLessThan(400);
  }, 15_000);

  it('carry an announcement to the other client at once, and to listeners of that topic only', async () => {
    const [a, b] = await pair();
    const waits: number[] = [];
    for (let n = 0; n < 20; n++) {
      const heard = b.heard(`t-${n}`, sleepMs);
      const other = b.heard('another', sleepMs);
      const began = performance.now();
      a.announce(`t-${n}`);
      await heard;
      waits.push(performance.now() - began);
      expect(await Promise.race([other, delay(0, 'asleep')])).toBe('asleep');
      b.announce('another');
      await other;
    }
    expect(waits.sort((x, y) => x - y)[10]).toBeLessThan(100);
  });

  it('send what is announced together as one message', async () => {
    const [a, b] = await pair();
    const heard = Promise.all(Array.from({ length: 100 }, (_, n) => b.heard(`t-${n}`, sleepMs)));
    const sent = async (): Promise<number> => Number(/cmdstat_publish:calls=(\d+)/.exec(await probe.info('commandstats'))?.[1] ?? 0);
    const before = await sent();
    for (let n = 0; n < 100; n++) a.announce(`t-${n}`);
    const { ms } = await timed(heard);
    expect(ms).toBeLessThan(500);
    expect(await sent() - before).toBe(1);
  });

  it('keep tenants, names with any characters, and installations apart', async () => {
    const [a, b] = await pair();
    const stranger = locksAt(redis.url, 'other', undefined, patientMs);
    await until(() => stranger.reachable());
    const names = [JSON.stringify(['t', 'order:1']), JSON.stringify(['t","order', '1']), JSON.stringify(['t', 'order:1\n']), 'x', 'x:lock:x', '*', '\u0000', '💥'];
    const held = await Promise.all(names.map((name) => a.contend(name, patientMs)));
    expect(held.every(Boolean)).toBe(true);
    expect(new Set(await lockKeys()).size).toBe(names.length);
    for (const name of names) expect(await timed(stranger.contend(name, patientMs))).toMatchObject({ value: expect.anything() });
    expect(await b.contend(names[0] as string, 50)).toBeUndefined();
    const [own, foreign] = [b.heard('x', sleepMs), stranger.heard('x', sleepMs).then(() => 'woken')];
    const last = stranger.heard('last', sleepMs).then(() => 'asleep');
    a.announce('x');
    await own;
    await probe.publish('callgate:other:changed', JSON.stringify(['somebody', 'last'])); // comes to the stranger after whatever came before
    expect(await Promise.race([foreign, last])).toBe('asleep');
  });

  it('are not disturbed by what others publish on the channel', async () => {
    const [a, b] = await pair();
    for (const message of ['', 'null', '{', '[1,2]', '{"0":"x"}', '[]', '"x"', '[null,null]']) await probe.publish('callgate:test:changed', message);
    const heard = timed(b.heard('t', sleepMs));
    a.announce('t');
    expect((await heard).ms).toBeLessThan(200);
  });
});

/** Losing Redis changes speed, never results (semantics.md section 9, invariant 8): every call returns, soon, and goes on. */
describe('without its Redis', () => {
  it('nothing waits: a dead Redis costs no time, at the start or later, and is taken up when it comes', async () => {
    const port = await freePort();
    const states: boolean[] = [];
    const a = locksAt(`redis://127.0.0.1:${port}`, 'test', (reachable) => states.push(reachable));
    const b = locksAt(`redis://127.0.0.1:${port}`);
    const costs: number[] = [];
    for (let n = 0; n < 200; n++) {
      const { ms, value } = await timed(a.contend('k', 10_000));
      expect(value).toBeDefined();
      value?.release();
      a.announce('t');
      costs.push(ms);
    }
    expect(costs.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(2_000);
    expect(a.reachable()).toBe(false);
    const redis = await startRedisAt(port);
    onTestFinished(() => redis.stop());
    await until(() => a.reachable() && b.reachable());
    const heard = timed(b.heard('t', sleepMs));
    a.announce('t');
    expect((await heard).ms).toBeLessThan(500);
    expect(states).toEqual([false, true]);
  }, 20_000);

  it.each(['SIGKILL', 'SIGSTOP'] as const)('a lock that is held or waited for when Redis gets %s ends in bounded time, and all comes back', async (signal) => {
    const redis = await startRedis();
    onTestFinished(async () => {
      try { process.kill(redis.pid, 'SIGCONT'); } catch { /* it is gone */ }
      await redis.stop();
    });
    const states: boolean[] = [];
    const a = locksAt(redis.url, 'test', (reachable) => states.push(reachable));
    const b = locksAt(redis.url);
    await until(() => a.reachable() && b.reachable());
    const lock = await a.contend('k', 1_000);
    const waiting = timed(b.contend('k', 60_000));
    await delay(50);
    process.kill(redis.pid, signal);
    const waited = await waiting;
    expect(waited.value).toBeDefined();
    expect(waited.ms).toBeLessThan(1_000);
    lock?.release();
    waited.value?.release();

    const costs: number[] = [];
    for (let n = 0; n < 30; n++) {
      const { ms, value } = await timed(a.contend('other', 60_000));
      expect(value).toBeDefined();
      value?.release();
      a.announce('t');
      costs.push(ms);
    }
    // It is noticed within the silence that is borne once, not paid by each call.
    expect(costs.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(1_500);
    await until(() => !a.reachable(), 4_000);
    await delay(2_500);
    expect(states).toEqual([true, false]);

    if (signal === 'SIGSTOP') process.kill(redis.pid, 'SIGCONT');
    else onTestFinished(((again) => async () => (await again).stop())(startRedisAt(Number(new URL(redis.url).port))));
    await until(() => a.reachable() && b.reachable());
    const heard = timed(b.heard('t', sleepMs));
    a.announce('t');
    expect((await heard).ms).toBeLessThan(500);
    expect((await a.contend('k', 5_000))).toBeDefined();
    expect(states).toEqual([true, false, true]);
  }, 30_000);

  it('a half-open connection is noticed without any traffic, and replaced', async () => {
    const redis = await startRedis();
    const proxy = await freezingProxy(Number(new URL(redis.url).port));
    onTestFinished(async () => {
      proxy.close();
      await redis.stop();
    });
    const a = locksAt(`redis://127.0.0.1:${proxy.port}`);
    const b = locksAt(redis.url);
    await until(() => a.reachable() && b.reachable());
    proxy.freeze();
    await until(() => !a.reachable(), 4_000);
    await until(() => a.reachable(), 8_000);
    const heard = timed(a.heard('t', sleepMs));
    b.announce('t');
    expect((await heard).ms).toBeLessThan(500);
  }, 20_000);

  it('a Redis that takes no writes (a standby, a full one) is gone without', async () => {
    const redis = await startRedis();
    const admin = new Redis(redis.url);
    onTestFinished(async () => {
      admin.disconnect();
      await redis.stop();
    });
    const a = locksAt(redis.url);
    await until(() => a.reachable());
    await admin.config('SET', 'maxmemory', '1');
    expect((await timed(a.contend('k', 10_000)))).toMatchObject({ value: expect.anything() });
    await admin.config('SET', 'maxmemory', '0');
    await admin.replicaof('127.0.0.1', String(await freePort()));
    const { ms, value } = await timed(a.contend('k', 10_000));
    expect(value).toBeDefined();
    expect(ms).toBeLessThan(500);
  }, 20_000);

  it('closing ends what is under way', async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    const a = locksAt(redis.url);
    await until(() => a.reachable());
    const lock = await a.contend('k', 1_000);
    const waiting = timed(a.contend('k', 60_000));
    await a.close();
    expect((await waiting).ms).toBeLessThan(1_000);
    lock?.release();
    a.announce('t');
  });
});

async function startRedisAt(port: number): Promise<{ stop(): Promise<void> }> {
  const server = await spawnBound(['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--save', ''], {
    farewell: 'KILL', env: { PATH: process.env['PATH'] }, onLine: () => undefined,
  });
  return {
    async stop() {
      server.signal('SIGTERM');
      await server.ended;
    },
  };
}

/** Carries bytes until it is frozen: then the connections of that time are silent for ever, and new ones work. */
async function freezingProxy(port: number): Promise<{ port: number; freeze(): void; close(): void }> {
  const pairs = new Set<[net.Socket, net.Socket]>();
  const server = net.createServer((client) => {
    const upstream = net.connect(port, '127.0.0.1');
    pairs.add([client, upstream]);
    for (const socket of [client, upstream]) socket.on('error', () => undefined);
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return {
    port: (server.address() as net.AddressInfo).port,
    freeze() {
      for (const [client, upstream] of pairs) {
        client.unpipe();
        upstream.unpipe();
        client.pause();
        upstream.pause();
      }
    },
    close() {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      server.close();
    },
  };
}
