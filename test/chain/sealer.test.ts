import fc from 'fast-check';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ExportLine } from '../../src/chain/lines.js';
import { linkAfter, origin } from '../../src/chain/link.js';
import type { Lease, Unsealed } from '../../src/chain/sealer.js';
import { packReceipts } from '../../src/ledger/migrate.js';
import { receiptRow } from '../../src/ledger/receipt-row.js';
import type { Receipt } from '../../src/gate/ports.js';
import { until } from '../recovery/process.js';
import { type Chains, openChains, receipt, ring } from './chains.js';

let chains: Chains;
const clients: pg.Client[] = [];
beforeEach(async () => { chains = await openChains(); });
afterEach(async () => {
  for (const client of clients.splice(0)) await client.end();
  await chains.close();
});

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: chains.url });
  await client.connect();
  clients.push(client);
  return client;
}

async function insert(client: pg.Client, one: Receipt): Promise<string> {
  const { packed: _, dictionary: __, ...row } = receiptRow(one);
  await client.query(`insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::bytea, $13)`, Object.values(row));
  return one.id;
}

async function sealed(tenant = 't'): Promise<string[]> {
  const { rows } = await chains.db.query<{ sequence: string; receipt_id: string }>('select sequence, receipt_id from receipt_chain where tenant = $1 order by sequence', [tenant]);
  expect(rows.map(({ sequence }) => Number(sequence))).toEqual(rows.map((_, n) => n + 1));
  return rows.map(({ receipt_id }) => receipt_id);
}

/** A receipt that is never sealed can be taken away without anybody seeing it; one that is sealed twice makes the whole chain a lie. */
describe('every committed receipt gets one place, and keeps it', () => {
  it('however late it is committed, by however long a transaction, with whatever id (property)', async () => {
    let seals = chains.sealer('one');
    let n = 0;
    let run = 0;
    const writers = [await connect(), await connect(), await connect()];
    const step = fc.oneof(
      fc.record({ do: fc.constant('write' as const), by: fc.nat(2), age: fc.integer({ min: 0, max: 86_400_000 }) }),
      fc.record({ do: fc.constantFrom('commit' as const, 'rollback' as const), by: fc.nat(2) }),
      fc.record({ do: fc.constant('seal' as const) }),
      fc.record({ do: fc.constant('take over' as const) }),
    );
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const tenant = `t-${run++}`;
      const pending: string[][] = [[], [], []];
      const committed: string[] = [];
      const end = async (by: number, how: 'commit' | 'rollback'): Promise<void> => {
        await (writers[by] as pg.Client).query(how);
        if (how === 'commit') committed.push(...(pending[by] as string[]));
        pending[by] = [];
      };
      for (const what of steps) {
        if (what.do === 'write') {
          if (pending[what.by]?.length === 0) await (writers[what.by] as pg.Client).query('begin');
          pending[what.by]?.push(await insert(writers[what.by] as pg.Client, receipt(tenant, n++, Date.now() - what.age)));
        } else if (what.do === 'commit' || what.do === 'rollback') {
          if ((pending[what.by]?.length ?? 0) > 0) await end(what.by, what.do);
        } else {
          if (what.do === 'take over') seals = chains.sealer('one');
          await seals.once();
          // It never waits for a transaction that is open.
          expect((await sealed(tenant)).sort()).toEqual([...committed].sort());
        }
      }
      for (const by of [0, 1, 2]) if ((pending[by]?.length ?? 0) > 0) await end(by, 'commit');
      await seals.once();
      await seals.once();
      expect((await sealed(tenant)).sort()).toEqual([...committed].sort());
      if (committed.length > 0) expect(await chains.verify(tenant)).toMatchObject({ receipts: committed.length });
      expect(chains.alarms).toEqual([]);
    }), { numRuns: 25 });
  }, 120_000);

  it('a decision stands before the effect that rests on it', async () => {
    const pair = [receipt('t', 1), receipt('t', 2)];
    await chains.write([pair[0] as Receipt]);
    await chains.write([{ ...(pair[1] as Receipt) }]);
    await chains.sealer('one').once();
    expect(await sealed()).toEqual(pair.map(({ id }) => id));
  });

  it('also those of before the chain was kept, and after a restore into another cluster, where transactions have other numbers', async () => {
    const ids = [await insert(await connect(), receipt('t', 1)), await insert(await connect(), receipt('t', 2))];
    await chains.db.query('update receipts set xact = null');
    const first = chains.sealer('one');
    await first.once();
    expect(await sealed()).toEqual(ids);
    await first.stop();
    // A snapshot of a cluster that had come further: nothing here would ever be after it.
    await chains.db.query(`update receipt_sealer set sealed = '900000000:900000000:'`);
    ids.push(await insert(await connect(), receipt('t', 3)));
    await chains.sealer('two').once();
    expect(await sealed()).toEqual(ids);
  });

  it('of several pages and tenants at once', async () => {
    const tenants = ['a', 'b', 'c'];
    for (let n = 0; n < 12; n++) await chains.write(Array.from({ length: 120 }, (_, m) => receipt(tenants[m % 3] as string, n * 120 + m)));
    await chains.sealer('one').once();
    for (const tenant of tenants) {
      expect(await sealed(tenant)).toHaveLength(480);
      expect(await chains.verify(tenant)).toMatchObject({ receipts: 480, covered: { sequence: 480 } });
    }
  });
});

/** A backlog is sealed by walking along it. If every page read all that comes after it, 100,000 receipts would take minutes, and a million for ever. */
describe('the plan', () => {
  const looks = async (): Promise<number> => Number((await chains.db.query<{ n: string }>(
    `select seq_tup_read + idx_tup_fetch as n from pg_stat_user_tables where relname = 'receipts'`)).rows[0]?.n);

  it.each([['the first look of all', null], ['a later one', '3:3:']])('%s reads each receipt of a backlog a few times at most, over tables that nothing is known of', async (_, sealedTo) => {
    const receipts = 6_000;
    await chains.db.query('alter table receipts set (autovacuum_enabled = off)');
    for (let n = 0; n < 20; n++) {
      await chains.db.query(`insert into receipts (tenant, id, kind, session_id, intent_id, principal, tool, disposition, recorded_at, digest, body)
        select 't' || (g % 5), 'rcp_' || lpad(($1 + g)::text, 26, '0'), 'decision', 's', 'i', 'p', 't', 'executed', now(), sha256('x'), 'x' from generate_series(1, 300) g`, [n * 300]);
    }
    if (sealedTo !== null) await chains.db.query(`insert into receipt_sealer (owner, fence, expires_at, sealed) values ('one', 1, now() - interval '1 s', $1)`, [sealedTo]);
    const before = await looks();
    await chains.sealer('one', { keys: null }).once();
    expect((await chains.db.query(`select count(*)::integer as n from receipt_chain`)).rows).toEqual([{ n: receipts }]);
    await until(async () => await looks() - before >= receipts, 20_000); // counts arrive with a delay
    expect(await looks() - before).toBeLessThan(4 * receipts);
  }, 60_000);
});

/** Two sealers that both believed that they hold the lease would give one place to two receipts. */
describe('of several sealers one works', () => {
  it('one that was paused between reading and writing writes nothing after another took over', async () => {
    const { chain } = chains.store;
    await chains.write([receipt('t', 1)]);
    const paused = await chain.hold(null, 'paused', 1, null);
    expect(paused).not.toBeNull();
    const other = chains.sealer('other');
    await until(async () => { // its lease of a millisecond runs out
      await other.once();
      return (await sealed()).length === 1;
    }, 5_000);
    await chains.write([receipt('t', 2)]);
    const { upTo } = await chain.look();
    const [late] = await chain.unsealed(null, upTo, null, 10);
    const [{ sequence, link } = origin] = await chain.heads('', 1);
    const linked = linkAfter({ sequence, link }, (late as Unsealed).receipt);
    const verdict = await chain.append((paused as { lease: Lease }).lease, [{ tenant: 't', sequence, link }], [linked]);
    expect(verdict.held).toBe(false);
    expect(await sealed()).toHaveLength(1);
    await other.once();
    expect(await sealed()).toHaveLength(2);
  });

  it('another waits while the lease holds, and takes over at once when it is let go', async () => {
    const first = chains.sealer('first');
    const second = chains.sealer('second');
    await first.once();
    await chains.write([receipt('t', 1)]);
    await second.once();
    expect(await sealed()).toEqual([]);
    await first.stop();
    await second.once();
    expect(await sealed()).toHaveLength(1);
  });

  it('many at once over leases that run out all the time: one chain, no gap, no fork', async () => {
    const sealers = ['a', 'b', 'c', 'd'].map((owner) => chains.sealer(owner, { leaseMs: 3 }));
    let written = 0;
    const writing = (async () => {
      for (; written < 600; written += 20) await chains.write(Array.from({ length: 20 }, (_, n) => receipt(n % 2 === 0 ? 't' : 'u', written + n)));
    })();
    while (written < 600) await Promise.all(sealers.map((sealer) => sealer.once()));
    await writing;
    await chains.db.query(`update receipt_sealer set expires_at = now() - interval '1 s'`);
    await chains.sealer('last').once();
    expect(await sealed('t')).toHaveLength(300);
    expect(await sealed('u')).toHaveLength(300);
    expect(chains.alarms).toEqual([]);
    for (const tenant of ['t', 'u']) expect(await chains.verify(tenant)).toMatchObject({ receipts: 300 });
  }, 60_000);
});

/** A sealer that signed what it finds would make every forgery true a few seconds later. */
describe('nothing that was forged is signed', () => {
  it('a replica that takes over goes through what no checkpoint covers, and signs nothing after a fault', async () => {
    const slow = chains.sealer('one', { checkpointMs: 3_600_000 });
    for (let n = 0; n < 3; n++) {
      await chains.write([receipt('t', n, Date.now()), receipt('u', n, Date.now())]);
      await slow.once();
    }
    await slow.stop();
    await chains.db.query(`update receipts set tool = 'other' where tenant = 't' and id = (select receipt_id from receipt_chain where tenant = 't' and sequence = 3)`);
    const next = chains.sealer('two');
    await next.once();
    expect(chains.alarms).toHaveLength(1);
    expect(chains.alarms[0]).toMatch(/at sequence 3.*edited/);
    const signed = await chains.db.query<{ tenant: string; n: string }>('select tenant, max(sequence) as n from receipt_checkpoints group by tenant order by tenant');
    expect(signed.rows).toEqual([{ tenant: 't', n: '1' }, { tenant: 'u', n: '3' }]);
    expect(await chains.verify('u')).toMatchObject({ covered: { sequence: 3 } });
    // Once it is mended, whoever takes over seals what has waited.
    await chains.write([receipt('t', 9)]);
    await next.once();
    expect(await sealed('t')).toHaveLength(3);
    await chains.db.query(`update receipts set tool = 'issue_credit' where tenant = 't' and tool = 'other'`);
    await next.stop();
    await chains.sealer('three').once();
    expect(await sealed('t')).toHaveLength(4);
    expect(await chains.verify('t')).toMatchObject({ receipts: 4 });
  });

  it('without keys receipts are chained all the same, and no checkpoint claims anything', async () => {
    const sealer = chains.sealer('one', { keys: null });
    await chains.write([receipt('t', 1)]);
    await sealer.once();
    expect(await sealed()).toHaveLength(1);
    expect((await chains.db.query('select 1 from receipt_checkpoints')).rows).toEqual([]);
  });
});

/** A replica of the version before cannot read a link without the one before it: it would take a chain that is whole for one that is not, or none at all. */
describe('what is before a link', () => {
  it('is kept with it until the operator says that all replicas are new, and is the same to whoever reads then', async () => {
    const seals = chains.sealer('one');
    const kept = async (): Promise<boolean[]> => (await chains.db.query<{ kept: boolean }>(`select previous is not null as kept from receipt_chain where tenant = 't' order by sequence`)).rows.map((row) => row.kept);
    await chains.db.query('update receipt_packing set links = false');
    for (let n = 0; n < 3; n++) await chains.write([receipt('t', n)]);
    await seals.once();
    expect(await kept()).toEqual([true, true, true]);
    expect(await packReceipts(chains.url, false)).toBe(false);
    expect(await packReceipts(chains.url, true)).toBe(true);
    for (let n = 3; n < 6; n++) await chains.write([receipt('t', n)]);
    await seals.once();
    expect(await kept()).toEqual([true, true, true, false, false, false]);
    expect(await chains.verify('t')).toMatchObject({ receipts: 6, covered: { sequence: 6 } });
    for (let after = 0; after < 6; after++) {
      const [first] = (await chains.lines('t', after)).map((line) => JSON.parse(line) as ExportLine).filter((line) => line.type === 'receipt');
      const [before] = after === 0 ? [] : (await chains.lines('t', after - 1)).map((line) => JSON.parse(line) as ExportLine).filter((line) => line.type === 'receipt');
      expect(first?.header.previous).toBe(before?.link ?? origin.link);
    }
    const another = chains.sealer('two', { keys: ring });
    await seals.stop();
    await chains.write([receipt('t', 6)]);
    await another.once();
    expect(chains.alarms).toEqual([]);
    expect(await chains.verify('t')).toMatchObject({ receipts: 7 });
  });

  it('is not there either where nothing was before: a new database keeps each link once', async () => {
    await chains.write([receipt('t', 0), receipt('t', 1)]);
    await chains.sealer('one').once();
    expect((await chains.db.query('select previous from receipt_chain')).rows).toEqual([{ previous: null }, { previous: null }]);
    expect(await chains.verify('t')).toMatchObject({ receipts: 2 });
  });
});
