import fc from 'fast-check';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { MemoryLocks } from '../../src/locks/memory-locks.js';

/** What is left behind in the locks: nothing, once everybody has gone. */
function left(locks: MemoryLocks): number {
  const { queues, bells } = locks as unknown as { queues: Map<string, unknown>; bells: Map<string, unknown> };
  return queues.size + bells.size;
}

/** A queue that loses a wake-up hangs an agent for its whole patience; one that wakes two lets two calls run on one order. */
describe('the line for a key', () => {
  it('lets one in at a time, in the order of coming', async () => {
    const locks = new MemoryLocks();
    const order: number[] = [];
    let inside = 0;
    await Promise.all(Array.from({ length: 20 }, async (_, n) => {
      const place = await locks.enter('k', 5_000);
      inside += 1;
      expect(inside).toBe(1);
      expect(place?.waited).toBe(n > 0);
      order.push(n);
      await delay(n % 3);
      inside -= 1;
      place?.leave();
    }));
    expect(order).toEqual(Array.from({ length: 20 }, (_, n) => n));
    expect(left(locks)).toBe(0);
  });

  it('does not make those wait who want another key', async () => {
    const locks = new MemoryLocks();
    const a = await locks.enter('a', 0);
    const b = await locks.enter('b', 0);
    expect([a?.waited, b?.waited]).toEqual([false, false]);
    a?.leave();
    b?.leave();
    expect(left(locks)).toBe(0);
  });

  it('passes over whoever gave up, and keeps nothing of them while the holder goes on', async () => {
    const locks = new MemoryLocks();
    const holder = await locks.enter('k', 0);
    const impatient = await Promise.all(Array.from({ length: 500 }, () => locks.enter('k', 5)));
    expect(impatient.every((place) => place === undefined)).toBe(true);
    expect((locks as unknown as { queues: Map<string, Set<unknown>> }).queues.get('k')?.size).toBe(0);
    const gaveUp = locks.enter('k', 5);
    const patient = locks.enter('k', 5_000);
    expect(await gaveUp).toBeUndefined();
    holder?.leave();
    const place = await patient;
    expect(place?.waited).toBe(true);
    place?.leave();
    expect(left(locks)).toBe(0);
  });

  it('lets nobody in by leaving twice', async () => {
    const locks = new MemoryLocks();
    const first = await locks.enter('k', 0);
    const second = locks.enter('k', 5_000);
    const third = locks.enter('k', 30);
    first?.leave();
    const place = await second;
    first?.leave();
    expect(await third).toBeUndefined();
    place?.leave();
    place?.leave();
    expect(left(locks)).toBe(0);
  });

  it('excludes others and loses no turn, whatever comes, goes and gives up (property)', async () => {
    const visit = fc.record({ key: fc.constantFrom('a', 'b'), startMs: fc.nat(8), patienceMs: fc.nat(12), workMs: fc.nat(4), leaves: fc.integer({ min: 1, max: 2 }) });
    await fc.assert(fc.asyncProperty(fc.array(visit, { minLength: 1, maxLength: 25 }), async (visits) => {
      const locks = new MemoryLocks();
      const inside = new Map<string, number>();
      const all = Promise.all(visits.map(async ({ key, startMs, patienceMs, workMs, leaves }) => {
        await delay(startMs);
        const place = await locks.enter(key, patienceMs);
        if (!place) return;
        inside.set(key, (inside.get(key) ?? 0) + 1);
        expect(inside.get(key)).toBe(1);
        await delay(workMs);
        inside.set(key, 0);
        for (let n = 0; n < leaves; n++) place.leave();
      }));
      expect(await Promise.race([all.then(() => 'all ended'), delay(2_000, 'somebody hangs')])).toBe('all ended');
      // The line is whole: whoever comes now enters at once.
      for (const key of ['a', 'b']) {
        const place = await locks.enter(key, 0);
        expect(place?.waited).toBe(false);
        place?.leave();
      }
      expect(left(locks)).toBe(0);
    }), { numRuns: 60 });
  }, 60_000);
});

describe('a bell', () => {
  it('wakes everybody who listens to the topic, at once, and nobody else', async () => {
    const locks = new MemoryLocks();
    const woken = Promise.all([locks.heard('t', 60_000), locks.heard('t', 60_000)]).then(() => 'woken');
    const other = locks.heard('u', 60_000).then(() => 'woken');
    locks.announce('t');
    // Within the turn of the event loop that it was announced in.
    const turned = new Promise((resolve) => { setImmediate(resolve, 'asleep'); });
    expect(await Promise.race([woken, turned])).toBe('woken');
    expect(await Promise.race([other, turned])).toBe('asleep');
    locks.announce('u');
    await other;
    expect(left(locks)).toBe(0);
  });

  it('ends by itself when nothing is announced, and keeps nothing', async () => {
    const locks = new MemoryLocks();
    await Promise.all(Array.from({ length: 1_000 }, (_, n) => locks.heard(`t-${n % 7}`, n % 20)));
    expect(left(locks)).toBe(0);
  });

  it('can be listened to again by whoever it has just woken', async () => {
    const locks = new MemoryLocks();
    const twice = locks.heard('t', 5_000).then(() => locks.heard('t', 5_000));
    locks.announce('t');
    await delay(5);
    locks.announce('t');
    expect(await Promise.race([twice.then(() => 'woken'), delay(500, 'asleep')])).toBe('woken');
    expect(left(locks)).toBe(0);
  });
});
