/** What nobody waits for, over a large ledger: recovery's looks, gauges, the sealer's look, and what the retention of one day costs. */
import pg from 'pg';
import { readKeyRing } from '../../dist/src/chain/keys.js';
import { Sealer } from '../../dist/src/chain/sealer.js';
import { openLedger } from '../../dist/src/ledger/ledger.js';
import { openRecords } from '../../dist/src/ledger/records.js';
import { createSealer } from '../../dist/src/ledger/seal.js';
import { retain } from '../../dist/src/recovery/retention.js';
import { percentiles } from '../figures.mjs';
import { ask } from '../database.mjs';

const dayMs = 86_400_000;
const times = 5;

/** @returns `[{what, p50, worst}]` in ms */
export async function measureLooks({ tenant }) {
  const { ledger, close } = open(tenant);
  const { upTo } = await ledger.chain.look();
  const looks = {
    'take what is due': () => ledger.take('bench', 1_000, 64),
    'tidy up': () => ledger.tidy(60_000),
    'escalate reviews': () => ledger.escalateReviews(),
    'adopt reviews': () => ledger.adoptReviews(dayMs),
    'count what is open': () => ledger.countOpen(),
    'count reviews': () => ledger.countReviews(),
    'take callbacks': () => ledger.callbacks.take(64, 1_000),
    'what the sealer sees': () => ledger.chain.unsealed(upTo, upTo, null, 500),
    'where every chain ends': () => ledger.chain.heads('', 500),
    'who has something to erase': () => ledger.erasures.tenants(3_650 * dayMs),
  };
  const results = [];
  for (const [what, look] of Object.entries(looks)) {
    const taken = [];
    for (let n = 0; n < times; n++) {
      const begun = performance.now();
      await look();
      taken.push(performance.now() - begun);
    }
    results.push({ what, p50: percentiles(taken).p50, worst: Math.max(...taken) });
  }
  await close();
  return results;
}

/** Erases what receipts of the oldest day say. @returns `{contents, seconds, walBytes, dead, grownBytes}` */
export async function measureRetention({ tenant }, signingKey) {
  const { ledger, records, close } = open(tenant);
  const db = new pg.Client({ connectionString: tenant.databaseUrl });
  await db.connect();
  const [{ first }] = (await db.query('select min(created_at) as first from operations')).rows;
  const before = await state(db);
  const begun = performance.now();
  await retain(ledger.erasures, Date.now() - first.getTime() - dayMs, () => false);
  const planned = performance.now();
  const sealer = new Sealer({
    store: ledger.chain, reader: records.chain, keys: readKeyRing(signingKey), owner: 'bench-retention', leaseMs: 60_000, intervalMs: 1_000, checkpointMs: 0,
    log: { info() {}, warn: console.error, error: console.error }, sealed() {}, broken() {},
  });
  await sealer.once();
  await sealer.stop();
  let contents = 0;
  for (let more = true; more;) {
    const done = await ledger.erasures.carryOut();
    contents += done.erased;
    more = done.more;
  }
  const ended = performance.now();
  const after = await state(db);
  await db.end();
  await close();
  return {
    contents, planSeconds: (planned - begun) / 1000, seconds: (ended - begun) / 1000, walBytes: after.wal - before.wal,
    grownBytes: after.bytes - before.bytes, updates: after.updates - before.updates, hot: after.hot - before.hot,
  };
}

async function state(db) {
  await db.query('select pg_stat_force_next_flush()');
  const { rows: [row] } = await db.query(`select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as wal,
    (select sum(pg_total_relation_size(relid))::float8 from pg_stat_user_tables) as bytes,
    (select sum(n_tup_upd)::float8 from pg_stat_user_tables where relname in ('receipts', 'operations')) as updates, (select sum(n_tup_hot_upd)::float8 from pg_stat_user_tables where relname in ('receipts', 'operations')) as hot`);
  return row;
}

function open({ databaseUrl, env }) {
  const options = { url: databaseUrl, preparedStatements: true, statementTimeoutMs: 120_000, connectTimeoutMs: 5_000, poolSize: 2, maxBatch: 128, maxQueue: 4_096 };
  const sealer = createSealer(env.CALLGATE_SECRETS_SEAL_KEY);
  const ledger = openLedger(options, sealer);
  const records = openRecords({ ...options, poolSize: 2 }, sealer);
  return { ledger, records, close: () => Promise.all([ledger.close(), records.close()]) };
}

/** So that autovacuum does not meet a measurement: it is let to its work before. */
export async function vacuumed({ tenant }) {
  const begun = performance.now();
  await ask(tenant.databaseUrl, 'vacuum (analyze) receipts, operations');
  return (performance.now() - begun) / 1000;
}
