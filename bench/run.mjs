/**
 * npm run bench -- [--json FILE] [--only NAMES] [--kinds NAMES] [--clients 1,16,64] [--seconds 4] [--rounds 2] [--warm 60] [--peers] [--record] [--profile FOLDER]
 *
 * Holds Callgate against floors on this machine, side by side: every cell runs each system in turn, round after round, so that what
 * disturbs the machine disturbs all of them. Only ratios within one run mean something; docs/performance.md says how to read them.
 * Ends with 1 when a bar that it measured is missed, or a call was answered wrongly.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { measuring as measuringIn, repeats } from './measure.mjs';
import { measureReplicas } from './replicas.mjs';
import { record, report } from './report.mjs';
import { ask } from './database.mjs';
import { open, peerNames, systemNames } from './systems.mjs';
import { measureWaiting } from './waiting.mjs';

const cells = [
  { kind: 'write', clients: [1, 16, 64] },
  { kind: 'duplicate', clients: [16, 64] },
  { kind: 'duplicate-wide', clients: [64] },
  { kind: 'read', clients: [1, 64] },
];
const kinds = [...cells.map(({ kind }) => kind), 'replicas', 'waiting', 'guard'];

const { values } = parseArgs({ options: {
  json: { type: 'string' }, only: { type: 'string' }, kinds: { type: 'string' }, clients: { type: 'string' },
  seconds: { type: 'string', default: '4' }, rounds: { type: 'string', default: '2' }, warm: { type: 'string', default: '60' },
  peers: { type: 'boolean', default: false }, record: { type: 'boolean', default: false }, profile: { type: 'string' },
} });
const [seconds, rounds, warmSeconds] = [values.seconds, values.rounds, values.warm].map(Number);
const known = [...systemNames, ...(values.peers ? peerNames : [])];
const names = chosen(values.only, known, 'system');
const wanted = chosen(values.kinds, kinds, 'kind');

const house = await open(names, { profile: values.profile ? resolve(values.profile) : null });
try {
  const measuring = measuringIn(house);
  const ours = (kind) => names.includes('callgate') && wanted.includes(kind);
  const [{ version: postgres }] = await ask(house.postgres.url, `select current_setting('server_version') as version`);
  const slices = await measureCells(house, measuring);
  const bytes = names.includes('callgate') && slices.length > 0 ? await tableSizes(house) : null;
  const replicas = ours('replicas') ? await measureReplicas(house, measuring, { warmSeconds, seconds, rounds }) : null;
  const waiting = ours('waiting') ? await measureWaiting(house) : null;
  const guard = ours('guard') ? await measureGuard() : null;
  const result = {
    machine: { cpu: cpus()[0]?.model.trim(), cores: cpus().length, node: process.version, postgres }, settings: house.systems.flatMap(({ settings }) => settings ?? []),
    seconds, rounds, slices: [...slices, ...(replicas?.slices ?? [])], aborted: replicas?.aborted ?? null, waiting, guard, bytes,
  };
  const { text, bars } = report(result);
  console.log(text);
  if (values.record) record(fileURLToPath(new URL('../docs/performance.md', import.meta.url)), text, new Date());
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ ...result, bars }, null, 2)}\n`);
  const wrong = result.slices.filter(({ errors }) => errors > 0);
  for (const { system, kind, clients, errors, firstError } of wrong) console.error(`${system} ${kind} ${clients}: ${errors} errors, the first: ${firstError}`);
  if (wrong.length > 0 || bars.some(({ met }) => !met)) process.exitCode = 1;
} finally {
  await house.stop();
}

/** @returns the names of a comma-separated list, in the order in which they are known; all of them without a list. */
function chosen(text, of, what) {
  if (text === undefined) return of;
  const list = text.split(',');
  const unknown = list.find((name) => !of.includes(name));
  if (unknown !== undefined) throw new Error(`there is no ${what} \`${unknown}\`; there are ${of.join(', ')}`);
  return of.filter((name) => list.includes(name));
}

async function measureCells({ systems }, measuring) {
  const slices = [];
  const counts = values.clients?.split(',').map(Number);
  const asked = cells.filter(({ kind }) => wanted.includes(kind)).map(({ kind, clients }) => ({ kind, clients: counts ?? clients }));
  for (const { kind, clients: each } of asked) {
    const able = systems.filter(({ requests }) => requests[kind]);
    for (const system of able) {
      if (repeats(kind)) await measuring.settle(system, kind, seconds);
      await measuring.warm(system, kind, warmSeconds);
    }
    for (const clients of each) for (let round = 1; round <= rounds; round++) for (const system of able) {
      slices.push({ system: system.name, kind, clients, round, ...(await measuring.measure(system, kind, clients, seconds)) });
    }
  }
  return slices;
}

async function measureGuard() {
  const calls = Math.min(20_000, Math.max(1_000, 500 * warmSeconds));
  const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(new URL('guard.mjs', import.meta.url)), String(calls)]);
  return JSON.parse(stdout);
}

/** Of everything that operations leave behind, indexes and dead rows included. */
function tableSizes({ systems }) {
  return ask(systems.find(({ name }) => name === 'callgate').tenant.databaseUrl, `
    select relname as name, pg_table_size(oid)::float8 as table_bytes, pg_indexes_size(oid)::float8 as index_bytes,
      (select count(*) from operations where effect <> 'none')::integer as writes, (select count(*) from operations where effect = 'none')::integer as reads
    from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
      and relname in ('operations', 'receipts', 'calls', 'guards', 'session_entities') order by 1`);
}
