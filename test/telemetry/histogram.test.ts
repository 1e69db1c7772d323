import fc from 'fast-check';
import { Histogram as Theirs, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Histogram } from '../../src/telemetry/histogram.js';

/** A dashboard that reads a page which miscounts is believed. */
test('its page is, line for line, what the library makes of the same observations', async () => {
  const buckets = [0.1, 1, 2.5];
  const label = fc.constantFrom('a', 'b', 'c "quoted"\nand broken');
  await fc.assert(fc.asyncProperty(fc.array(fc.tuple(label, label, fc.oneof(fc.constantFrom(0, 0.1, 1, 2.5), fc.double({ min: 0, max: 5, noNaN: true })))), async (observed) => {
    const [own, theirs] = [new Registry(), new Registry()];
    const shape = { name: 'seconds', help: 'Some time.', labelNames: ['one', 'two'] };
    const ours = new Histogram({ ...shape, buckets }, own);
    const library = new Theirs({ ...shape, buckets, registers: [theirs] });
    for (const [one, two, value] of observed) {
      ours.observe([one, two], value);
      library.observe({ one, two }, value);
    }
    expect(await own.metrics()).toBe(await theirs.metrics());
  }));
});
