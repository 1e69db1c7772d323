/** What a run did and found, for people. */
import { invariants } from './checker.js';
import type { Options } from './options.js';
import type { Summary } from './run.js';

export const command = ({ operations, kills, replicas, seed, failover }: Options): string =>
  `npm run test:faults -- --operations ${operations} --kills ${kills} --replicas ${replicas} --seed ${seed}${failover ? '' : ' --no-failover'}`;

const shown = 8;

/** Nothing injected, nothing proven. */
export const injectedNothing = ({ faults, disturbances }: Summary): boolean => total(faults) + total(disturbances) === 0;

export function report(sum: Summary): string {
  const ms = (part: number): string => `${Math.round(sum.settleMs[Math.min(sum.settleMs.length - 1, Math.floor(sum.settleMs.length * part))] ?? 0)} ms`;
  const rows: [string, string][] = [
    ['operations meant', `${sum.operations} in ${sum.proposals} proposals`],
    ['effects in the books', String(sum.effects)],
    ['faults of the service', list(sum.faults)],
    ['processes', list(sum.disturbances)],
    ['connections cut', String(sum.cut)],
    ['answers', list(sum.answers)],
    ['ends', list(sum.ends)],
    ['people', `${sum.verdicts} verdicts on approvals, ${sum.reviews} reviews decided`],
    ['first proposal to end', `p50 ${ms(0.5)}, p99 ${ms(0.99)}, max ${ms(1)}`],
    ['last end after the last disturbance', `${Math.max(0, Math.round(sum.quietToEndMs))} ms`],
    ['took', sum.phases.map(([name, ms]) => `${name} ${Math.round(ms / 1000)} s`).join(', ')],
    ['violations', String(sum.violations.length)],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
  const told = Object.entries(invariants).flatMap(([number, name]) => {
    const of = sum.violations.filter(({ invariant }) => invariant === Number(number));
    return of.length === 0 ? [] : [`  ${number} (${name}): ${of.length}`, ...of.slice(0, shown).map(({ what }) => `    ${what}`)];
  });
  if (injectedNothing(sum)) told.push('  nothing was injected: a run without faults proves nothing');
  return [...lines, ...told].join('\n');
}

const total = (counts: Record<string, number>): number => Object.values(counts).reduce((all, n) => all + n, 0);
const list = (counts: Record<string, number>): string => `${total(counts)}: ${Object.entries(counts).sort(([, a], [, b]) => b - a).map(([name, n]) => `${name} ${n}`).join(', ')}`;
