import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import { approveStatement } from '../../src/ledger/approvals.js';
import { Dictionaries } from '../../src/ledger/dictionaries.js';
import type { Intent } from '../../src/gate/ports.js';
import { takeStatement, witnessStatement } from '../../src/ledger/due.js';
import { findStatement } from '../../src/ledger/find.js';
import { moveStatement } from '../../src/ledger/entity-states.js';
import { doneItemsStatement, itemsStatement } from '../../src/ledger/items.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { lockStatement } from '../../src/ledger/locks-in-order.js';
import { migrate } from '../../src/ledger/migrate.js';
import { operationColumns } from '../../src/ledger/operation-row.js';
import { recordStatement } from '../../src/ledger/record.js';
import { refuseStatement } from '../../src/ledger/refusals.js';
import { repetitionStatement } from '../../src/ledger/repetition.js';
import { fundStatement, reserveStatement, uncallVain, unclaimVain } from '../../src/ledger/reserve.js';
import { adoptStatement, escalateStatement } from '../../src/ledger/review-deadlines.js';
import { createSealer } from '../../src/ledger/seal.js';
import { lastStatement, rememberStatement } from '../../src/ledger/session-results.js';
import { toldStatement } from '../../src/ledger/seen.js';
import { knowStatement } from '../../src/ledger/served-contracts.js';
import { transitionStatement } from '../../src/ledger/transition.js';
import { turnStatements } from '../../src/ledger/turns.js';
import { projectFile } from '../../src/project.js';
import { freshDatabase } from '../support/servers.js';
import { intent, receipt, settlement } from './intents.js';

const sealer = createSealer('seal-for-tests-0123456789abcdefghijkl');
let url = '';
const stores: LedgerStore[] = [];
function open(): LedgerStore {
  const store = openLedger({ url, preparedStatements: true, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000, poolSize: 2, maxBatch: 128, maxQueue: 1_000 }, sealer);
  stores.push(store);
  return store;
}
async function sql<Row>(text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text, values)).rows as Row[];
  } finally {
    await client.end();
  }
}

beforeAll(async () => {
  url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
});
afterAll(() => Promise.all(stores.map((store) => store.close())));

/** What one row does must stay with that row, or one odd call fails everybody who happened to call at the same moment. */
describe('neighbours in a flush', () => {
  it('a row that Postgres refuses fails alone; those beside it are reserved, moved and recorded', async () => {
    const ledger = open();
    await ledger.reserve(intent('before', ['k:before']));
    const nul = { ...intent('nul', ['k:nul']), owner: 'a\u0000b' };
    const results = await Promise.allSettled([
      ledger.reserve(intent('left', ['k:left'])), ledger.reserve(nul), ledger.transition(settlement('before')),
      ledger.record({ receipts: [receipt(null)] }), ledger.reserve(intent('right', ['k:right'])),
    ]);
    expect(results.map((result) => (result.status === 'fulfilled' ? result.value : 'failed'))).toEqual([{ reserved: true }, 'failed', true, true, { reserved: true }]);
    expect((results[1] as PromiseRejectedResult).reason).not.toBeInstanceOf(LedgerUnavailable);
  });

  it('a row that cannot even be put into words fails alone, and is not taken for a database that is away', async () => {
    const ledger = open();
    const results = await Promise.allSettled([
      ledger.record({ receipts: [receipt(null, 'decision', { body: { n: Number.NaN } })] }), ledger.reserve(intent('beside', ['k:beside'])),
    ]);
    expect(results[1]).toMatchObject({ status: 'fulfilled', value: { reserved: true } });
    expect(results[0]?.status).toBe('rejected');
    expect((results[0] as PromiseRejectedResult).reason).not.toBeInstanceOf(LedgerUnavailable);
  });

  it('a sealed request that does not open (another key) hides itself alone: recovery still takes what is due beside it', async () => {
    const ledger = open();
    await Promise.all([ledger.reserve(intent('sealed', ['k:sealed'])), ledger.reserve(intent('clear', ['k:clear']))]);
    await sql(`update operations set due_at = now() - interval '1 s', sealed_request = case when operation_id = 'op_sealed' then '\\x0102' else sealed_request end
      where operation_id in ('op_sealed', 'op_clear')`);
    const taken = await ledger.take('other', 60_000, 10);
    expect(taken.map(({ id, dossier, fence }) => ({ id, readable: dossier !== null, fence })).sort((a, b) => (a.id < b.id ? -1 : 1)))
      .toEqual([{ id: 'op_clear', readable: true, fence: 2 }, { id: 'op_sealed', readable: false, fence: 2 }]);
    const found = await ledger.find({ tenant: 'acme', callKey: null, identity: intent('sealed', []).operation.identity, seen: null, guardKeys: [] });
    expect(found.current).toMatchObject({ id: 'op_sealed', dossier: null });
  });
});

/** After a failover the old primary can go on answering reads. Look-ups that stayed there would find every call new for ever. */
describe('a server that cannot write any more', () => {
  it('is left by look-ups as soon as a commit has met it', async () => {
    const ledger = open();
    const name = new URL(url).pathname.slice(1);
    const query = { tenant: 'acme', callKey: null, identity: intent('stale', []).operation.identity, seen: null, guardKeys: [] };
    const backend = async (like: string): Promise<number[]> =>
      (await sql<{ pid: number }>('select pid from pg_stat_activity where datname = current_database() and query like $1 and pid <> pg_backend_pid() order by backend_start desc', [like])).map(({ pid }) => pid);
    await ledger.reserve(intent('stale-before', ['k:stale-before']));
    await ledger.find(query);
    const [reader] = await backend('%left_behind%');
    const [writer] = await backend('%with candidate%');
    try {
      await sql(`alter database ${name} set default_transaction_read_only = on`);
      await sql('select pg_terminate_backend($1)', [writer]);
      await expect(ledger.reserve(intent('stale', ['k:stale']))).rejects.toBeInstanceOf(LedgerUnavailable);
    } finally {
      await sql(`begin read write; alter database ${name} reset default_transaction_read_only; commit`);
    }
    await ledger.find(query);
    expect((await backend('%left_behind%'))[0]).not.toBe(reader);
    expect(await ledger.reserve(intent('stale', ['k:stale']))).toEqual({ reserved: true });
  });
});

const review = { id: 'rev_1', deadlineMs: 60_000 };

/** Every transition is one conditional update. If a stale owner, or one who denies what was seen, got through, effects would double. */
describe('who may move an operation', () => {
  it('nobody under an old fence; and nobody denies or sends again what was seen to have happened, under whatever fence', async () => {
    const ledger = open();
    await ledger.reserve(intent('seen', ['k:seen']));
    await sql(`update operations set due_at = now() - interval '1 s' where operation_id = 'op_seen'`);
    expect(await ledger.take('other', 60_000, 10)).toMatchObject([{ id: 'op_seen', fence: 2 }]);
    expect(await ledger.transition(settlement('seen'))).toBe(false);
    expect(await ledger.witness(1, receipt('op_seen', 'effect'), review)).toBe('sending');
    const denied = { fence: 2, outcome: 'not_committed', effectSeen: false } as const;
    for (const to of ['rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned'] as const) expect(await ledger.transition(settlement('seen', { ...denied, to }))).toBe(false);
    const { settle: _, ...again } = settlement('seen', { fence: 2, to: 'sending', send: { attempt: 2, attemptId: randomUUID(), windowMs: 1000 } });
    expect(await ledger.transition(again)).toBe(false);
    expect(await ledger.transition(settlement('seen', { fence: 2 }))).toBe(true);
  });

  it('the same write again, after its acknowledgement was lost, counts as its own and writes nothing twice', async () => {
    const ledger = open();
    const meant = intent('twice', ['k:twice']);
    const settled = settlement('twice');
    expect(await ledger.reserve(meant)).toEqual({ reserved: true });
    expect(await ledger.reserve(meant)).toEqual({ reserved: true });
    expect(await ledger.transition(settled)).toBe(true);
    expect(await ledger.transition(settled)).toBe(true);
    expect(await sql('select kind from receipts where operation_id = $1 order by id', ['op_twice'])).toEqual([{ kind: 'decision' }, { kind: 'effect' }]);
    expect(await sql(`select used from budgets where scope = 'principal:p'`)).toEqual(
      await sql(`select count(*)::integer as used from operations where principal = 'p'`));
  });

  it('a refund never happens twice, nor for one who lost the operation', async () => {
    const ledger = open();
    const used = async (): Promise<number> => (await sql<{ used: number }>(`select used from budgets where scope = 'principal:r'`))[0]?.used ?? 0;
    await ledger.reserve(intent('refund', ['k:refund'], { principal: 'r' }));
    const back = settlement('refund', { to: 'failed', outcome: 'not_committed', effectSeen: false, refund: true });
    expect(await used()).toBe(1);
    expect(await Promise.all([ledger.transition(back), ledger.transition({ ...back, writeId: randomUUID() })])).toContain(true);
    await ledger.transition(back);
    expect(await used()).toBe(0);
  });
});

/** A budget is what an operator promised to lose at most: two replicas that each look at it and then spend would lose twice as much. */
describe('a budget over replicas', () => {
  it('of n starts exactly n of what two replicas reserve in the same moment, round after round', async () => {
    const both = [open(), open()];
    const quota = 7;
    for (let round = 0; round < 12; round++) {
      const principal = `spender-${round}`;
      const reservations = await Promise.all(Array.from({ length: 60 }, (_, n) =>
        (both[n % 2] as LedgerStore).reserve(intent(`spend-${round}-${n}`, [`k:spend-${round}-${n}`], { principal, quota }))));
      expect(reservations.filter(({ reserved }) => reserved)).toHaveLength(quota);
      expect(reservations.filter((one) => !one.reserved && one.because === 'budget')).toHaveLength(60 - quota);
      expect(await sql('select used from budgets where scope = $1', [`principal:${principal}`])).toEqual([{ used: quota }]);
    }
  });
});

/** Two replicas whose flushes want each other's rows would stand for a second at a time until Postgres shoots one of them. */
describe('locks over replicas', () => {
  it('flushes that settle and reserve the same keys crosswise, with purses of their own and refunds, never wait for each other', async () => {
    const [a, b] = [open(), open()];
    const deadlocks = async (): Promise<number> => Number((await sql<{ deadlocks: string }>('select deadlocks from pg_stat_database where datname = current_database()'))[0]?.deadlocks);
    const before = await deadlocks();
    const keys = ['x', 'y', 'z', 'w'].map((key) => `cross:${key}`);
    const rounds = 60;
    // Each replica holds two keys, and in one flush settles its own and claims the other's; a claim in vain is part of the game.
    for (let round = 0; round < rounds; round++) {
      const mine = [[`a${round}`, [keys[0], keys[3]]], [`b${round}`, [keys[1], keys[2]]]] as [string, string[]][];
      const epochs = async (wanted: string[]): Promise<number[]> => {
        const rows = await sql<{ guard_key: string; epoch: string }>('select guard_key, epoch from guards where guard_key = any($1)', [wanted]);
        return [...wanted].sort().map((key) => Number(rows.find(({ guard_key }) => guard_key === key)?.epoch ?? 0));
      };
      for (const [n, [name, held]] of mine.entries()) {
        await [a, b][n]?.reserve(intent(name, held, { principal: `p${n}`, epochs: await epochs(held) }));
      }
      const ending = (name: string, refund: boolean) => settlement(name, refund ? { to: 'failed', outcome: 'not_committed', effectSeen: false, refund } : {});
      await Promise.all([
        a.transition(ending(mine[0]?.[0] as string, round % 2 === 0)), a.reserve(intent(`a${round}-next`, mine[1]?.[1] as string[], { principal: 'p0' })),
        b.transition(ending(mine[1]?.[0] as string, round % 2 === 1)), b.reserve(intent(`b${round}-next`, mine[0]?.[1] as string[], { principal: 'p1' })),
      ]);
      await sql(`update guards set operation_id = null where guard_key like 'cross:%'`);
    }
    expect(await deadlocks() - before).toBe(0);
    expect(await sql(`select count(*)::integer as n from operations where operation_id like 'op\\_a%' and state <> 'sending'`)).toEqual([{ n: rounds }]);
  }, 60_000);

  it('nor do a flush that only settles and one that only claims what it gives up, though neither takes its locks beforehand', async () => {
    const [a, b] = [open(), open()];
    const deadlocks = async (): Promise<number> => Number((await sql<{ deadlocks: string }>('select deadlocks from pg_stat_database where datname = current_database()'))[0]?.deadlocks);
    const before = await deadlocks();
    const keys = Array.from({ length: 60 }, (_, n) => `alone:${String(n).padStart(2, '0')}`);
    let epochs = keys.map(() => 0);
    for (let round = 0; round < 40; round++) {
      expect(await a.reserve(intent(`alone${round}`, keys, { principal: 'p2', epochs }))).toEqual({ reserved: true });
      // Postgres finds them in the order in which they were written last, which is now the other way round.
      await sql(`do $do$ declare k text; begin for k in select guard_key from guards where guard_key like 'alone:%' order by guard_key desc loop update guards set claimed_at = now() where guard_key = k; end loop; end $do$`);
      const [settled] = await Promise.all([a.transition(settlement(`alone${round}`)), ...[1, 2, 3].map((n) => b.reserve(intent(`vain${round}-${n}`, keys, { principal: 'p3' })))]);
      expect(settled).toBe(true);
      epochs = (await sql<{ epoch: string }>(`select epoch from guards where guard_key like 'alone:%' order by guard_key`)).map(({ epoch }) => Number(epoch));
    }
    expect(await deadlocks() - before).toBe(0);
  }, 120_000);
});

/** A scan over millions of operations in the commit path would stop the product; a plan cached on an empty table must not bring one. */
describe('plans', () => {
  const scans = /Seq Scan on (operations|receipts|calls|guards|budgets|session_entities|catalogues|operation_items|served_contracts)/;

  it('with 20,000 operations no statement of a call or of recovery scans a table, also not by a plan that was cached while they were empty', async () => {
    const own = await freshDatabase(inject('databaseUrl'));
    await migrate(own, projectFile('migrations'));
    const lane = new pg.Client({ connectionString: own, options: '-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off' });
    const plain = new pg.Client({ connectionString: own });
    await Promise.all([lane.connect(), plain.connect()]);
    const meant = Array.from({ length: 20 }, (_, n) => intent(`plan-${n}`, [`k:${n}`]));
    const moves = meant.map((_, n) => settlement(`plan-${n}`));
    const seen = { tenant: 'acme', principal: 'p', subject: '', sessionId: 's', entity: 'order:1', version: '1', state: null };
    const session = { id: 's', own: 'own:s', task: 'session:s' };
    const dictionaries = new Dictionaries();
    const all = { ...(meant[0] as Intent), parked: { asked: { id: 'apr_0', by: 'reviewer', needed: 1, digest: 'd', summary: 's' }, expiresMs: 1_000, answer: {} } as NonNullable<Intent['parked']> };
    const statements = [
      fundStatement([{ tenant: 'acme', scope: 'principal:p', quota: 10 }]),
      reserveStatement(meant.map((one, n) => (n === 0 ? { ...all, operation: { ...all.operation, generation: 2 } } : one)), sealer, dictionaries),
      transitionStatement(moves.map((move, n) => (n === 0 ? { ...move, refund: true, review } : move)), sealer, dictionaries),
      reserveStatement(meant, sealer, dictionaries), transitionStatement(moves, sealer, dictionaries), recordStatement([{ receipts: [receipt(null)] }], sealer, dictionaries),
      toldStatement([{ written: { operationId: 'op_plan-1', writeId: randomUUID() }, own: true, seen }]),
      moveStatement([{ tenant: 'acme', operationId: 'op_plan-1', writeId: randomUUID(), late: true, move: { service: 's', entity: 'e:1', from: 'A', to: 'B' } }]),
      rememberStatement([{ tenant: 'acme', operationId: 'op_plan-1', writeId: randomUUID(), remembered: { principal: 'p', subject: '', sessionId: 's', tool: 't', entity: '' } }]),
      itemsStatement([{ tenant: 'acme', operationId: 'op_plan-1', writeId: randomUUID(), items: [{ identity: '00', done: true }, { identity: '01', done: false }] }]),
      findStatement(meant.map(({ operation, guardKeys }) => ({
        tenant: 'acme', callKey: operation.identity, identity: operation.identity, seen, guardKeys, kept: [{ service: 's', entity: 'e:1' }],
      }))),
      lockStatement(moves, meant), unclaimVain(meant, meant.map((_, n) => ({ n, inserted: false, ours_already: false, fresh: true, guarded: true, claims: 1, quota: 1, used: 0 }))),
      uncallVain(meant, meant.map((_, n) => ({ n, inserted: false, ours_already: false, fresh: true, guarded: false, claims: 1, quota: 1, used: 0 }))),
      refuseStatement([{ receipt: receipt(null), charge: { session, tool: 't', limit: 3 } }], dictionaries), ...turnStatements([{ tenant: 'acme', session, turnId: 't', limit: 3 }]),
      repetitionStatement([{ repetition: { tenant: 'acme', key: Buffer.alloc(32), since: '' }, operation: { id: 'op_plan-1', writeId: randomUUID() } }]),
    ].flatMap((statement) => (statement ? [{ ...statement, name: statement.variant ?? statement.name }] : []));
    try {
      // Planned five times with values, then generically, all on empty tables: what is cached now is kept.
      for (const { name, text } of statements) await lane.query(`prepare ${name} as ${text}`);
      const literal = (value: unknown): string => `$json$${String(value)}$json$`;
      await lane.query('begin');
      for (let n = 0; n < 7; n++) for (const { name, values } of statements) await lane.query(`explain execute ${name} (${values.map(literal).join(', ')})`);
      await lane.query('rollback');
      await fill(plain);
      for (const { name, values } of statements) {
        const { rows } = await lane.query<{ 'QUERY PLAN': string }>(`explain execute ${name} (${values.map(literal).join(', ')})`);
        const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
        expect(scans.exec(plan)?.[0], `${name}:\n${plan}`).toBeUndefined();
      }
      const direct = [
        takeStatement('r', 1000, 64), witnessStatement(1, receipt('op_5', 'effect'), review, { moves: [{ service: 's', entity: 'e:5', from: 'A', to: 'B' }], items: ['00'] }),
        escalateStatement(), adoptStatement(1_000), knowStatement('d', ['d']), doneItemsStatement('acme', ['00', '01'], 1_000),
        approveStatement({ tenant: 'acme', operationId: 'op_5', approval: 'apr_5', digest: 'd', by: 'p', receipt: receipt('op_5') }),
        lastStatement({ tenant: 'acme', principal: 'p', subject: '', sessionId: 's', tool: 't', entity: null }),
        { name: 'get', text: `select ${operationColumns} from operations o where o.tenant = $1 and o.operation_id = $2`, values: ['acme', 'op_5'] },
      ];
      for (const { name, text, values } of direct) {
        const { rows } = await plain.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
        const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
        expect(scans.exec(plan)?.[0], `${name}:\n${plan}`).toBeUndefined();
      }
    } finally {
      await Promise.all([lane.end(), plain.end()]);
    }
  }, 60_000);

  it('as an empty ledger fills, before statistics come in, a call reads a bounded number of rows: no plan outlives the size it was made for', async () => {
    const own = await freshDatabase(inject('databaseUrl'));
    await migrate(own, projectFile('migrations'));
    const client = new pg.Client({ connectionString: own });
    await client.connect();
    for (const table of ['operations', 'calls', 'guards', 'receipts', 'budgets']) await client.query(`alter table ${table} set (autovacuum_enabled = off)`);
    const ledger = openLedger({ url: own, preparedStatements: true, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000, poolSize: 1, maxBatch: 128, maxQueue: 1_000 }, sealer);
    const total = 3_000;
    try {
      let begun = 0;
      await Promise.all(Array.from({ length: 64 }, async () => {
        for (let n = begun++; n < total; n = begun++) {
          const meant = intent(`fill-${n}`, [`k:fill-${n}`]);
          await ledger.find({ tenant: 'acme', callKey: meant.operation.fingerprint, identity: meant.operation.identity, seen: null, guardKeys: meant.guardKeys });
          expect(await ledger.reserve(meant)).toEqual({ reserved: true });
          expect(await ledger.transition(settlement(`fill-${n}`))).toBe(true);
        }
      }));
      await ledger.close(); // a backend's last counts are told when it ends
      const { rows: [read] } = await client.query<{ rows: string }>(`select
        (select sum(idx_tup_read) from pg_stat_user_indexes) + (select sum(seq_tup_read) from pg_stat_user_tables where relname in ('operations', 'calls', 'guards', 'receipts')) as rows`);
      expect(Number(read?.rows) / total).toBeLessThan(150);
    } finally {
      await client.end();
    }
  }, 60_000);

  /** Not analysed: as after a burst, before autovacuum came by. */
  async function fill(client: pg.Client): Promise<void> {
    await client.query(`
      insert into operations (tenant, operation_id, identity, generation, upstream_key, effect, state, write_id, tool, contract_version, contract_digest,
        catalogue_digest, principal, subject, purpose, session_id, turn_id, intent_id, call_id, fingerprint, due_at)
      select 'acme', 'op_' || n, sha256(n::text::bytea), 1, 'op_' || n, 'write', 'committed', gen_random_uuid(), 't', '1', 'd', 'd', 'p', '', '', 's', '', '', n::text,
        sha256('f'), case when n % 1000 = 0 then now() - interval '1 s' end
      from generate_series(1, 20000) n`);
    await client.query(`insert into served_contracts (contract_digest, catalogue_digest) select 'sha256:' || n, 'sha256:' || n from generate_series(1, 20000) n`);
    await client.query(`insert into calls (tenant, call_key, fingerprint, operation_id) select 'acme', sha256(('c' || n)::bytea), sha256('f'), 'op_' || n from generate_series(1, 20000) n`);
    await client.query(`insert into guards (tenant, guard_key, operation_id, write_id) select 'acme', 'g:' || n, 'op_' || n, gen_random_uuid() from generate_series(1, 20000) n`);
    await client.query(`insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, recorded_at, digest, body)
      select 'acme', 'rcp_' || n, 'effect', 'op_' || n, 's', '', 'p', 't', 'executed', now(), '\\x00', '{}' from generate_series(1, 20000) n`);
    await client.query(`insert into budgets (tenant, scope, kind, quota) select 'acme', 'b:' || n, 'executions', 1 from generate_series(1, 20000) n`);
    await client.query(`insert into session_entities (tenant, principal, subject, session_id, entity) select 'acme', 'p', '', 's', 'e:' || n from generate_series(1, 20000) n`);
  }
});
