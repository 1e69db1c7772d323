/**
 * Locks over replicas. Postgres decides who may act; Redis only keeps contenders in a line and wakes them, so every failure of
 * Redis is answered by going on without it (semantics.md section 9, invariant 8).
 *
 * A lock is taken atomically with an expiry (`set nx px`), released only by its owner's token (compare and delete) and renewed while
 * held: one that ends before its work does lets a second contender look, and the ledger still says no. One that outlives its
 * owner, or is another's by mistake, costs a contender a bounded wait, and then it looks all the same.
 */
import { randomUUID } from 'node:crypto';
import type { Locks, SharedPauses } from '../gate/ports.js';
import type { SharedBounds } from '../ports.js';
import { MemoryLocks } from './memory-locks.js';
import { openRedisLink, type RedisLink } from './redis-link.js';
import { redisPauses } from './redis-pauses.js';
import { redisShares } from './redis-shares.js';

const ttlMs = 3_000;
/** A release is heard; this is for the one that was not, as when a lock expires. */
const pollMs = 250;
const release = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('del', KEYS[1]) redis.call('publish', ARGV[2], ARGV[3]) return 1`;
const renew = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export interface RedisLocks extends Locks {
  /** False while Redis does not answer. */
  reachable(): boolean;
  readonly pauses: SharedPauses;
  readonly bounds: SharedBounds;
}

export interface RedisLocksOptions {
  url: string;
  /** Equal on all replicas of one installation, and on no other that shares this Redis. */
  installation: string;
  /** When Redis is lost or found again. */
  onReachable?(reachable: boolean): void;
  /** For how long an answer of Redis is waited for: longer where nothing but its absence is to end a wait, as in tests on a busy machine. */
  answerMs?: number;
}

export function openRedisLocks({ url, installation, onReachable, answerMs }: RedisLocksOptions): RedisLocks {
  const near = new MemoryLocks();
  const self = randomUUID();
  const channel = `callgate:${installation}:changed`;
  const prefix = `callgate:${installation}`;
  const pauses = redisPauses((): RedisLink => link, prefix, channel);
  const bounds = redisShares((): RedisLink => link, { prefix, channel, self });
  const link = openRedisLink({
    url, channel, answerMs,
    onReachable(reachable) {
      if (reachable) {
        pauses.resume();
        bounds.resume();
      }
      onReachable?.(reachable);
    },
    onMessage(text) {
      const message = parsed(text);
      ringNear(near, message, self);
      pauses.receive(message);
      bounds.receive(message);
    },
  });
  const far = outbox((topics) => void link.ask((redis) => redis.publish(channel, JSON.stringify([self, ...topics]))));

  /** True: held. False: the time is up, or Redis is away, and a lock that was taken unheard is given back. */
  async function acquire(key: string, token: string, until: number): Promise<boolean> {
    for (;;) {
      const left = until - performance.now();
      const freed = near.heard(key, Math.max(0, Math.min(left, pollMs))); // from before the attempt: a release in between is not missed
      const answer = await link.ask((redis) => redis.set(key, token, 'PX', ttlMs, 'NX'));
      if (answer === 'OK') return true;
      if (answer === undefined) letGo(key, token);
      if (answer === undefined || left <= 0) return false;
      await freed;
    }
  }

  function letGo(key: string, token: string): void {
    near.announce(key);
    void link.ask((redis) => redis.eval(release, 1, key, token, channel, JSON.stringify([self, key])));
  }

  return {
    enter: (key, patienceMs, signal) => near.enter(key, patienceMs, signal),
    async contend(name, patienceMs) {
      const key = `callgate:${installation}:lock:${name}`;
      const token = randomUUID();
      const began = performance.now();
      if (!(await acquire(key, token, began + Math.min(patienceMs, ttlMs)))) {
        return performance.now() - began < patienceMs ? { release: () => undefined } : undefined;
      }
      const renewal = setInterval(() => void link.ask((redis) => redis.eval(renew, 1, key, token, ttlMs)), ttlMs / 3);
      renewal.unref();
      return {
        release() {
          clearInterval(renewal);
          letGo(key, token);
        },
      };
    },
    announce(topic) {
      near.announce(topic);
      far.add(topic);
    },
    heard: (topic, ms) => near.heard(topic, ms),
    reachable: link.reachable,
    pauses,
    bounds,
    async close() {
      link.close();
      await near.close();
    },
  };
}

/** What is announced in one turn of the event loop goes out as one message: concurrent calls that end together share it. */
function outbox(send: (topics: string[]) => void): { add(topic: string): void } {
  let topics = new Set<string>();
  return {
    add(topic) {
      if (topics.size === 0) {
        setImmediate(() => {
          const out = [...topics];
          topics = new Set();
          send(out);
        });
      }
      topics.add(topic);
    },
  };
}

/** Whatever else comes over the channel is not to be trusted to be one of our messages. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Ours have rung here already. */
function ringNear(near: MemoryLocks, heard: unknown, self: string): void {
  if (!Array.isArray(heard) || heard[0] === self) return;
  for (const topic of heard.slice(1)) if (typeof topic === 'string') near.announce(topic);
}
