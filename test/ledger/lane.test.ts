import fc from 'fast-check';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import { type ErrorKind, Lane, type LaneOptions } from '../../src/ledger/lane.js';

class Failure extends Error {
  constructor(readonly kind: ErrorKind) { super(kind); }
}

/** A lane over a store in memory that keeps what was flushed; `fail` decides for each flush. */
function lane(options: Partial<LaneOptions<number, number>> & { fail?: (batch: number[], flush: number) => ErrorKind | undefined } = {}) {
  const batches: number[][] = [];
  const stored: number[] = [];
  let running = 0;
  let most = 0;
  let flushes = 0;
  const { fail, ...rest } = options;
  const made = new Lane<number, number>({
    async flush(items) {
      most = Math.max(most, ++running);
      await delay(1);
      running -= 1;
      const kind = fail?.(items, flushes++);
      if (kind) throw new Failure(kind);
      batches.push(items);
      stored.push(...items);
      return items.map((item) => item * 10);
    },
    tenant: () => 'acme',
    kind: (error) => (error as Failure).kind,
    maxBatch: 8,
    maxQueue: 100,
    ...rest,
  });
  return { lane: made, batches, stored, most: () => most };
}

/** A lane that loses an item hangs a call; one that answers an item with another's result pays the wrong customer. */
describe('a lane', () => {
  it('flushes one item at once when idle, and all that came meanwhile together', async () => {
    const { lane: one, batches } = lane();
    const results = await Promise.all([1, 2, 3].map((n) => one.add(n)));
    const later = [one.add(4)];
    await delay(0);
    later.push(one.add(5), one.add(6));
    expect(results).toEqual([10, 20, 30]);
    expect(await Promise.all(later)).toEqual([40, 50, 60]);
    expect(batches).toEqual([[1, 2, 3], [4], [5, 6]]);
  });

  it('has one flush in flight, never more than its batch, and gives each item its own result (property)', async () => {
    await fc.assert(fc.asyncProperty(fc.array(fc.record({ item: fc.nat(1_000), afterMs: fc.nat(6) }), { maxLength: 60 }), async (adds) => {
      const { lane: one, batches, stored, most } = lane();
      const results = await Promise.all(adds.map(async ({ item, afterMs }) => {
        await delay(afterMs);
        return one.add(item);
      }));
      expect(results).toEqual(adds.map(({ item }) => item * 10));
      expect(stored.length).toBe(adds.length);
      expect(most()).toBeLessThanOrEqual(1);
      expect(batches.every((batch) => batch.length <= 8)).toBe(true);
      expect(one.depth).toBe(0);
    }), { numRuns: 40 });
  });

  it('never puts two items with a common key into one flush, and keeps their order', async () => {
    const { lane: one, batches, stored } = lane({ keys: (item) => [String(item % 3)] });
    await Promise.all([0, 3, 6, 1, 4, 2].map((n) => one.add(n)));
    for (const batch of batches) expect(new Set(batch.map((n) => n % 3)).size).toBe(batch.length);
    expect(stored.filter((n) => n % 3 === 0)).toEqual([0, 3, 6]);
    expect(stored.filter((n) => n % 3 === 1)).toEqual([1, 4]);
  });

  it('fails a bad row alone', async () => {
    const { lane: one, stored } = lane({ fail: (batch) => (batch.includes(2) ? 'row' : undefined) });
    const results = await Promise.allSettled([1, 2, 3].map((n) => one.add(n)));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect((results[1] as PromiseRejectedResult).reason).toBeInstanceOf(Failure);
    expect(stored).toEqual([1, 3]);
  });

  it('tries again over a passing contention, and over a short loss of the database', async () => {
    for (const kind of ['contention', 'unavailable'] as const) {
      const { lane: one, stored } = lane({ fail: (_, flush) => (flush < 2 ? kind : undefined) });
      expect(await Promise.all([1, 2].map((n) => one.add(n)))).toEqual([10, 20]);
      expect(stored).toEqual([1, 2]);
    }
  });

  it('says that the ledger is unavailable when it stays away, and works again afterwards', async () => {
    let away = true;
    const { lane: one } = lane({ fail: () => (away ? 'unavailable' : undefined) });
    const results = await Promise.allSettled([1, 2].map((n) => one.add(n)));
    for (const result of results) expect((result as PromiseRejectedResult).reason).toBeInstanceOf(LedgerUnavailable);
    away = false;
    expect(await one.add(3)).toBe(30);
  });

  it('refuses beyond its room before anything was sent, but never what was sent already', async () => {
    const { lane: one, stored } = lane({ maxQueue: 3 });
    const settled = Promise.allSettled([...Array.from({ length: 6 }, (_, n) => one.add(n)), one.add(99, true)]);
    const results = await settled;
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected', 'rejected', 'fulfilled']);
    expect((results[3] as PromiseRejectedResult).reason).toBeInstanceOf(LedgerUnavailable);
    expect(stored).toEqual([0, 1, 2, 99]);
  });
});
