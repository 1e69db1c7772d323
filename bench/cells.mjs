/** Rounds of a run, brought together: what one system did with one kind of call and so many clients. */
import { median, spread } from './figures.mjs';

/** @returns by `system kind clients`, in the order in which they ran: `{system, kind, clients, rate, spread, latencyMs, cpuMs, rssBytes, foreignCores, errors, stages}`, medians of the rounds */
export function cellsOf(slices) {
  const groups = new Map();
  for (const slice of slices) {
    const key = cellKey(slice.system, slice.kind, slice.clients);
    groups.set(key, [...(groups.get(key) ?? []), slice]);
  }
  return new Map([...groups].map(([key, group]) => [key, cellOf(group)]));
}

export const cellKey = (system, kind, clients) => `${system} ${kind} ${clients}`;

function cellOf(group) {
  const [{ system, kind, clients }] = group;
  const of = (pick) => median(group.map((slice) => pick(slice) ?? null));
  const each = (names, pick) => Object.fromEntries(names.map((name) => [name, of((slice) => pick(slice)?.[name])]));
  const rates = group.map(({ calls, seconds }) => calls / seconds);
  const steps = [...new Set(group.flatMap(({ stages }) => Object.keys(stages ?? {})))];
  return {
    system, kind, clients, rate: median(rates), spread: spread(rates),
    latencyMs: each(['p50', 'p95', 'p99'], ({ latencyMs }) => latencyMs), cpuMs: each(['gateway', 'engine', 'upstream', 'load'], ({ cpuMs }) => cpuMs),
    rssBytes: of(({ rssBytes }) => rssBytes), foreignCores: of(({ foreignCores }) => foreignCores),
    errors: group.reduce((total, { errors }) => total + errors, 0), stages: each(steps, ({ stages }) => stages),
  };
}
