import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RetryBudget, retriesAtOnce, retriesPerSecond } from '../../src/upstream/retry-budget.js';

/** Without it, three attempts of everything make an overloaded service see three times its load exactly when it can bear it least. */
describe('retries of one service', () => {
  it('in any stretch of any traffic are at most a share of its first sends, ten, and one a second', () => {
    const step = fc.oneof(fc.constant('first' as const), fc.constant('retry' as const), fc.integer({ min: 0, max: 3_000 }));
    fc.assert(fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.array(step, { maxLength: 200 }), fc.nat(199), (ratio, steps, from) => {
      let now = 0;
      const budget = new RetryBudget(ratio, () => now);
      const granted: { retries: number; allowed: number } = { retries: 0, allowed: retriesAtOnce };
      steps.forEach((step, n) => {
        const counted = n >= from;
        if (typeof step === 'number') {
          now += step;
          if (counted) granted.allowed += (step / 1000) * retriesPerSecond;
        } else if (step === 'first') {
          budget.earn();
          if (counted) granted.allowed += ratio;
        } else if (budget.spend() && counted) granted.retries++;
      });
      expect(granted.retries).toBeLessThanOrEqual(granted.allowed + 1e-6);
    }), { numRuns: 500 });
  });

  it('a quiet service may always be tried again a second later', () => {
    let now = 0;
    const budget = new RetryBudget(0, () => now);
    for (let n = 0; n < retriesAtOnce; n++) expect(budget.spend()).toBe(true);
    expect(budget.spend()).toBe(false);
    for (let n = 0; n < 100; n++) {
      now += 1_001;
      expect(budget.spend()).toBe(true);
      expect(budget.spend()).toBe(false);
    }
  });

  it('a busy one earns them as it is called', () => {
    const budget = new RetryBudget(0.1, () => 0);
    while (budget.spend());
    let retries = 0;
    for (let n = 0; n < 1_000; n++) {
      budget.earn();
      if (budget.spend()) retries++;
    }
    expect(retries).toBeGreaterThanOrEqual(98);
    expect(retries).toBeLessThanOrEqual(100);
  });
});
