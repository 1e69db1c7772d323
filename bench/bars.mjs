/** The bars of a run: what was to be reached, and what was. */
import { cellKey } from './cells.mjs';
import { fixed } from './figures.mjs';

const mega = 1e6;

/**
 * @param cells of `cellsOf`
 * @returns those bars for which the run has what they compare, `{bar, what, measured, wanted, met}`; numbers as in the list of docs/performance.md
 */
export function barsOf({ cells, guard, waiting, aborted, bytesPerOperation }) {
  const cell = (system, kind, clients) => cells.get(cellKey(system, kind, clients));
  const bars = [];
  const atLeast = (bar, what, measured, floor, unit = '×') => bars.push({ bar, what, measured: `${fixed(measured, 2)} ${unit}`, wanted: `≥ ${floor} ${unit}`, met: measured >= floor });
  const atMost = (bar, what, measured, limit, unit, digits = 2) => bars.push({ bar, what, measured: `${fixed(measured, digits)} ${unit}`, wanted: `≤ ${fixed(limit, digits)} ${unit}`, met: measured <= limit });
  /** Runs `judge` with the cells if all of them were measured. */
  const given = (wanted, judge) => { if (wanted.every((each) => each !== null && each !== undefined)) judge(...wanted); };

  const write = cell('callgate', 'write', 64);
  given([write, cell('naive', 'write', 64)], (own, naive) => {
    atLeast(1, 'writes a second, 64 clients, to naive', own.rate / naive.rate, 1);
    atMost(1, 'p99 of writes, 64 clients, to naive', own.latencyMs.p99 / naive.latencyMs.p99, 0.8, '×');
  });
  given([write, best(cells, 'restate', 'write', 64)], (own, restate) => atLeast(1, `writes a second, 64 clients, to ${restate.system}`, own.rate / restate.rate, 2.5));
  given([write, cell('dbos', 'write', 64)], (own, dbos) => atLeast(1, 'writes a second, 64 clients, to dbos', own.rate / dbos.rate, 8));
  given([cell('callgate', 'write', 1), cell('naive-prepared', 'write', 1), cell('upstream', 'read', 1)], (own, prepared, observation) =>
    atMost(2, `p50 of a write, one client (1.3 × naive-prepared ${fixed(prepared.latencyMs.p50, 2)} + observation ${fixed(observation.latencyMs.p50, 2)})`,
      own.latencyMs.p50, 1.3 * prepared.latencyMs.p50 + observation.latencyMs.p50, 'ms'));
  for (const clients of [16, 64]) {
    given([cell('callgate', 'duplicate', clients), best(cells, 'restate', 'duplicate', clients)], (own, restate) =>
      atLeast(3, `duplicates a second, ${clients} clients, to ${restate.system}`, own.rate / restate.rate, 1));
  }
  given([cell('callgate', 'read', 64), cell('proxy', 'read', 64)], (own, proxy) => atLeast(4, 'reads a second, 64 clients, to proxy', own.rate / proxy.rate, 0.6));
  given([cell('callgate', 'read', 1), cell('proxy', 'read', 1)], (own, proxy) => atMost(4, 'p50 of a read, one client, beyond proxy', own.latencyMs.p50 - proxy.latencyMs.p50, 0.4, 'ms'));
  given([guard], ({ cpuMs, largest }) => {
    atMost(5, 'guard alone, p50', cpuMs.p50, 0.5, 'ms');
    atMost(5, 'guard alone, p99', cpuMs.p99, 2, 'ms');
    const worst = largest.reduce((most, each) => (each.cpuMs > most.cpuMs ? each : most));
    atMost(5, `the costliest body within the limits (${worst.what})`, worst.cpuMs, 50, 'ms', 1);
  });
  given([bytesPerOperation], (bytes) => atMost(6, 'bytes for each operation, indexes included', bytes, 2048, 'B', 0));
  given([write?.rssBytes], (bytes) => atMost(7, 'memory of the gateway at 64 clients', bytes / mega, 250, 'MB', 0));
  given([waiting], ({ calls, bytes }) => atMost(7, `memory of ${calls} calls in line`, bytes / mega, 50, 'MB', 0));
  given([cell('two-replicas', 'replicas', 64), cell('one-replica', 'replicas', 64)], (two, one) => atLeast(8, 'writes a second, 64 clients, two replicas to one', two.rate / one.rate, 1));
  given([aborted], ({ alone, together }) => atMost(8, 'aborted transactions in 1,000 calls, two replicas (one more than with one)', together, alone + 1, ''));
  return bars;
}

/** Of a peer that is run with several settings. */
function best(cells, prefix, kind, clients) {
  const able = [...cells.values()].filter((cell) => cell.system.startsWith(prefix) && cell.kind === kind && cell.clients === clients);
  return able.length === 0 ? null : able.reduce((most, each) => (each.rate > most.rate ? each : most));
}
