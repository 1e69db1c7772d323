/** One run: everything proposed while everything is disturbed, then quiet, then every end, then the books. Rounds keep the tester's memory bounded. */
import { answerLeftBehind } from './approvers.js';
import { openCallers } from './callers.js';
import { check, type Violation } from './checker.js';
import { type Disturbing, openDisturbing } from './disturbing.js';
import { settledLedger } from './evidence.js';
import { type History, type LedgerEntry, newHistory } from './history.js';
import { type House, openHouse, windows } from './house.js';
import type { Options } from './options.js';
import { inParallel } from './parallel.js';
import { disturbancesOf, type Step, stepOf, stepsPerRound, stockFor } from './plan.js';
import type { Stock } from './orders.js';
import { seeded } from './random.js';
import { startReviewers } from './reviewers.js';

export interface Summary {
  operations: number;
  proposals: number;
  /** What the service and the processes suffered, by kind. */
  faults: Record<string, number>;
  disturbances: Record<string, number>;
  cut: number;
  effects: number;
  ends: Record<string, number>;
  answers: Record<string, number>;
  reviews: number;
  verdicts: number;
  /** From the first proposal to the first end, in milliseconds, sorted. */
  settleMs: number[];
  quietToEndMs: number;
  violations: Violation[];
  /** What the time went into, in milliseconds. */
  phases: [string, number][];
}

const workers = 12;

/** @throws Error when the processes themselves could not be brought up. */
export async function run(options: Options, say: (line: string) => void): Promise<Summary> {
  const watch = stopwatch();
  const rounds = roundsOf(options);
  const sum = emptySummary();
  const house = await openHouse({ replicas: options.replicas, stock: stockOf(options), failover: options.failover });
  watch('start');
  try {
    for (const [n, round] of rounds.entries()) {
      if (n > 0) await house.shop.reset();
      const failover = options.failover && n === Math.floor(rounds.length / 2);
      await playRound(house, options, round.steps, { seed: options.seed + n, kills: round.kills, failover }, sum, watch);
      if (rounds.length > 1) say(`round ${n + 1} of ${rounds.length}: ${sum.operations} operations, ${sum.violations.length} violations`);
    }
    sum.faults = await house.shop.met();
    sum.violations.push(...house.fleet.unexpected().map((what): Violation => ({ invariant: 8, what })));
  } finally {
    await house.close();
  }
  sum.settleMs.sort((a, b) => a - b);
  sum.phases = watch();
  return sum;
}

/** A step has an intent at least. */
const stockOf = ({ operations }: Options): Stock => stockFor(Math.min(stepsPerRound, operations));

function roundsOf(options: Options): { steps: Step[]; kills: number }[] {
  const { operations, kills, seed } = options;
  const rounds: Step[][] = [];
  for (let left = operations; left > 0;) {
    const steps: Step[] = [];
    for (let n = 0; n < stepsPerRound && left > 0; n++) {
      const step = stepOf(seed + rounds.length, `r${rounds.length}`, n, stockOf(options), windows);
      steps.push(step);
      left -= step.intents.length;
    }
    rounds.push(steps);
  }
  const total = rounds.reduce((all, { length }) => all + length, 0);
  return rounds.map((steps) => ({ steps, kills: Math.round((kills * steps.length) / total) }));
}

interface Round { seed: number; kills: number; failover: boolean }

async function playRound(house: House, options: Options, steps: Step[], { seed, kills, failover }: Round, sum: Summary, watch: Stopwatch): Promise<void> {
  const history = newHistory();
  const since = ((await house.postgres.query(`select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as now`)).rows[0] as { now: string }).now;
  const callers = openCallers(house, history);
  const disturbing = openDisturbing(house, disturbancesOf(seed, steps.length, kills, failover), options.replicas, seed);
  const reviewers = startReviewers(house, seeded(seed));
  let ledger: LedgerEntry[];
  try {
    await inParallel(steps, workers, async (step, n) => {
      disturbing.reached(n);
      await callers.play(step);
    });
    watch('propose');
    disturbing.reached(steps.length);
    await disturbing.quiet();
    watch('quiet down');
    history.quietAt = performance.now();
    const untilMs = history.quietAt + windows.reconcileMs + graceMs;
    // Budgets last: what came back to them while others ended is proposed again.
    for (const some of [steps, steps.filter(({ budget }) => budget !== null)]) await inParallel(some, workers, (step) => callers.finish(step, untilMs));
    await answerLeftBehind(house, history);
    ledger = await settledLedger(house, since, untilMs);
  } finally {
    await reviewers.stop();
    history.reviews = reviewers.decided();
  }
  watch('end');
  const [books, met] = [await house.shop.books(), await house.shop.met()];
  sum.violations.push(...check({ history, books, ledger, doubles: met['double_effect'] ?? 0, deadlineMs: windows.reconcileMs + graceMs }));
  sum.effects += books.credits.length + books.voids.length + books.cancellations.length;
  sum.reviews += history.reviews.length;
  add(sum, history, disturbing);
  watch('check');
}

type Stopwatch = (phase?: string) => [string, number][];

/** Adds the time since the last call to a phase; gives all of them. */
function stopwatch(): Stopwatch {
  const phases = new Map<string, number>();
  let last = performance.now();
  return (phase) => {
    const now = performance.now();
    if (phase !== undefined) phases.set(phase, (phases.get(phase) ?? 0) + now - last);
    last = now;
    return [...phases];
  };
}

const graceMs = 30_000;

function emptySummary(): Summary {
  return {
    operations: 0, proposals: 0, faults: {}, disturbances: {}, cut: 0, effects: 0, ends: {}, answers: {}, reviews: 0, verdicts: 0, settleMs: [], quietToEndMs: 0, violations: [], phases: [],
  };
}

function add(sum: Summary, { told, quietAt }: History, disturbing: Disturbing): void {
  const count = (into: Record<string, number>, name: string, times = 1): void => { into[name] = (into[name] ?? 0) + times; };
  for (const { said, cut, final, endedAt, verdicts } of told) {
    sum.operations += 1;
    sum.proposals += said.length + cut;
    sum.cut += cut;
    sum.verdicts += verdicts.length;
    for (const { disposition } of said) count(sum.answers, disposition);
    count(sum.ends, final ? (final.outcome === 'committed' ? 'committed' : final.disposition) : 'given up by the caller');
    const asked = said[0]?.askedAt;
    if (endedAt !== null && asked !== undefined) sum.settleMs.push(endedAt - asked);
    if (endedAt !== null) sum.quietToEndMs = Math.max(sum.quietToEndMs, endedAt - quietAt);
  }
  for (const [kind, times] of Object.entries(disturbing.done())) count(sum.disturbances, kind, times);
}
