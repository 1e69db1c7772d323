import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { firstIdAt, newReceiptId, timeOfId } from '../../src/receipt-id.js';

/** A receipt that takes another's id is lost, and a story told out of order says that the effect came before its decision. */
describe('receipt ids', () => {
  it('are unique and in the order of writing, also within one millisecond', () => {
    const at = Date.now() + 60_000;
    const ids = Array.from({ length: 200_000 }, () => newReceiptId(at));
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.every((id, n) => n === 0 || id > (ids[n - 1] as string))).toBe(true);
    expect(ids.every((id) => /^rcp_[0-9a-hjkmnp-tv-z]{26}$/.test(id))).toBe(true);
  });

  it('stay in order over a small step back of the clock, and are dated right after a large one', () => {
    const at = Date.now() + 120_000;
    const before = newReceiptId(at);
    expect(newReceiptId(at - 900) > before).toBe(true);
    const after = newReceiptId(at - 5_000);
    expect(timeOfId(after).getTime()).toBe(at - 5_000);
  });

  it('carry their time, and bounds of a time range sort around them (property)', () => {
    fc.assert(fc.property(fc.integer({ min: 2_000_000_000_000, max: 2 ** 47 }), (at) => {
      const id = newReceiptId(at + 0);
      const time = timeOfId(id).getTime();
      expect(Math.abs(time - at)).toBeLessThanOrEqual(1_000);
      expect(firstIdAt(new Date(time)) <= id && id < firstIdAt(new Date(time + 1))).toBe(true);
    }));
  });

  it('tell nobody how many others there were between two of them', () => {
    const at = Date.now() + 180_000;
    const rank = (id: string): number => [...id.slice(14, 19)].reduce((sum, c) => sum * 32 + '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(c), 0);
    const steps = Array.from({ length: 50 }, (_, n) => {
      const first = newReceiptId(at + n * 2);
      return rank(newReceiptId(at + n * 2)) - rank(first);
    });
    expect(new Set(steps).size).toBeGreaterThan(20);
    expect(steps.every((step) => step > 0)).toBe(true);
  });
});
