/** What a run found, as text. */
import { readFileSync, writeFileSync } from 'node:fs';
import { barsOf } from './bars.mjs';
import { cellKey, cellsOf } from './cells.mjs';
import { fixed, table } from './figures.mjs';

const titles = { write: 'a unique write', duplicate: 'the same write again', 'duplicate-wide': 'the same write again, of so many that each is looked up', read: 'a pure read', replicas: 'a unique write, over one replica and over two' };
/** Against what a kind of call is held. */
const floors = { write: 'naive', duplicate: 'naive', read: 'proxy', replicas: 'one-replica' };

/** @returns `{text, bars}` */
export function report({ machine, settings, seconds, rounds, slices, guard, waiting, aborted, bytes }) {
  const cells = cellsOf(slices);
  const lines = [
    `${machine.cpu}, ${machine.cores} cores; Node ${machine.node}, Postgres ${machine.postgres}; ${rounds} rounds of ${seconds} s, systems in turn; medians of rounds`,
    'CPU is milliseconds per call; "spread" is how far the rates of the rounds lie apart; "others" is what else kept the machine busy, in cores: above 0.2 distrust the line.',
    ...settings,
  ];
  for (const [kind, title] of Object.entries(titles)) {
    const rows = [...cells.values()].filter((cell) => cell.kind === kind).map((cell) => rowOf(cell, cells.get(cellKey(floors[kind], kind, cell.clients))));
    if (rows.length > 0) lines.push('', floors[kind] ? `${title} (ratio to ${floors[kind]})` : title, table([head, ...rows]));
  }
  lines.push(...stageLines([...cells.values()].filter(({ system }) => system === 'callgate')));
  if (guard) lines.push('', ...guardLines(guard));
  if (bytes) lines.push('', sizeLine(bytes));
  const bars = barsOf({ cells, guard, waiting, aborted, bytesPerOperation: bytes && perOperation(bytes) });
  lines.push('', ...barLines(bars));
  return { text: lines.join('\n'), bars };
}

const [begin, end] = ['<!-- measured -->', '<!-- /measured -->'];

/** Puts a report, as it is, into the page between its marks. */
export function record(file, text, day) {
  const page = readFileSync(file, 'utf8');
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file} has no place for a report between ${begin} and ${end}`);
  writeFileSync(file, `${page.slice(0, from + begin.length)}\n${day.toISOString().slice(0, 10)}\n\n\`\`\`\n${text}\n\`\`\`\n${page.slice(to)}`);
}

const head = ['system', 'clients', 'calls/s', 'spread', 'ratio', 'p50 ms', 'p95', 'p99', 'CPU gateway', 'engine', 'upstream', 'load', 'RSS MB', 'others', 'errors'];

function rowOf(cell, base) {
  const { system, clients, rate, latencyMs, cpuMs, rssBytes, foreignCores, errors } = cell;
  return [
    system, String(clients), fixed(rate, 0), cell.spread === null ? '–' : `${fixed(100 * cell.spread, 0)} %`, base ? fixed(rate / base.rate, 2) : '–',
    ...[latencyMs.p50, latencyMs.p95, latencyMs.p99].map((ms) => fixed(ms, 2)),
    ...[cpuMs.gateway, cpuMs.engine, cpuMs.upstream, cpuMs.load].map((ms) => fixed(ms, 3)),
    fixed(rssBytes === null ? null : rssBytes / 1e6, 0), fixed(foreignCores, 2), String(errors),
  ];
}

/** A column for each kind and number of clients, a row for each step: milliseconds per call, and their share. */
function stageLines(cells) {
  const columns = cells.filter(({ stages }) => Object.keys(stages).length > 0);
  if (columns.length === 0) return [];
  const steps = [...new Set(columns.flatMap(({ stages }) => Object.keys(stages)))].sort((a, b) => rank(a) - rank(b));
  const rows = steps.map((step) => [step, ...columns.map(({ stages }) => {
    const total = Object.values(stages).reduce((sum, ms) => sum + ms, 0);
    return stages[step] === null || stages[step] === undefined ? '–' : `${fixed(stages[step], 2)}  ${fixed((100 * stages[step]) / total, 0).padStart(2)} %`;
  })]);
  return ['', 'where the time of a call goes in callgate, waiting included: ms per call and its share', table([['step', ...columns.map(({ kind, clients }) => `${kind} ${clients}`)], ...rows])];
}

const order = ['parse parse', 'validate shape', 'authorize tool', 'validate look_up', 'validate turn', 'validate observe', 'authorize resource', 'validate survey', 'validate world', 'execute intent',
  'execute exchange', 'reconcile reconcile', 'route route', 'around them'];
const rank = (step) => (order.includes(step) ? order.indexOf(step) : order.length - 1.5);

function guardLines({ calls, cpuMs, ms, steps, largest }) {
  return [
    `the guard alone, ${calls} calls in one process without I/O: CPU p50 ${fixed(cpuMs.p50, 3)} ms, p95 ${fixed(cpuMs.p95, 3)}, p99 ${fixed(cpuMs.p99, 3)} (by the clock ${fixed(ms.p50, 3)}, ${fixed(ms.p95, 3)}, ${fixed(ms.p99, 3)})`,
    `  its steps: ${Object.entries(steps).map(([step, each]) => `${step} ${fixed(each, 3)}`).join(', ')}`,
    `  the largest bodies: ${largest.map((each) => `${each.what} ${fixed(each.cpuMs, 1)} ms`).join(', ')}`,
  ];
}

const perOperation = (bytes) => {
  const operations = bytes[0].writes + bytes[0].reads;
  return operations === 0 ? null : bytes.reduce((sum, row) => sum + row.table_bytes + row.index_bytes, 0) / operations;
};

function sizeLine(bytes) {
  const operations = bytes[0].writes + bytes[0].reads;
  const parts = bytes.map(({ name, table_bytes, index_bytes }) => `${name} ${fixed(table_bytes / operations, 0)} + ${fixed(index_bytes / operations, 0)}`);
  return `bytes per operation, tables + indexes: ${fixed(perOperation(bytes), 0)} (${parts.join(', ')}); ${bytes[0].writes} writes, ${bytes[0].reads} reads`;
}

function barLines(bars) {
  if (bars.length === 0) return ['no bar was measured'];
  const missed = bars.filter(({ met }) => !met);
  return [
    table([['bar', 'measured', 'wanted', ''], ...bars.map(({ bar, what, measured, wanted, met }) => [`${bar}  ${what}`, measured, wanted, met ? 'met' : 'MISSED'])]),
    missed.length === 0 ? 'every bar that was measured is met' : `missed: ${[...new Set(missed.map(({ bar }) => `bar ${bar}`))].join(', ')}`,
  ];
}
