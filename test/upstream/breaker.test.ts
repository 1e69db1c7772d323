/**
 * A breaker that lets a write without an honoured key try out a service turns an outage into unknown outcomes; one that never closes again is
 * an outage of its own. Held by a model over every order of calls, ends and time.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Breaker, type BreakerState, type Health, type Traffic } from '../../src/upstream/breaker.js';

const traffics: Traffic[] = ['write', 'keyed_write', 'read', 'read_back'];
const openMs = 1_000;

interface Bench { breaker: Breaker; state(): BreakerState; now: { ms: number } }

function bench(failures: number): Bench {
  const now = { ms: 0 };
  let state: BreakerState = 'closed';
  const breaker = new Breaker({ failures, openMs, now: () => now.ms, changed: (to) => { state = to; } });
  return { breaker, state: () => state, now };
}

/** Lets it in and ends it. */
function exchange({ breaker }: Bench, traffic: Traffic, health: Health): void {
  expect(breaker.shutForMs(traffic)).toBe(0);
  breaker.enter(traffic)(health);
}

function opened(failures = 3): Bench {
  const it = bench(failures);
  for (let n = 0; n < failures; n++) exchange(it, 'write', 'down');
  expect(it.state()).toBe('open');
  return it;
}

describe('a breaker', () => {
  it('opens on failures in a row, and on nothing that a success interrupts', () => {
    const it = bench(3);
    for (const health of ['down', 'down', 'up', 'down', 'nothing', 'down'] as const) exchange(it, 'read', health);
    expect(it.state()).toBe('closed');
    exchange(it, 'read', 'down');
    expect(it.state()).toBe('open');
  });

  it('is not opened by read-backs, which one operation asks over and over', () => {
    const it = bench(3);
    for (let n = 0; n < 100; n++) exchange(it, 'read_back', 'down');
    expect(it.state()).toBe('closed');
  });

  it('open, it refuses all but one read-back at a time, and says for how long', () => {
    const it = opened();
    it.now.ms += 400;
    expect(traffics.map((traffic) => it.breaker.shutForMs(traffic))).toEqual([1_600, 600, 600, 0]);
    const end = it.breaker.enter('read_back');
    expect(it.breaker.shutForMs('read_back')).toBeGreaterThan(0);
    end('down');
    expect(it.state()).toBe('open');
    expect(it.breaker.shutForMs('read')).toBe(600);
    exchange(it, 'read_back', 'up');
    expect(it.state()).toBe('closed');
  });

  it('afterwards lets one call alone try, never a write without an honoured key', () => {
    const it = opened();
    it.now.ms += openMs;
    expect(traffics.map((traffic) => it.breaker.shutForMs(traffic) === 0)).toEqual([false, true, true, true]);
    const end = it.breaker.enter('keyed_write');
    expect(it.state()).toBe('half_open');
    expect(traffics.map((traffic) => it.breaker.shutForMs(traffic) === 0)).toEqual([false, false, false, true]);
    end('down');
    expect(it.breaker.shutForMs('read')).toBe(openMs);
    it.now.ms += openMs;
    exchange(it, 'read', 'up');
    expect(it.state()).toBe('closed');
    expect(it.breaker.shutForMs('write')).toBe(0);
  });

  it('a probe that was not sent after all says nothing, and the next one may try', () => {
    const it = opened();
    it.now.ms += openMs;
    exchange(it, 'read', 'nothing');
    expect(it.state()).toBe('half_open');
    exchange(it, 'read', 'up');
    expect(it.state()).toBe('closed');
  });

  it('what began before it opened or closed says nothing afterwards', () => {
    const it = bench(2);
    const [late, lateFailure] = [it.breaker.enter('read'), it.breaker.enter('read')];
    exchange(it, 'read', 'down');
    exchange(it, 'read', 'down');
    late('up');
    expect(it.state()).toBe('open');
    it.now.ms += openMs;
    exchange(it, 'read', 'up');
    exchange(it, 'read', 'down');
    lateFailure('down');
    expect(it.state()).toBe('closed');
  });

  it('where nothing comes that may probe, it is closed by a knock and never by a write; the next failure opens it, and the next knock waits twice as long', () => {
    const it = opened();
    for (const times of [1, 2, 4, 8, 16, 16]) {
      expect(it.breaker.mayKnock()).toBe(false);
      it.now.ms += times * openMs - 1;
      expect(it.breaker.mayKnock()).toBe(false);
      it.now.ms += 1;
      expect(it.breaker.mayKnock()).toBe(true);
      expect(it.breaker.shutForMs('write')).toBeGreaterThan(0);
      const tell = it.breaker.knock();
      expect(it.breaker.mayKnock()).toBe(false); // one at a time
      expect(it.breaker.shutForMs('read')).toBeGreaterThan(0);
      tell(true);
      expect(it.state()).toBe('closed');
      exchange(it, 'write', 'down');
      expect(it.state()).toBe('open');
    }
    it.now.ms += 100 * openMs;
    it.breaker.knock()(false);
    expect(it.state()).toBe('open');
    it.now.ms += openMs;
    exchange(it, 'read', 'up'); // something better than a knock
    for (let n = 0; n < 3; n++) exchange(it, 'write', 'down');
    it.now.ms += 10 * openMs - 1; // it may come again
    expect(it.breaker.mayKnock()).toBe(false);
    it.now.ms += 1;
    expect(it.breaker.mayKnock()).toBe(true);
  });

  it('over every order of calls, ends and time: one probe at a time, none early, never an unkeyed write, and it always comes back', () => {
    const step = fc.oneof(
      fc.record({ ask: fc.constantFrom(...traffics) }),
      fc.record({ accepts: fc.boolean() }),
      fc.record({ end: fc.nat(9), health: fc.constantFrom<Health>('up', 'down', 'nothing') }),
      fc.record({ wait: fc.constantFrom(1, 250, 999, 1_000, 5_000, 12_000) }),
    );
    fc.assert(fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 80 }), (failures, steps) => {
      const it = bench(failures);
      const { breaker, now } = it;
      const flying: { traffic: Traffic; probe: boolean; end: (health: Health) => void }[] = [];
      let openedAt = Number.NEGATIVE_INFINITY;
      for (const step of steps) {
        const before = it.state();
        if ('wait' in step) now.ms += step.wait;
        if ('ask' in step && breaker.shutForMs(step.ask) === 0) {
          if (before !== 'closed') {
            expect(step.ask).not.toBe('write');
            if (step.ask !== 'read_back') expect(now.ms - openedAt).toBeGreaterThanOrEqual(openMs);
            const slot = (traffic: Traffic): boolean => (traffic === 'read_back') === (step.ask === 'read_back');
            expect(flying.filter(({ probe, traffic }) => probe && slot(traffic))).toHaveLength(0);
          }
          const end = breaker.enter(step.ask);
          flying.push({ traffic: step.ask, probe: before !== 'closed', end });
        }
        if ('accepts' in step && breaker.mayKnock()) {
          expect(now.ms - openedAt).toBeGreaterThanOrEqual(openMs);
          breaker.knock()(step.accepts);
          expect(it.state()).toBe(step.accepts ? 'closed' : 'open');
          if (!step.accepts) openedAt = now.ms;
        }
        if ('end' in step && flying.length > 0) {
          const [one] = flying.splice(step.end % flying.length, 1);
          one?.end(step.health);
          if (before === 'closed' && it.state() === 'open') expect(step.health).toBe('down');
          if (before !== 'closed' && it.state() === 'closed') expect([step.health, one?.probe]).toEqual(['up', true]);
        }
        if (before !== 'open' && it.state() === 'open') openedAt = now.ms;
        if (it.state() === 'closed' && before !== 'closed') for (const one of flying) one.probe = false;
      }
      for (const { end } of flying) end('nothing');
      now.ms += openMs;
      expect(breaker.shutForMs('read')).toBe(0);
      breaker.enter('read')('up');
      expect(it.state() === 'closed' && breaker.shutForMs('write') === 0).toBe(true);
    }), { numRuns: 2_000 });
  });
});
