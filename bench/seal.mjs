/**
 * node bench/seal.mjs [RECEIPTS]
 *
 * How long it takes to seal so many receipts that are there, to export and verify them, and to erase them; and what the column and the index by which the sealer finds them cost a
 * commit: batches of receipts with and without them, in turn.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openExporter } from '../dist/src/chain/export.js';
import { addKey, readKeyRing } from '../dist/src/chain/keys.js';
import { Sealer } from '../dist/src/chain/sealer.js';
import { readLine, Verification } from '../dist/src/chain/verify.js';
import { startEmbeddedPostgres } from '../dist/src/embedded/postgres.js';
import { openLedger } from '../dist/src/ledger/ledger.js';
import { migrate } from '../dist/src/ledger/migrate.js';
import { openRecords } from '../dist/src/ledger/records.js';
import { createSealer } from '../dist/src/ledger/seal.js';
import { projectFile } from '../dist/src/project.js';
import { retain } from '../dist/src/recovery/retention.js';
import { newReceiptId } from '../dist/src/receipt-id.js';

const count = Number(process.argv[2] ?? 100_000);
const batch = 128;
const rounds = 12;

const folder = mkdtempSync(join(tmpdir(), 'callgate-seal-'));
const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
try {
  const [marked, plain] = [await database('marked'), await database('plain')];
  await plain.db.query('drop index receipts_xact; alter table receipts alter column xact drop default');
  const spent = { marked: [], plain: [] };
  for (let round = 0; round < rounds; round++) {
    for (const [name, { store }] of round % 2 === 0 ? [['marked', marked], ['plain', plain]] : [['plain', plain], ['marked', marked]]) {
      const begun = performance.now();
      for (let n = 0; n < 20; n++) await store.record({ receipts: receipts(batch) });
      spent[name].push((performance.now() - begun) / 20);
    }
  }
  const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
  console.log(`a commit of ${batch} receipts: ${median(spent.marked).toFixed(2)} ms with the mark and its index, ${median(spent.plain).toFixed(2)} ms without (medians of ${rounds}, in turn)`);
  const [{ bytes }] = (await marked.db.query(`select pg_relation_size('receipts_xact')::float8 / (select count(*) from receipts) as bytes`)).rows;
  console.log(`the index has ${bytes.toFixed(0)} bytes for each`);

  for (let written = 0; written < count; written += batch) await marked.store.record({ receipts: receipts(Math.min(batch, count - written)) });
  const keys = readKeyRing(JSON.stringify(addKey(null, 'bench', new Date(0), 0)));
  let sealed = 0;
  const sealer = new Sealer({
    store: marked.store.chain, reader: marked.records.chain, keys, owner: 'bench', leaseMs: 60_000, intervalMs: 1_000, checkpointMs: 0,
    log: { info() {}, warn: console.error, error: console.error }, sealed: (more) => { sealed += more; }, broken() {},
  });
  const cpu = process.cpuUsage();
  const begun = performance.now();
  await sealer.once();
  const seconds = (performance.now() - begun) / 1000;
  const used = process.cpuUsage(cpu);
  console.log(`${sealed} receipts sealed in ${seconds.toFixed(1)} s, ${((used.user + used.system) / sealed).toFixed(0)} us of the gateway's CPU each`);
  const idle = performance.now();
  for (let n = 0; n < 50; n++) await sealer.once();
  console.log(`a look that finds nothing: ${((performance.now() - idle) / 50).toFixed(1)} ms`);

  const verifying = performance.now();
  let lines = 0;
  for (let tenant = 0; tenant < 10; tenant++) {
    const verification = new Verification(keys);
    for await (const piece of openExporter(marked.records.chain, keys, 10_000).lines(`tenant-${tenant}`, 0)) {
      for (const text of piece.trimEnd().split('\n')) {
        const broken = verification.accept(readLine(text));
        if (broken) throw new Error(broken.what);
        lines++;
      }
    }
    if (verification.finish()) throw new Error(verification.finish().what);
  }
  console.log(`${lines} lines exported and verified in ${((performance.now() - verifying) / 1000).toFixed(1)} s`);

  const erasing = performance.now();
  let erased = 0;
  await retain(marked.store.erasures, 0, () => false);
  await sealer.once();
  for (let more = true; more;) {
    const done = await marked.store.erasures.carryOut();
    erased += done.erased;
    more = done.more;
  }
  console.log(`${erased} contents erased in ${((performance.now() - erasing) / 1000).toFixed(1)} s`);
  await Promise.all([marked, plain].flatMap(({ store, records, db }) => [store.close(), records.close(), db.end()]));
} finally {
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function database(name) {
  const admin = new pg.Client({ connectionString: postgres.url });
  await admin.connect();
  await admin.query(`create database ${name}`);
  await admin.end();
  const url = new URL(postgres.url);
  url.pathname = `/${name}`;
  await migrate(url.href, projectFile('migrations'));
  const options = { url: url.href, statementTimeoutMs: 30_000, connectTimeoutMs: 5_000 };
  const db = new pg.Client({ connectionString: url.href });
  await db.connect();
  return {
    db, records: openRecords({ ...options, poolSize: 2 }, createSealer('bench')),
    store: openLedger({ ...options, preparedStatements: true, poolSize: 2, maxBatch: batch, maxQueue: 4_096 }, createSealer('bench')),
  };
}

function receipts(size) {
  return Array.from({ length: size }, (_, n) => ({
    id: newReceiptId(), kind: n % 2 === 0 ? 'decision' : 'effect', tenant: `tenant-${n % 10}`, operationId: `op_${'x'.repeat(32)}`, sessionId: 'session', intentId: 'intent', principal: 'agent',
    tool: 'issue_credit', disposition: 'executed', outcome: 'committed', body: { arguments: { order_id: 'O-1', amount: 2500 }, filler: 'x'.repeat(900) },
  }));
}
