import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Intent, Transition } from '../../src/gate/ports.js';
import { attemptsOf, briefly } from '../../src/ledger/attempts.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import { openRecords, type RecordStore } from '../../src/ledger/records.js';
import { createSealer } from '../../src/ledger/seal.js';
import { projectFile } from '../../src/project.js';
import { freshDatabase } from '../support/servers.js';
import { intent, receipt, settlement } from './intents.js';

const sealer = createSealer('seal-for-tests-0123456789abcdefghijkl');
let url = '';
let db: pg.Client;
let records: RecordStore;
const stores: LedgerStore[] = [];

function open(): LedgerStore {
  const store = openLedger({ url, preparedStatements: true, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000, poolSize: 2, maxBatch: 128, maxQueue: 1_000 }, sealer);
  stores.push(store);
  return store;
}

const attempt = { number: 1, sent: true, status: 200, reason: null, outcome: 'committed', ms: 12.25 } as const;
const contract = { contractDigest: `sha256:${'a'.repeat(64)}`, catalogueDigest: `sha256:${'b'.repeat(64)}` };

function meant(name: string, change: Partial<Intent['operation']> = {}): Intent {
  const whole = intent(name, [`k:${name}`]);
  return { ...whole, operation: { ...whole.operation, ...contract, ...change } };
}

async function row(name: string): Promise<Record<string, unknown>> {
  return (await db.query<Record<string, unknown>>('select * from operations where operation_id = $1', [`op_${name}`])).rows[0] ?? {};
}

const ended = (name: string, change: Partial<Transition> = {}): Transition => settlement(name, { attempts: [attempt], dueInMs: null, ...change });

/** As the version before settled it, and left it. */
async function asBefore(name: string): Promise<void> {
  await db.query(`update operations set served = null, attempts_brief = null, contract_digest = $2, catalogue_digest = $3, upstream_key = coalesce(upstream_key, operation_id),
    attempts = $4 where operation_id = $1`, [`op_${name}`, contract.contractDigest, contract.catalogueDigest, JSON.stringify([attempt])]);
}

beforeAll(async () => {
  url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  db = new pg.Client({ connectionString: url });
  await db.connect();
  await open().saveCatalogue(contract.catalogueDigest, '', [contract.contractDigest, contract.contractDigest]);
  records = openRecords({ url, poolSize: 1, statementTimeoutMs: 2_000, connectTimeoutMs: 2_000 }, sealer);
});
afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await records.close();
  await db.end();
});

const wiped = ['upstream_key', 'contract_digest', 'catalogue_digest', 'attempt_id', 'send_by', 'absent_from', 'reconcile_by', 'budget_scope', 'owner', 'due_at', 'sealed_request'];

/** Operations are kept for years. What an ended one holds in vain is paid for each time; what is wiped too early is an effect that nobody can prove. */
describe('an operation that has ended', () => {
  it('holds nothing that only an open one needs, and is read as before', async () => {
    const ledger = open();
    await ledger.reserve(meant('ends'));
    const before = await ledger.get('acme', 'op_ends');
    expect(await ledger.transition(ended('ends'))).toBe(true);
    const kept = await row('ends');
    expect(wiped.filter((column) => kept[column] !== null)).toEqual([]);
    expect(kept['attempts']).toEqual([]);
    const { upstreamKey, contractDigest, catalogueDigest, attempts, answer } = await ledger.get('acme', 'op_ends') ?? {};
    expect({ upstreamKey, contractDigest, catalogueDigest }).toEqual({ upstreamKey: before?.upstreamKey, ...contract });
    expect({ attempts, answer }).toEqual({ attempts: [attempt], answer: { result: null } });
    expect(await records.operation('acme', 'op_ends')).toMatchObject({ id: 'op_ends', contract_digest: contract.contractDigest, attempts: [attempt], owner: null });
    expect((await records.operations('acme', { limit: 500 })).items.find(({ id }) => id === 'op_ends')).toMatchObject({ contract_digest: contract.contractDigest, attempts: [attempt] });
  });

  it('keeps its key where it is another, or the service may call back by it; and as long as it is open it is found by its key', async () => {
    const ledger = open();
    await Promise.all([ledger.reserve(meant('older', { upstreamKey: 'op_generation_1' })), ledger.reserve(meant('called')), ledger.reserve(meant('uncalled'))]);
    for (const key of ['op_generation_1', 'op_called', 'op_uncalled']) expect(await ledger.callbacks.operation(key)).toMatchObject({ upstreamKey: key });
    await Promise.all([ledger.transition(ended('older')), ledger.transition(ended('called', { calledBack: true })), ledger.transition(ended('uncalled'))]);
    expect(await ledger.callbacks.operation('op_generation_1')).toMatchObject({ id: 'op_older' });
    expect(await ledger.callbacks.operation('op_called')).toMatchObject({ id: 'op_called' });
    expect(await ledger.callbacks.operation('op_uncalled')).toBeNull();
  });

  it('keeps its key where it had no effect: whatever version of the gateway makes its next generation sends under it', async () => {
    const ledger = open();
    await ledger.reserve(meant('failed'));
    await ledger.transition(ended('failed', { to: 'failed', outcome: 'not_committed', effectSeen: false }));
    expect(await row('failed')).toMatchObject({ upstream_key: 'op_failed', contract_digest: null, budget_scope: null });
  });

  it('is not one whose read-back is still owed: everything is there that the read-back needs', async () => {
    const ledger = open();
    await ledger.reserve(meant('owed'));
    const before = await row('owed');
    await ledger.transition(ended('owed', { dueInMs: 500, absentInMs: 1_000 }));
    const kept = await row('owed');
    for (const column of ['upstream_key', 'contract_digest', 'attempt_id', 'send_by', 'reconcile_by', 'budget_scope', 'sealed_request']) expect(kept[column], column).toEqual(before[column]);
    expect(kept['absent_from']).not.toBeNull();
    expect(await ledger.transition(ended('owed', { from: ['committed'] }))).toBe(true);
    const settled = await row('owed');
    expect(wiped.filter((column) => settled[column] !== null)).toEqual([]);
  });

  it('is contradicted by a late effect as ever, and read as it was by whoever decides', async () => {
    const ledger = open();
    await ledger.reserve(meant('late'));
    const denied = { ...attempt, status: 422, reason: 'NO', outcome: 'rejected' } as const;
    await ledger.transition(ended('late', { to: 'rejected', outcome: 'rejected', effectSeen: false, attempts: [denied] }));
    expect(await ledger.witness(1, receipt('op_late', 'effect'), { id: 'rev_late', deadlineMs: 60_000 })).toBe('review');
    expect(await ledger.get('acme', 'op_late')).toMatchObject({ state: 'review', reason: 'CONTRADICTED', effectSeen: true, attempts: [denied], upstreamKey: 'op_late', ...contract });
    const { settle: _, ...resent } = ended('late', { from: ['review'], fence: 2, to: 'approved', attempts: [], outcome: null });
    expect(await ledger.transition({ ...resent, resumes: true })).toBe(true);
    expect(await ledger.get('acme', 'op_late')).toMatchObject({ state: 'approved', attempts: [] });
  });

  it('pays back what it took, once, though its purse is not kept', async () => {
    const ledger = open();
    const whole = meant('back');
    await ledger.reserve({ ...whole, budget: { scope: 'principal:back', quota: 5 } });
    const back = ended('back', { to: 'failed', outcome: 'not_committed', effectSeen: false, refund: true });
    expect(await ledger.transition(back)).toBe(true);
    await ledger.transition({ ...back, writeId: randomUUID() });
    expect((await db.query(`select used from budgets where scope = 'principal:back'`)).rows).toEqual([{ used: 0 }]);
  });
});

/** Replicas are replaced one after another: for a while both versions read and write the same rows. */
describe('beside the version before', () => {
  it('what is open is stored as that one stores it', async () => {
    const ledger = open();
    await ledger.reserve(meant('open'));
    expect(await row('open')).toMatchObject({ upstream_key: 'op_open', contract_digest: contract.contractDigest, catalogue_digest: contract.catalogueDigest, attempts: [], attempts_brief: null });
    const { settle: _, ...unknown } = ended('open', { to: 'unknown', outcome: 'unknown', effectSeen: false, release: true, dueInMs: 1_000 });
    await ledger.transition(unknown);
    expect(await row('open')).toMatchObject({ attempts: [attempt], attempts_brief: null, contract_digest: contract.contractDigest });
  });

  it('what that one reserved settles, and what it settled is read', async () => {
    const ledger = open();
    await ledger.reserve(meant('theirs'));
    await db.query(`update operations set served = null where operation_id = 'op_theirs'`);
    expect(await ledger.transition(ended('theirs'))).toBe(true);
    const read = async (): Promise<object | null> => ledger.get('acme', 'op_theirs');
    expect(await row('theirs')).toMatchObject({ served: null, contract_digest: contract.contractDigest, send_by: null });
    expect(await read()).toMatchObject({ ...contract, attempts: [attempt], upstreamKey: 'op_theirs' });
    await asBefore('theirs');
    expect(await read()).toMatchObject({ ...contract, attempts: [attempt], upstreamKey: 'op_theirs' });
  });

  it('what that one moves on after this one ended it is read as that one left it', async () => {
    const ledger = open();
    await ledger.reserve(meant('both'));
    await ledger.transition(ended('both'));
    const later = { ...attempt, number: 2, outcome: 'unknown' };
    await db.query(`update operations set state = 'review', attempts = $1 where operation_id = 'op_both'`, [JSON.stringify([attempt, later])]);
    expect(await ledger.get('acme', 'op_both')).toMatchObject({ attempts: [attempt, later] });
  });

  it('a contract that a failover lost leaves what is written under it whole', async () => {
    const ledger = open();
    await ledger.reserve(meant('lost', { contractDigest: 'sha256:lost' }));
    await ledger.transition(ended('lost'));
    expect(await ledger.get('acme', 'op_lost')).toMatchObject({ contractDigest: 'sha256:lost', catalogueDigest: contract.catalogueDigest });
  });
});

describe('a finished read', () => {
  it('is short from the start, and read as it was told', async () => {
    const ledger = open();
    const whole = await ledger.reserve(meant('like')).then(() => ledger.get('acme', 'op_like'));
    if (!whole) throw new Error('it is not there');
    const read = { ...whole, id: 'op_read', upstreamKey: 'op_read', identity: Buffer.alloc(32, 7), effect: 'none', state: 'committed', outcome: 'committed', attempts: [attempt], answer: { result: 1 }, writeId: randomUUID() } as const;
    expect(await ledger.record({ receipts: [receipt('op_read')], operation: { ...read, attempts: [...read.attempts] } })).toBe(true);
    expect(await row('read')).toMatchObject({ upstream_key: null, contract_digest: null, catalogue_digest: null, attempts: [] });
    expect(await ledger.get('acme', 'op_read')).toMatchObject({ upstreamKey: 'op_read', ...contract, attempts: [attempt], answer: { result: 1 } });
  });
});

describe('attempts in brief', () => {
  const record = fc.record({
    number: fc.nat(), sent: fc.boolean(), status: fc.option(fc.integer({ min: 100, max: 599 })), reason: fc.option(fc.string()),
    outcome: fc.constantFrom('committed' as const, 'rejected' as const, 'unknown' as const), ms: fc.double({ min: 0, max: 1e6, noNaN: true }),
  });

  it('are what they were, to the last digit (property)', () => {
    fc.assert(fc.property(fc.array(record, { minLength: 1, maxLength: 4 }), (attempts) => {
      expect(attemptsOf([], briefly(attempts))).toEqual(JSON.parse(JSON.stringify(attempts)));
    }));
  });

  it('are not believed where the long form says more: the version before wrote it since', () => {
    expect(attemptsOf([attempt], briefly([{ ...attempt, number: 9 }]))).toEqual([attempt]);
    expect(attemptsOf([], null)).toEqual([]);
  });
});
