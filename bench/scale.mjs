/**
 * npm run bench:scale -- [--operations 10000000] [--keep DIR] [--seconds 8] [--rounds 3] [--warm 60] [--json FILE]
 *
 * What millions of operations in the ledger change (bar 6): bytes for each, every question of the control listener, writes at 64 clients in turn with an
 * empty ledger, and the work in the background. Ends with 1 when the bar is missed. Ten million take some 31 GB of the temporary folder, which are
 * removed at the end; in DIR they stay, and the next run finds them there.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fixed, median, table } from './figures.mjs';
import { measuring as measuringIn } from './measure.mjs';
import { measureLooks, measureRetention, vacuumed } from './scale/background.mjs';
import { openLarge, sizes } from './scale/ledger.mjs';
import { measureQuestions } from './scale/questions.mjs';
import { createKey, open, openGateway } from './systems.mjs';

const clients = 64;
const bars = { firstPageMs: 100, filterMs: 500, bytes: 2_048, rate: 0.9 };

const { values } = parseArgs({ options: {
  operations: { type: 'string', default: '10000000' }, keep: { type: 'string' }, seconds: { type: 'string', default: '8' }, rounds: { type: 'string', default: '3' },
  warm: { type: 'string', default: '60' }, json: { type: 'string' },
} });
const [operations, seconds, rounds, warmSeconds] = [values.operations, values.seconds, values.rounds, values.warm].map(Number);

const house = await open(['callgate']);
try {
  const folder = values.keep ? resolve(values.keep) : join(house.folder, 'scale');
  mkdirSync(folder, { recursive: true });
  const large = await openLarge(house, { folder, operations, told: (what, took) => console.log(`  loading: ${what}, ${fixed(took, 1)} s`) });
  console.log(`${cpus()[0]?.model.trim()}, ${cpus().length} cores; ${large.loaded.operations} operations of ${large.loaded.conversations} conversations, loaded in ${fixed(large.loaded.seconds, 0)} s`);
  const verdicts = [];
  const judge = (what, measured, wanted, met) => verdicts.push({ what, measured, wanted, met });

  const bytes = told(sizeTable(await sizes(large.tenant.databaseUrl), large.loaded.operations));
  judge('bytes for each operation, all tables and indexes', `${fixed(bytes, 0)} B`, `≤ ${bars.bytes} B`, bytes <= bars.bytes);

  await large.restart();
  const begun = performance.now();
  const gateway = { name: 'large', engine: large.postgres.pid, ...(await openGateway(large, large.tenant)) };
  console.log(`\nmigrations looked at and the gateway started in ${fixed((performance.now() - begun) / 1000, 1)} s`);
  const questions = await measureQuestions(large, { controlUrl: gateway.controlUrl, key: await createKey(large.tenant, 'auditor', { role: 'auditor' }) });
  console.log(`\nquestions to the control listener, in ms: the first time after a start of Postgres, and then\n${questionTable(questions)}`);
  judgeQuestions(questions, judge);

  const looks = await measureLooks(large);
  console.log(`\nlooks in the background, in ms\n${table([['', 'p50', 'worst'], ...looks.map(({ what, p50, worst }) => [what, fixed(p50, 1), fixed(worst, 1)])])}`);

  const slices = await measureWrites(large, gateway);
  const rates = Object.fromEntries(['empty', 'large'].map((name) => [name, median(slices.filter(({ system }) => system === name).map(({ calls, seconds: of }) => calls / of))]));
  console.log(`\nwrites at ${clients} clients, in turn\n${sliceTable(slices)}`);
  judge('writes a second to those of an empty ledger', `${fixed(rates.large / rates.empty, 2)} ×`, `≥ ${bars.rate} ×`, rates.large / rates.empty >= bars.rate);
  await gateway.stop();

  const retention = await measureRetention(large, large.loaded.signingKey);
  const vacuum = await vacuumed(large);
  console.log(`\nretention of the oldest day: ${retention.contents} contents in ${fixed(retention.seconds, 1)} s (${fixed(retention.planSeconds, 1)} s of it to plan), ${fixed(retention.walBytes / 1e6, 0)} MB of WAL, `
    + `${retention.updates} rows updated, ${retention.hot} of them within their page, ${fixed(retention.grownBytes / 1e6, 0)} MB more on disk; vacuum and statistics afterwards ${fixed(vacuum, 1)} s`);

  console.log(`\n${table([['bar 6', 'measured', 'wanted', ''], ...verdicts.map(({ what, measured, wanted, met }) => [what, measured, wanted, met ? 'met' : 'MISSED'])])}`);
  if (values.json) writeFileSync(values.json, `${JSON.stringify({ loaded: { ...large.loaded, signingKey: undefined }, bytes, questions, looks, slices, retention, vacuum, verdicts }, null, 2)}\n`);
  const wrong = slices.find(({ errors }) => errors > 0);
  if (wrong) console.error(`${wrong.system}: ${wrong.errors} errors, the first: ${wrong.firstError}`);
  if (wrong || verdicts.some(({ met }) => !met)) process.exitCode = 1;
} finally {
  await house.stop();
}

function told({ text, bytes }) {
  console.log(`\nbytes for each operation\n${text}`);
  return bytes;
}

function sizeTable(rows, of) {
  const shown = rows.filter(({ table_bytes, index_bytes }) => (table_bytes + index_bytes) / of >= 1);
  const sum = (member) => rows.reduce((total, row) => total + row[member], 0) / of;
  return {
    bytes: sum('table_bytes') + sum('index_bytes'),
    text: table([['', 'rows', 'table', 'indexes'], ...shown.map((row) => [row.name, fixed(row.rows, 0), fixed(row.table_bytes / of, 0), fixed(row.index_bytes / of, 0)]),
      ['in all', '', fixed(sum('table_bytes'), 0), fixed(sum('index_bytes'), 0)]]),
  };
}

function questionTable(questions) {
  return table([['', 'first', 'p50', 'worst', 'items', 'more'], ...questions.map(({ what, cold, p50, worst, items, more }) => [what, fixed(cold, 0), fixed(p50, 1), fixed(worst, 1), String(items ?? '–'), more ? 'yes' : ''])]);
}

function judgeQuestions(questions, judge) {
  const most = ({ cold, worst }) => Math.max(cold, worst);
  const first = questions.find(({ what }) => what === 'receipts');
  judge('first page of receipts', `${fixed(most(first), 0)} ms`, `< ${bars.firstPageMs} ms`, most(first) < bars.firstPageMs);
  const slowest = questions.reduce((a, b) => (most(b) > most(a) ? b : a));
  judge(`the slowest question (${slowest.what})`, `${fixed(most(slowest), 0)} ms`, `< ${bars.filterMs} ms`, most(slowest) < bars.filterMs);
}

async function measureWrites(large, gateway) {
  const sides = [{ ...house.systems[0], name: 'empty', measuring: measuringIn(house) }, { ...gateway, measuring: measuringIn(large) }];
  for (const side of sides) await side.measuring.warm(side, 'write', warmSeconds);
  const slices = [];
  for (let round = 1; round <= rounds; round++) for (const side of sides) slices.push({ system: side.name, round, ...(await side.measuring.measure(side, 'write', clients, seconds)) });
  return slices;
}

function sliceTable(slices) {
  return table([['ledger', 'calls/s', 'p50 ms', 'p99', 'CPU gateway', 'engine', 'others', 'errors'], ...slices.map(({ system, calls, seconds: of, latencyMs, cpuMs, foreignCores, errors }) =>
    [system, fixed(calls / of, 0), fixed(latencyMs.p50, 1), fixed(latencyMs.p99, 1), fixed(cpuMs?.gateway, 3), fixed(cpuMs?.engine, 3), fixed(foreignCores, 2), String(errors)])]);
}
