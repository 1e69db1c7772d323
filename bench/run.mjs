/**
 * npm run bench -- [--json FILE] [--only NAMES] [--kinds write,duplicate,read] [--clients 1,16,64] [--seconds 4] [--rounds 2] [--profile FOLDER]
 *
 * Holds Callgate against floors on this machine, side by side: every cell runs each system in turn, round after round, so that what
 * disturbs the machine disturbs all of them. Only ratios within one run mean something; docs/performance.md says how to read them.
 */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { report } from './report.mjs';
import { ask, open, systemNames } from './systems.mjs';
import { weigh, weighMachine } from './processes.mjs';

const duplicateKeys = 300;
const warmSeconds = 2;
const cells = [
  { kind: 'write', clients: [1, 16, 64] },
  { kind: 'duplicate', clients: [16, 64] },
  { kind: 'read', clients: [1, 64] },
];

const list = (text) => text?.split(',');
const { values } = parseArgs({ options: {
  json: { type: 'string' }, only: { type: 'string' }, kinds: { type: 'string' }, clients: { type: 'string' },
  seconds: { type: 'string', default: '4' }, rounds: { type: 'string', default: '2' }, profile: { type: 'string' },
} });
const only = list(values.only);
const unknown = only?.find((name) => !systemNames.includes(name));
if (unknown !== undefined) throw new Error(`there is no system \`${unknown}\`; there are ${systemNames.join(', ')}`);
const wanted = cells
  .filter(({ kind }) => !values.kinds || list(values.kinds).includes(kind))
  .map(({ kind, clients }) => ({ kind, clients: values.clients ? list(values.clients).map(Number) : clients }));

const house = await open({ only, profile: values.profile ? resolve(values.profile) : null });
try {
  const [{ version: postgres }] = await ask(house.postgres.url, `select current_setting('server_version') as version`);
  const machine = { cpu: cpus()[0]?.model.trim(), cores: cpus().length, node: process.version, postgres };
  const result = { machine, seconds: Number(values.seconds), rounds: Number(values.rounds), slices: await measure(house), bytes: await bytesPerOperation(house) };
  console.log(report(result));
  if (values.json) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
} finally {
  await house.stop();
}

async function measure({ systems, load, postgres, upstream }) {
  const slices = [];
  let slice = 0;
  // Fixed width after a number of the slice's own, so that no two slices name one order.
  const jobOf = (system, request, clients, seconds, more = {}) => ({
    url: system.url, ...system.requests[request], clients, seconds, prefix: `${++slice + 100}`, first: 1_000_000, ...more,
  });
  for (const system of systems) for (const request of ['write', 'read']) {
    if (system.requests[request]) await load.run(jobOf(system, request, 16, Math.min(warmSeconds, Number(values.seconds))));
  }
  for (const { kind, clients: counts } of wanted) {
    const able = systems.filter(({ requests }) => requests[kind]);
    const known = kind === 'duplicate' ? { prefix: '1', keys: duplicateKeys } : {};
    if (kind === 'duplicate') for (const system of able) await load.run(jobOf(system, 'write', 16, 60, { ...known, calls: duplicateKeys }));
    for (const clients of counts) for (let round = 1; round <= Number(values.rounds); round++) for (const system of able) {
      const weights = () => [weigh(system.pid), weigh(postgres.pid, true), weigh(upstream.pid), weighMachine()];
      const before = weights();
      const result = await load.run(jobOf(system, kind, clients, Number(values.seconds), known));
      system.mustLive();
      slices.push({ system: system.name, kind, clients, round, ...result, ...used(system, before, weights(), result) });
      if (result.errors > 0) {
        console.error(`${system.name} ${kind} ${clients}: ${result.errors} errors, the first: ${result.firstError}`);
        process.exitCode = 1;
      }
    }
  }
  return slices;
}

/** CPU milliseconds per call by process, what else kept the machine busy, and the memory of the system under test. */
function used(system, before, after, { calls, cpuSeconds, seconds }) {
  const [own, postgres, upstream, machine] = before.map((then, i) => {
    const now = after[i];
    return then === null || now === null ? null : typeof now === 'number' ? now - then : now.cpuSeconds - then.cpuSeconds;
  });
  if (own === null || machine === null) return { cpuMs: null, foreignCores: null, rssBytes: null };
  const gateway = system.name === 'upstream' ? 0 : own;
  const per = (spent) => (calls === 0 ? null : (spent / calls) * 1000);
  return {
    cpuMs: { gateway: per(gateway), postgres: per(postgres), upstream: per(upstream), load: per(cpuSeconds) },
    foreignCores: Math.max(0, (machine - gateway - postgres - upstream - cpuSeconds) / seconds), rssBytes: after[0].rssBytes,
  };
}

/** Of everything that one operation leaves behind, indexes and dead rows included. */
async function bytesPerOperation({ systems }) {
  const callgate = systems.find(({ name }) => name === 'callgate');
  if (!callgate) return null;
  return ask(callgate.databaseUrl, `
    select relname as name, pg_table_size(oid)::float8 as table_bytes, pg_indexes_size(oid)::float8 as index_bytes,
      (select count(*) from operations where effect <> 'none')::integer as writes, (select count(*) from operations where effect = 'none')::integer as reads
    from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
      and relname in ('operations', 'receipts', 'calls', 'guards', 'session_entities') order by 1`);
}
