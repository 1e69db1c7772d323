import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import { BadCursor, type Page, type ReceiptFilter } from '../../src/ports.js';
import { migrate } from '../../src/ledger/migrate.js';
import { writeCursor } from '../../src/ledger/cursor.js';
import { openRecords, type RecordStore } from '../../src/ledger/records.js';
import type { JsonObject } from '../../src/model.js';
import { projectFile } from '../../src/project.js';
import { createSealer } from '../../src/ledger/seal.js';
import { newReceiptId, timeOfId } from '../../src/receipt-id.js';
import { freshDatabase } from '../support/servers.js';
import { openTcpProxy } from '../support/tcp-proxy.js';

interface ReceiptSeed { id?: string; tenant?: string; session?: string; intent?: string; tool?: string; disposition?: string; outcome?: string | null; principal?: string }
interface OperationSeed { id: string; tenant?: string; at: string; state?: string; tool?: string; session?: string }

let url: string;
let db: pg.Client;
let records: RecordStore;
const options = (to: string) => ({ url: to, poolSize: 2, statementTimeoutMs: 400, connectTimeoutMs: 500 });

beforeAll(async () => {
  url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  db = new pg.Client({ connectionString: url });
  await db.connect();
  records = openRecords(options(url), createSealer('seal'));
});
afterAll(async () => {
  await records.close();
  await db.end();
});
const empty = async (): Promise<void> => void (await db.query('truncate receipts, operations, calls'));

async function addReceipts(seeds: ReceiptSeed[]): Promise<string[]> {
  const ids: string[] = [];
  for (const { id = newReceiptId(), tenant = 'acme', session = 's', intent = 'i', tool = 't', disposition = 'executed', outcome = null, principal = 'p' } of seeds) {
    const body = JSON.stringify({ id, tenant, session_id: session, intent_id: intent, tool, disposition, outcome, principal });
    await db.query(`insert into receipts (tenant, id, kind, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
      values ($1, $2, 'decision', $3, $4, $5, $6, $7, $8, $9, '\\x00', $10)`,
    [tenant, id, session, intent, principal, tool, disposition, outcome, timeOfId(id), body]);
    ids.push(id);
  }
  return ids;
}

async function addOperations(seeds: OperationSeed[]): Promise<void> {
  for (const { id, tenant = 'acme', at, state = 'committed', tool = 't', session } of seeds) {
    await db.query(`insert into operations (tenant, operation_id, identity, generation, upstream_key, effect, state, write_id, outcome, tool, contract_version,
        contract_digest, catalogue_digest, principal, subject, purpose, session_id, turn_id, intent_id, call_id, fingerprint, created_at)
      values ($1, $2, decode(md5($1 || $2), 'hex'), 1, $2, 'write', $3, gen_random_uuid(), 'committed', $4, '1', 'd', 'd', 'p', '', '', $5, '', '', 'c', '\\x00', $6)`,
    [tenant, id, state, tool, session ?? 's', at]);
    // Every operation has a receipt, by which those of a session are found.
    if (session !== undefined) await db.query(`insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, recorded_at, digest, body)
      values ($1, $2, 'decision', $3, $4, '', 'p', $5, 'executed', $6, '\\x00', '{}')`, [tenant, newReceiptId(), id, session, tool, at]);
  }
}

/** All pages, `between` each two of them something happens. */
async function pages(read: (cursor?: string) => Promise<Page<JsonObject>>, between?: () => Promise<unknown>): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined, n = 0; n < 1_000; n++) {
    const page = await read(cursor);
    ids.push(...page.items.map((item) => String(item['id'])));
    if (page.next_cursor === null) return ids;
    cursor = page.next_cursor;
    await between?.();
  }
  throw new Error('the pages do not end');
}

/** An auditor who is shown one receipt twice, or not at all, cannot prove anything; one who is shown another tenant's is a leak. */
describe('pages', () => {
  beforeEach(empty);
  it('of receipts hold each one that was there exactly once, newest first, whatever is added meanwhile (property)', async () => {
    await fc.assert(fc.asyncProperty(fc.nat(25), fc.integer({ min: 1, max: 9 }), fc.nat(4), async (count, limit, added) => {
      await db.query('truncate receipts');
      const before = await addReceipts(Array.from({ length: count }, () => ({})));
      const seen = await pages((cursor) => records.receipts('acme', { limit, ...(cursor ? { cursor } : {}) }), () => addReceipts(Array.from({ length: added }, () => ({}))));
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen).toEqual([...before].reverse());
    }), { numRuns: 25 });
  }, 60_000);

  it('of operations do so too, also when many were begun in the same microsecond (property)', async () => {
    const at = fc.constantFrom('2026-03-01T10:00:00.000001Z', '2026-03-01T10:00:00.000002Z', '2026-03-01T10:00:00.000100Z', '2026-03-01T10:00:01Z');
    await fc.assert(fc.asyncProperty(fc.array(at, { maxLength: 25 }), fc.integer({ min: 1, max: 9 }), async (times, limit) => {
      await db.query('truncate operations');
      const seeds = times.map((time, n) => ({ id: `op_${n}`, at: time }));
      await addOperations(seeds);
      let n = 0;
      const seen = await pages((cursor) => records.operations('acme', { limit, ...(cursor ? { cursor } : {}) }), () => addOperations([{ id: `op_new_${n++}`, at: new Date().toISOString() }]));
      const key = (seed: OperationSeed): string => `${new Date(seed.at).toISOString()} ${seed.at} ${seed.id}`;
      expect(seen).toEqual([...seeds].sort((a, b) => (key(a) < key(b) ? 1 : -1)).map(({ id }) => id));
    }), { numRuns: 25 });
  }, 60_000);

  it('end with a null cursor exactly at the last one', async () => {
    await addReceipts([{}, {}, {}, {}]);
    expect((await records.receipts('acme', { limit: 4 })).next_cursor).toBeNull();
    const first = await records.receipts('acme', { limit: 2 });
    expect(first.next_cursor).not.toBeNull();
    expect((await records.receipts('acme', { limit: 2, cursor: first.next_cursor as string })).next_cursor).toBeNull();
    expect(await records.receipts('nobody', { limit: 2 })).toEqual({ items: [], next_cursor: null });
  });

  it('are of one tenant, also where two have equal ids, and with a cursor of the other', async () => {
    const [id] = await addReceipts([{ session: 'mine' }]);
    await addReceipts([{ id: id as string, tenant: 'globex', session: 'theirs' }, { tenant: 'globex' }]);
    await addOperations([{ id: 'op_1', at: '2026-03-01T10:00:00Z' }, { id: 'op_1', tenant: 'globex', at: '2026-03-01T10:00:00Z', tool: 'theirs' }, { id: 'op_2', tenant: 'globex', at: '2026-03-01T09:00:00Z' }]);
    expect((await records.receipts('acme', { limit: 9 })).items.map((item) => item['session_id'])).toEqual(['mine']);
    expect(await records.receipt('acme', id as string)).toMatchObject({ session_id: 'mine' });
    expect(await records.receipt('globex', id as string)).toMatchObject({ session_id: 'theirs' });
    expect(await records.receipt('other', id as string)).toBeNull();
    expect(await records.operation('acme', 'op_1')).toMatchObject({ tool: 't' });
    expect(await records.operation('acme', 'op_2')).toBeNull();
    const theirs = await records.operations('globex', { limit: 1 });
    const mine = await records.operations('acme', { limit: 9, cursor: theirs.next_cursor as string });
    expect(mine.items.every((item) => item['tool'] === 't')).toBe(true);
  });

  it.each(['', 'x', '%%%', 'null', '"a"', '[]', '{}', '["receipts"]', '["receipts",1]', '["receipts","rcp_1"]', `["receipts","rcp_${'0'.repeat(26)}","more"]`, '["operations","not a date","op_1"]',
    '["operations","2026-99-99T99:99:99.000000Z","op_1"]', '["operations","2026-01-01T00:00:00.000000Z","a\\u0000b"]', '["operations","infinity","op_1"]', `["operations","2026-01-01T00:00:00.000000Z","${'x'.repeat(2_000)}"]`])(
    'refuse the forged cursor %s as such', async (text) => {
      const cursor = Buffer.from(text).toString('base64url') || 'x';
      await expect(records.receipts('acme', { limit: 1, cursor })).rejects.toBeInstanceOf(BadCursor);
      await expect(records.operations('acme', { limit: 1, cursor })).rejects.toBeInstanceOf(BadCursor);
      await expect(records.operations('acme', { limit: 1, cursor: text || ' ' })).rejects.toBeInstanceOf(BadCursor);
    });

  it('refuse any text for a cursor as such, and never fail otherwise (property)', async () => {
    const forged = fc.oneof(fc.string({ unit: 'binary' }), fc.json().map((json) => Buffer.from(json).toString('base64url')),
      fc.array(fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('receipts', 'operations')), { maxLength: 3 }).map((parts) => Buffer.from(JSON.stringify(parts)).toString('base64url')))
      .filter((cursor) => cursor !== '');
    await fc.assert(fc.asyncProperty(forged, async (cursor) => {
      for (const list of ['receipts', 'operations'] as const) {
        await records[list]('acme', { limit: 1, cursor }).catch((error: unknown) => expect(error).toBeInstanceOf(BadCursor));
      }
    }), { numRuns: 200 });
  });

  it('take no cursor of the other list', async () => {
    await addReceipts([{}, {}]);
    await addOperations([{ id: 'op_1', at: '2026-03-01T10:00:00Z' }, { id: 'op_2', at: '2026-03-01T10:00:00Z' }]);
    const receipts = await records.receipts('acme', { limit: 1 });
    const operations = await records.operations('acme', { limit: 1 });
    await expect(records.operations('acme', { limit: 1, cursor: receipts.next_cursor as string })).rejects.toBeInstanceOf(BadCursor);
    await expect(records.receipts('acme', { limit: 1, cursor: operations.next_cursor as string })).rejects.toBeInstanceOf(BadCursor);
  });
});

/** A filter that lets through what was not asked for hides what was. */
describe('filters', () => {
  beforeEach(empty);
  it('of receipts are exact, alone and together (property)', async () => {
    const value = fc.constantFrom('a', 'b', `a' or '1'='1`, '%', 'a_');
    const seed = fc.record({ session: value, intent: value, tool: value, principal: value, disposition: fc.constantFrom('executed', 'denied'), outcome: fc.constantFrom('committed', null) });
    const filter = fc.record({ session_id: value, intent_id: value, tool: value, principal: value, disposition: fc.constantFrom('executed', 'denied'), outcome: fc.constant('committed') }, { requiredKeys: [] });
    await fc.assert(fc.asyncProperty(fc.array(seed, { maxLength: 12 }), filter, async (seeds, wanted) => {
      await db.query('truncate receipts');
      const ids = await addReceipts(seeds);
      const names = { session_id: 'session', intent_id: 'intent', tool: 'tool', principal: 'principal', disposition: 'disposition', outcome: 'outcome' } as const;
      const expected = ids.filter((_, n) => Object.entries(wanted).every(([name, is]) => seeds[n]?.[names[name as keyof typeof names]] === is));
      const { items } = await records.receipts('acme', { ...wanted, limit: 500 } as ReceiptFilter);
      expect(items.map((item) => item['id'])).toEqual(expected.reverse());
    }), { numRuns: 40 });
  }, 60_000);

  it('of time begin with `from` and end before `to`, to the fraction, in any zone', async () => {
    const base = Date.parse('2040-03-01T10:00:00.500Z');
    const ids = await addReceipts([0, 1, 2].map((ms) => ({ id: newReceiptId(base + ms * 2_000) })));
    const found = async (from: string, to: string): Promise<unknown[]> => (await records.receipts('acme', { from, to, limit: 9 })).items.map((item) => item['id']);
    expect(await found('2040-03-01T10:00:00.500Z', '2040-03-01T10:00:02.500Z')).toEqual([ids[0]]);
    expect(await found('2040-03-01T10:00:00.5001Z', '2040-03-01T10:00:02.5001Z')).toEqual([ids[1]]);
    expect(await found('2040-03-02T09:00:00.5+23:00', '2040-03-01T10:00:04.501+00:00')).toEqual([...ids].reverse());

    await addOperations([{ id: 'op_1', at: '2026-03-01T10:00:00.123456Z' }, { id: 'op_2', at: '2026-03-01T10:00:00.123457Z' }]);
    const begun = async (from: string, to: string): Promise<unknown[]> => (await records.operations('acme', { from, to, limit: 9 })).items.map((item) => item['id']);
    expect(await begun('2026-03-01T10:00:00.123456Z', '2026-03-01T10:00:00.123457Z')).toEqual(['op_1']);
    expect(await begun('2026-03-02t09:00:00.123457+23:00', '9999-12-31T23:59:59z')).toEqual(['op_2']);
    expect(await begun('1970-01-01T00:00:00-23:59', '2026-03-01T10:00:00.1234570001Z')).toEqual(['op_1']);
  });

  it('of operations are exact', async () => {
    await addOperations([{ id: 'op_1', at: '2026-03-01T10:00:00Z', state: 'unknown' }, { id: 'op_2', at: '2026-03-01T10:00:00Z', session: 'other' }]);
    expect((await records.operations('acme', { state: 'unknown', limit: 9 })).items.map((item) => item['id'])).toEqual(['op_1']);
    expect((await records.operations('acme', { session_id: 'other', limit: 9 })).items.map((item) => item['id'])).toEqual(['op_2']);
    expect((await records.operations('acme', { session_id: 'other', state: 'unknown', limit: 9 })).items).toEqual([]);
  });
});

/** A dashboard that hangs, or that answers 500 for a failover, is one more alarm in the night for nothing. */
describe('when the database is away or slow, records', () => {
  beforeEach(empty);
  it('end a statement that takes too long, on the server too, and say that the ledger is unavailable', async () => {
    await addReceipts([{}]);
    const blocker = new pg.Client({ connectionString: url });
    await blocker.connect();
    await blocker.query('begin; lock table receipts in access exclusive mode');
    const began = performance.now();
    await expect(records.receipts('acme', { limit: 1 })).rejects.toBeInstanceOf(LedgerUnavailable);
    expect(performance.now() - began).toBeLessThan(900);
    const { rows } = await db.query<{ n: string }>(`select count(*) as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
    expect(Number(rows[0]?.n)).toBe(0);
    await blocker.query('rollback');
    await blocker.end();
    expect((await records.receipts('acme', { limit: 1 })).items).toHaveLength(1);
  });

  it('have no more than their own few connections, and refuse in time whoever finds none free', async () => {
    const blocker = new pg.Client({ connectionString: url });
    await blocker.connect();
    await blocker.query('begin; lock table receipts in access exclusive mode');
    const began = performance.now();
    const results = Promise.allSettled(Array.from({ length: 30 }, () => records.receipts('acme', { limit: 1 })));
    await new Promise((resolve) => setTimeout(resolve, 150));
    const { rows } = await db.query<{ n: string }>(`select count(*) as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
    expect(Number(rows[0]?.n)).toBeLessThanOrEqual(2);
    for (const result of await results) expect(result).toMatchObject({ status: 'rejected', reason: expect.any(LedgerUnavailable) });
    expect(performance.now() - began).toBeLessThan(1_500);
    await blocker.query('rollback');
    await blocker.end();
  });

  it('survive connections that are refused, cut or silent, and come back', async () => {
    const proxy = await openTcpProxy(url);
    const through = openRecords(options(proxy.url), createSealer('seal'));
    await addReceipts([{}]);
    expect((await through.receipts('acme', { limit: 1 })).items).toHaveLength(1);
    await db.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`);
    proxy.cut();
    proxy.refuse(true);
    await expect(through.receipts('acme', { limit: 1 })).rejects.toBeInstanceOf(LedgerUnavailable);
    proxy.refuse(false);
    expect((await through.receipts('acme', { limit: 1 })).items).toHaveLength(1);
    proxy.freeze(true);
    const began = performance.now();
    await expect(through.operation('acme', 'op_1')).rejects.toBeInstanceOf(LedgerUnavailable);
    expect(performance.now() - began).toBeLessThan(2_500);
    proxy.freeze(false);
    expect((await through.receipts('acme', { limit: 1 })).items).toHaveLength(1);
    await through.close();
    await proxy.close();
  });
});

/** A search that ends before its time and forgets where it was hides records, or shows them twice. */
describe('pages of a search that is broken off again and again', () => {
  const all = 6_000;
  const hasty = { poolSize: 1, statementTimeoutMs: 3_000, connectTimeoutMs: 2_000, searchMs: 0 };
  const pick = (...values: string[]): string => `(array[${values.map((value) => `'${value}'`).join(', ')}])[1 + (n * 7919 / 13) % ${values.length}]`;
  beforeAll(async () => {
    await empty();
    await db.query(`insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
      select 'acme', 'rcp_' || lpad((n * 3)::text, 26, '0'), 'decision', 'op_' || n, case when n % 5 < 3 then 'giant' else 's-' || n / 40 end, case when n % 7 < 4 then 'giant' else 'i-' || n / 40 end,
        'p-' || (n / 2500), 't-' || (n % 3), ${pick('executed', 'denied', 'executed')}, ${pick('committed', 'unknown', 'committed', 'committed')}, now(), '\\x00', '{"id":"rcp_' || lpad((n * 3)::text, 26, '0') || '"}'
      from generate_series(1, ${all}) n`);
    await db.query(`insert into operations (tenant, operation_id, identity, generation, upstream_key, effect, state, write_id, outcome, tool, contract_version, contract_digest, catalogue_digest,
        principal, subject, purpose, session_id, turn_id, intent_id, call_id, fingerprint, created_at)
      select r.tenant, r.operation_id, decode(md5(r.operation_id), 'hex'), 1, r.operation_id, 'write', case when r.outcome = 'unknown' then 'unknown' else 'committed' end, gen_random_uuid(), r.outcome, r.tool, '1', 'd', 'd',
        r.principal, '', '', r.session_id, '', r.intent_id, 'c', '\\x00', timestamptz '2026-03-01' + substr(r.id, 5)::bigint / 9 * interval '1 us' from receipts r`);
    await db.query('analyze receipts, operations');
  });
  afterAll(empty);

  const value = <T extends string>(...values: T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
  const filters = {
    session_id: value('giant', 's-7', 'nobody'), intent_id: value('giant', 'i-7', 'nobody'), tool: value('t-1', 'nobody'), principal: value('p-0', 'p-2', 'nobody'), outcome: value('committed', 'unknown'),
  };
  it.each(['receipts', 'operations'] as const)('of %s hold exactly what the filter lets through, in the order of the list (property)', async (list) => {
    const own = openRecords({ url, ...hasty }, createSealer('seal'));
    const more: Record<string, fc.Arbitrary<string>> = list === 'receipts' ? { disposition: value('executed', 'denied') } : { state: value('committed', 'unknown', 'failed') };
    const [id, order] = list === 'receipts' ? ['id', 'id desc'] : ['operation_id', 'created_at desc, operation_id desc'];
    await fc.assert(fc.asyncProperty(fc.record({ ...filters, ...more }, { requiredKeys: [] }), fc.integer({ min: 40, max: 500 }), async (filter, limit) => {
      const where = Object.entries(filter).map(([column, is]) => `and ${column} = '${String(is)}'`).join(' ');
      const { rows } = await db.query<{ id: string }>(`select ${id} as id from ${list} where tenant = 'acme' ${where} order by ${order}`);
      expect(await pages((cursor) => own[list]('acme', { ...filter as object, limit, ...(cursor ? { cursor } : {}) }))).toEqual(rows.map((row) => row.id));
    }), { numRuns: 40 });
    await own.close();
  }, 120_000);
});

describe('case-68: lists of a large table', () => {
  const all = 300_000;
  const own = 100_000;
  const shipped = { poolSize: 2, statementTimeoutMs: 3_000, connectTimeoutMs: 2_000 };
  beforeAll(async () => {
    await empty();
    // Ids of the form that they have, oldest first; most are of another tenant, and one of ours, the oldest, is the only one of its outcome.
    await db.query(`insert into receipts (tenant, id, kind, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
      select case when n % 3 = 0 then 'acme' else 'other-' || n % 199 end, 'rcp_' || lpad(n::text, 26, '0'), 'decision', 's-' || n / 10, 'i', 'p', case when n = 3 then 'rare' else 't' end, 'executed',
        case when n = 3 then 'unknown' else 'committed' end, now(), '\\x00', '{"id":"rcp_' || lpad(n::text, 26, '0') || '"}'
      from generate_series(1, ${all}) as n`);
    await db.query('analyze receipts');
  });
  afterAll(empty);

  /** A list as the control plane reads it, with the index entries and rows that it read, and how often it went through a whole table, as Postgres counts them. */
  async function read(filter: ReceiptFilter): Promise<{ page: Page<JsonObject>; rows: number; scans: number }> {
    const counters = async () => {
      const { rows: [row] } = await db.query<{ read: string; scans: string }>(
        `select idx_tup_fetch + (select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'receipts') as read, seq_scan as scans from pg_stat_user_tables where relname = 'receipts'`);
      return { read: Number(row?.read), scans: Number(row?.scans) };
    };
    const before = await counters();
    const own = openRecords({ url, ...shipped }, createSealer('seal'));
    const page = await own.receipts('acme', filter).finally(() => own.close()); // a connection that ends has told what it read
    const end = performance.now() + 15_000;
    let after = await counters();
    while (after.read === before.read && after.scans === before.scans) {
      if (performance.now() > end) throw new Error('Postgres has not told what it read');
      await new Promise((resolve) => setTimeout(resolve, 50));
      after = await counters();
    }
    return { page, rows: after.read - before.read, scans: after.scans - before.scans };
  }

  const deep = writeCursor('receipts', [`rcp_${'120'.padStart(26, '0')}`]);
  it.each<[string, ReceiptFilter]>([
    ['the first page', { limit: 50 }], ['one of the last', { limit: 50, cursor: deep }], ['a session', { limit: 50, session_id: 's-20000' }],
    ['the only one whose outcome is unknown, the oldest of all', { limit: 50, outcome: 'unknown' }],
  ])('%s costs what is on the page, and no look at other tenants', async (_, filter) => {
    const { page, rows, scans } = await read(filter);
    expect(page.items.length).toBeGreaterThan(0);
    expect([scans, rows < 4 * 51], `${rows} rows`).toEqual([0, true]);
  });

  it('a filter without an index ends each page in time, and comes to what it asks for page by page', async () => {
    const impatient = openRecords({ url, ...shipped, searchMs: 1 }, createSealer('seal'));
    const found: string[] = [];
    let asked = 0;
    for (let cursor: string | null | undefined; cursor !== null; asked++) {
      const page: Page<JsonObject> = await impatient.receipts('acme', { limit: 50, tool: 'rare', ...(cursor ? { cursor } : {}) });
      found.push(...page.items.map(({ id }) => String(id)));
      cursor = page.next_cursor;
    }
    await impatient.close();
    expect(found).toEqual([`rcp_${'3'.padStart(26, '0')}`]);
    expect(asked).toBeGreaterThan(2);
    const { rows, scans } = await read({ limit: 50, tool: 'rare' });
    expect([scans, rows < 4 * own], `${rows} rows`).toEqual([0, true]);
  });
});
