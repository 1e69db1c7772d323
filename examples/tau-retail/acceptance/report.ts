/** The table per point, and every difference. */
import type { Point } from './judge.js';
import type { Mode } from './modes.js';
import type { Replayed } from './replay.js';
import type { Stranger } from './strangers.js';

export interface ModeReport {
  mode: Mode;
  calls: number;
  conversations: number;
  sameData: number;
  sentOnce: number;
  kills: number;
  seconds: number;
  points: Record<Point, { calls: number; as_they_must_be: number }>;
  explained: Record<string, number>;
  /** Whatever nothing explains. */
  differences: string[];
  strangers: { probes: number; denied: number };
}

const points: readonly Point[] = ['read', 'read error', 'accepted write', 'rejected write', 'out of sight'];

export function summarize(mode: Mode, replayed: readonly Replayed[], strangers: readonly Stranger[], { kills, seconds }: { kills: number; seconds: number }): ModeReport {
  const verdicts = replayed.flatMap((each) => each.verdicts);
  const explained: Record<string, number> = {};
  for (const { explained: why } of verdicts) if (why !== null) explained[why] = (explained[why] ?? 0) + 1;
  const count = (of: Point): { calls: number; as_they_must_be: number } => {
    const those = verdicts.filter(({ point }) => point === of);
    return { calls: those.length, as_they_must_be: those.filter(({ difference }) => difference === null).length };
  };
  return {
    mode, kills, seconds, explained, calls: verdicts.length, conversations: replayed.length,
    sameData: replayed.filter(({ dataDifference }) => dataDifference === null).length,
    sentOnce: replayed.reduce((sum, each) => sum + each.sentOnce, 0),
    points: Object.fromEntries(points.map((point) => [point, count(point)])) as ModeReport['points'],
    differences: [
      ...verdicts.flatMap(({ call, point, difference }) => (difference === null ? [] : [`${call} (${point}): ${difference}`])),
      ...replayed.flatMap(({ conversation, dataDifference }) => (dataDifference === null ? [] : [`${conversation}: other data at the end: ${dataDifference}`])),
      ...strangers.flatMap(({ call, difference }) => (difference === null ? [] : [`${call} (another user's order): ${difference}`])),
    ],
    strangers: { probes: strangers.length, denied: strangers.filter(({ difference }) => difference === null).length },
  };
}

export function isAccepted({ differences }: ModeReport): boolean {
  return differences.length === 0;
}

const told: Record<Point, string> = {
  'read': '1 reads: the recorded answer',
  'read error': '1 reads that failed: refused, by code',
  'accepted write': '2 accepted writes: one effect, the recorded answer',
  'rejected write': '3 rejected writes: no effect; before dispatch where table or relation say it',
  'out of sight': '6 calls on another user\'s resource: hidden',
};

export function print(report: ModeReport, all: number): string {
  const row = (what: string, good: number, of: number): string => `  ${what.padEnd(76)} ${`${good} of ${of}`.padStart(14)}${good === of ? '' : '   <--'}`;
  const writes = report.points['accepted write'].calls;
  return [
    `\n${report.mode} (${report.seconds.toFixed(1)} s${report.mode === 'kill9' ? `, ${report.kills} kills` : ''})`,
    row('calls accounted for', report.calls, all),
    ...points.map((point) => row(told[point], report.points[point].as_they_must_be, report.points[point].calls)),
    `  ${'  of the accepted writes, sent in a single request'.padEnd(76)} ${`${report.sentOnce} of ${writes}`.padStart(14)}`,
    row('4 conversations: the data of a run without what was rejected', report.sameData, report.conversations),
    row('6 writes by a stranger: denied without a word', report.strangers.denied, report.strangers.probes),
    ...Object.entries(report.explained).map(([why, calls]) => `  explained: ${why} (${calls} calls; held against the store itself)`),
    ...report.differences.map((difference) => `  DIFFERENCE ${difference}`),
  ].join('\n');
}
