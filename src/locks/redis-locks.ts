/**
 * Locks over replicas. Postgres decides who may act; Redis only keeps contenders in a line and wakes them, so every failure of
 * Redis is answered by going on without it (semantics.md section 9, invariant 8).
 *
 * Taken atomically with an expiry (`set nx px`), released only by its owner's token (compare and delete), renewed while held: a
 * lock that ends before its work does lets a second contender look, and the ledger still says no.
 */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Locks } from '../gate/ports.js';
import { MemoryLocks } from './memory-locks.js';

const ttlMs = 10_000;
const pollMs = 100;
const releaseScript = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[2]) end return 0`;
const renewScript = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export interface RedisLocks extends Locks {
  /** Of the last command: false while Redis does not answer. */
  reachable(): boolean;
  ping(timeoutMs: number): Promise<boolean>;
}

export function openRedisLocks(url: string, prefix = 'callgate'): RedisLocks {
  const near = new MemoryLocks();
  const options = { enableAutoPipelining: true, maxRetriesPerRequest: 0, enableOfflineQueue: false, commandTimeout: 250, connectTimeout: 1000, lazyConnect: false,
    retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 6), 2000) };
  const redis = new Redis(url, options);
  // A subscriber has no answers to wait for: no command timeout, and it subscribes again by itself.
  const subscriber = new Redis(url, { ...options, commandTimeout: 2000, enableOfflineQueue: true, autoResubscribe: true });
  const channel = `${prefix}:changed`;
  redis.on('error', () => undefined);
  subscriber.on('error', () => undefined);
  subscriber.subscribe(channel).catch(() => undefined);
  subscriber.on('message', (_, topic: string) => near.announce(topic));

  const quiet = <T>(command: Promise<T>, otherwise: T): Promise<T> => command.catch(() => otherwise);

  async function acquire(key: string, token: string, until: number): Promise<'held' | 'late' | 'without'> {
    for (;;) {
      const answer = await quiet<string | null>(redis.set(key, token, 'PX', ttlMs, 'NX'), 'unreachable');
      if (answer === 'OK') return 'held';
      if (answer === 'unreachable') return 'without';
      const left = until - performance.now();
      if (left <= 0) return 'late';
      await near.heard(key, Math.min(left, pollMs));
    }
  }

  return {
    enter: (key, patienceMs) => near.enter(key, patienceMs),
    async contend(name, patienceMs) {
      const key = `${prefix}:lock:${name}`;
      const token = randomUUID();
      const got = await acquire(key, token, performance.now() + patienceMs);
      if (got === 'late') return undefined;
      if (got === 'without') return { release: () => undefined };
      const renewal = setInterval(() => void quiet(redis.eval(renewScript, 1, key, token, ttlMs), null), ttlMs / 3);
      renewal.unref();
      return {
        release() {
          clearInterval(renewal);
          void quiet(redis.eval(releaseScript, 2, key, channel, token, key), null);
        },
      };
    },
    announce(topic) {
      near.announce(topic);
      void quiet(redis.publish(channel, topic), 0);
    },
    heard: (topic, ms) => near.heard(topic, ms),
    reachable: () => redis.status === 'ready',
    async ping(timeoutMs) {
      const late = new Promise<string>((resolve) => { setTimeout(() => resolve('late'), timeoutMs).unref(); });
      return (await Promise.race([quiet(redis.ping(), 'error'), late])) === 'PONG';
    },
    async close() {
      redis.disconnect();
      subscriber.disconnect();
      await near.close();
    },
  };
}
