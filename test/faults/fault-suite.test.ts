import { describe, expect, it } from 'vitest';
import { command, injectedNothing, report } from '../../faults/report.js';
import { readOptions } from '../../faults/options.js';
import { run } from '../../faults/run.js';
import { disturbancesOf, stepOf, stockFor } from '../../faults/plan.js';
import { windows } from '../../faults/house.js';

/**
 * The bounded form of `npm run test:faults`: the built gateway twice, Postgres with a standby, Redis and a service that fails in every way it can, killed and
 * cut off at random while they are used. If this is lost, what the other tests show one failure at a time may not hold for two at once.
 * CALLGATE_FAULTS_SEED repeats a run.
 */
describe('the fault suite, bounded', () => {
  const seed = process.env['CALLGATE_FAULTS_SEED'];
  const options = readOptions(['--operations', '200', '--kills', '5', ...(seed === undefined ? [] : ['--seed', seed])]);

  it(`keeps all eight invariants (CALLGATE_FAULTS_SEED=${options.seed})`, async () => {
    const sum = await run(options, console.log);
    console.log(`${command(options)}\n${report(sum)}`);
    expect(sum.violations).toEqual([]);
    expect(sum.operations).toBeGreaterThanOrEqual(200);
    expect(Object.keys(sum.faults).length).toBeGreaterThan(5);
    expect(sum.disturbances).toMatchObject({ 'replica killed': 5, 'postgres failed over': 1, 'redis killed': 1, 'redis flushed': 1, 'service killed': 1 });
    expect(sum.effects).toBeGreaterThan(80);
  }, 400_000);
});

describe('a seed', () => {
  it('repeats what is proposed and what is disturbed, and another seed is another run', () => {
    const plan = (seed: number) => JSON.stringify([
      ...Array.from({ length: 50 }, (_, n) => stepOf(seed, 'r0', n, stockFor(50), windows)), ...disturbancesOf(seed, 50, 10, true),
    ]);
    expect(plan(7)).toBe(plan(7));
    expect(plan(8)).not.toBe(plan(7));
  });
});

describe('a run in which nothing was injected', () => {
  it('is no success', () => {
    const sum = {
      operations: 3, proposals: 3, faults: {}, disturbances: {}, cut: 0, effects: 3, ends: { committed: 3 }, answers: { executed: 3 }, reviews: 0, verdicts: 0, settleMs: [1],
      quietToEndMs: 0, violations: [], phases: [],
    };
    expect(injectedNothing(sum)).toBe(true);
    expect(report(sum)).toContain('a run without faults proves nothing');
    expect(injectedNothing({ ...sum, faults: { commit_then_drop: 1 } })).toBe(false);
  });
});
