import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Bulkhead } from '../../src/upstream/bulkhead.js';

const soon = (): number => performance.now() + 60_000;

/** A place that is lost is lost until the process ends; a line without a bound is memory that a frozen service takes. */
describe('places at a service', () => {
  it('are never more than its limit, are given in the order of asking, and none is lost', async () => {
    await fc.assert(fc.asyncProperty(fc.integer({ min: 1, max: 4 }), fc.array(fc.boolean(), { maxLength: 60 }), async (limit, asks) => {
      const places = new Bulkhead(1_000);
      const given: number[] = [];
      let asked = 0;
      let inside = 0;
      const leave = (): void => {
        inside--;
        places.leave();
      };
      for (const ask of asks) {
        if (ask) {
          const n = asked++;
          void places.enter(limit, soon()).then(() => {
            given.push(n);
            inside++;
          });
        } else if (inside > 0) leave();
        await Promise.resolve().then(() => undefined).then(() => undefined);
        expect(inside).toBeLessThanOrEqual(limit);
        expect(inside).toBe(Math.min(limit, inside + asked - given.length));
      }
      while (given.length < asked || inside > 0) {
        leave();
        await Promise.resolve().then(() => undefined).then(() => undefined);
      }
      expect(given).toEqual(Array.from({ length: asked }, (_, n) => n));
    }), { numRuns: 300 });
  });

  it('are waited for no longer than the patience, and whoever left the line is given none', async () => {
    const places = new Bulkhead(10);
    expect(await places.enter(1, soon())).toBe('entered');
    expect(await places.enter(1, performance.now())).toBeUndefined();
    const [impatient, patient] = [places.enter(1, performance.now() + 20), places.enter(1, soon())];
    expect(await impatient).toBeUndefined();
    places.leave();
    expect(await patient).toBe('waited');
  });

  it('have a line that is bounded: whoever finds it full is told at once', async () => {
    const places = new Bulkhead(2);
    await places.enter(1, soon());
    const waiting = [places.enter(1, soon()), places.enter(1, soon())];
    expect(await Promise.race([places.enter(1, soon()), delay(5_000, 'not at once')])).toBeUndefined();
    for (const _ of waiting) places.leave();
    expect(await Promise.all(waiting)).toEqual(['waited', 'waited']);
  });

  it('follow a contract that was changed: fewer are given as they come back, more at once', async () => {
    const places = new Bulkhead(10);
    await places.enter(2, soon());
    await places.enter(2, soon());
    let third = false;
    void places.enter(1, soon()).then(() => { third = true; });
    places.leave();
    await delay(0);
    expect(third).toBe(false);
    places.leave();
    await delay(0);
    expect(third).toBe(true);
    expect(await places.enter(2, soon())).toBe('entered');
  });
});
