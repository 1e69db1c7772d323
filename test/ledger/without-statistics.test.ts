/**
 * A ledger that grows quickly is asked before anybody has counted its rows. Where an index for ids says nothing of the tenant, the planner then takes it for no
 * better than one that begins with the tenant, and reads all that a tenant has for every id: the sealer and the story of an operation would stop at once.
 */
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { createSealer } from '../../src/ledger/seal.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import { openRecords, type RecordStore } from '../../src/ledger/records.js';
import { projectFile } from '../../src/project.js';
import { freshDatabase } from '../support/servers.js';
import { type Planned, watched } from './watched-plans.js';

const receipts = 20_000;
let db: pg.Client;
let records: RecordStore;
let ledger: LedgerStore;

beforeAll(async () => {
  const url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  db = new pg.Client({ connectionString: url });
  await db.connect();
  const options = { url, statementTimeoutMs: 20_000, connectTimeoutMs: 2_000, poolSize: 1 };
  records = openRecords(options, createSealer('seal'));
  ledger = openLedger({ ...options, preparedStatements: true, maxBatch: 128, maxQueue: 1_000 }, createSealer('seal'));
  for (const table of ['receipts', 'receipt_chain', 'operations']) await db.query(`alter table ${table} set (autovacuum_enabled = false)`);
  await db.query(`insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, recorded_at, digest, body)
    select 'acme', 'rcp_' || lpad(n::text, 26, '0'), 'decision', 'op_' || n / 2, 's-' || n / 10, '', 'p', 't', 'executed', now(), '\\x00', '{}' from generate_series(1, ${receipts}) n`);
  await db.query(`insert into receipt_chain (tenant, sequence, receipt_id, link) select tenant, row_number() over (order by id), id, '\\x00' from receipts`);
  await db.query(`insert into operations (tenant, operation_id, identity, generation, effect, state, write_id, tool, contract_version, principal, subject, purpose, session_id, turn_id, intent_id, call_id, fingerprint)
    select 'acme', 'op_' || n, decode(md5('op_' || n), 'hex'), 1, 'write', 'committed', gen_random_uuid(), 't', '1', 'p', '', '', 's-' || n / 5, '', '', 'c', '\\x00' from generate_series(1, ${receipts / 2}) n`);
});
afterAll(async () => {
  await Promise.all([records.close(), ledger.close()]);
  await db.end();
});

const pages = ({ plan }: Planned): number => (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);

it('the story of an operation reads its own receipts', async () => {
  const planned = await watched(() => records.operation('acme', 'op_77'));
  expect(planned.filter(({ text }) => text.includes('from receipts')).map(pages)).toEqual([expect.any(Number)]);
  for (const one of planned) expect(pages(one), one.text).toBeLessThan(40);
});

it('the sealer looks up each receipt by its id', async () => {
  const planned = await watched(async () => {
    await ledger.chain.unsealed(null, (await ledger.chain.look()).upTo, null, 500);
  });
  const [look] = planned.filter(({ text }) => text.includes('from receipts'));
  // Everything has its place, so all receipts are looked at: a few pages for each.
  expect(pages(look as Planned)).toBeLessThan(8 * receipts);
});
