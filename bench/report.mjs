/** What a run found, as text. */
import { fixed, median, table } from './figures.mjs';

const titles = { write: 'a unique write', duplicate: 'the same write again', read: 'a pure read' };
/** Against which floor a kind of call is held. */
const floors = { write: 'naive', duplicate: 'naive', read: 'proxy' };

export function report({ machine, seconds, rounds, slices, bytes }) {
  const lines = [
    `${machine.cpu}, ${machine.cores} cores; Node ${machine.node}, Postgres ${machine.postgres}; ${rounds} rounds of ${seconds} s, systems in turn; medians of rounds`,
    'CPU is milliseconds per call; "others" is what else kept the machine busy, in cores: above 0.2 distrust the line.',
  ];
  for (const kind of Object.keys(titles)) {
    const rows = rowsOf(slices.filter((slice) => slice.kind === kind), floors[kind]);
    if (rows.length > 0) lines.push('', `${titles[kind]} (ratio to ${floors[kind]})`, table([head, ...rows]));
  }
  if (bytes) lines.push('', ...sizes(bytes));
  return lines.join('\n');
}

const head = ['system', 'clients', 'calls/s', 'ratio', 'p50 ms', 'p95', 'p99', 'CPU gateway', 'postgres', 'upstream', 'load', 'RSS MB', 'others', 'errors'];

function rowsOf(slices, floor) {
  const groups = groupBy(slices, ({ system, clients }) => `${clients} ${system}`);
  const rate = (group) => median(group.map(({ calls, seconds }) => calls / seconds));
  return [...groups.values()].map((group) => {
    const [{ system, clients }] = group;
    const base = groups.get(`${clients} ${floor}`);
    const of = (pick) => median(group.map(pick));
    return [
      system, String(clients), fixed(rate(group), 0), base ? fixed(rate(group) / rate(base), 2) : '–',
      fixed(of(({ latencyMs }) => latencyMs.p50), 2), fixed(of(({ latencyMs }) => latencyMs.p95), 2), fixed(of(({ latencyMs }) => latencyMs.p99), 2),
      ...['gateway', 'postgres', 'upstream', 'load'].map((part) => fixed(of(({ cpuMs }) => cpuMs?.[part] ?? null), 3)),
      fixed(of(({ rssBytes }) => (rssBytes === null ? null : rssBytes / 1e6)), 0), fixed(of(({ foreignCores }) => foreignCores), 2),
      String(group.reduce((total, { errors }) => total + errors, 0)),
    ];
  });
}

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

function sizes(bytes) {
  const operations = bytes[0].writes + bytes[0].reads;
  const total = bytes.reduce((sum, row) => sum + row.table_bytes + row.index_bytes, 0);
  const parts = bytes.map(({ name, table_bytes, index_bytes }) => `${name} ${fixed(table_bytes / operations, 0)} + ${fixed(index_bytes / operations, 0)}`);
  return [
    `bytes per operation, tables + indexes: ${fixed(total / operations, 0)} (${parts.join(', ')}); ${bytes[0].writes} writes, ${bytes[0].reads} reads`,
  ];
}
