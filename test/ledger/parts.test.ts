/**
 * Statements of a flush are put together of what its rows need (src/ledger/parts.ts). A part that was left out and would have done something is a purse
 * that is not paid, a call identity that two calls share, an approval that nobody is asked for. So random flushes go through the statement that is put
 * together for them and through the whole one, over the same rows: they say the same, and leave the same behind.
 */
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Entry, Intent, Transition } from '../../src/gate/ports.js';
import { Dictionaries } from '../../src/ledger/dictionaries.js';
import { openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import type { LaneStatement } from '../../src/ledger/pipeline.js';
import { recordStatement } from '../../src/ledger/record.js';
import { reserveStatement } from '../../src/ledger/reserve.js';
import { createSealer } from '../../src/ledger/seal.js';
import { transitionStatement } from '../../src/ledger/transition.js';
import { projectFile } from '../../src/project.js';
import { intent, receipt, settlement } from '../recovery/intents.js';
import { freshDatabase } from '../support/servers.js';

const sealer = createSealer('seal-for-tests-0123456789abcdefghijkl');
const dictionaries = new Dictionaries();
const tables = ['operations', 'calls', 'guards', 'receipts', 'budgets', 'approvals', 'reviews'];
const asked = { id: 'apr', by: 'reviewer' as const, needed: 1, digest: 'd', summary: 's' };
const parked = (name: string): NonNullable<Intent['parked']> => ({ asked: { ...asked, id: `apr_${name}` } as NonNullable<Intent['parked']>['asked'], expiresMs: 60_000, answer: {} });
let client: pg.Client;
let epochs: Record<string, number>;

/** Of each state one, with what hangs on it; `op_n.1` is the first generation of the identity `n`. */
beforeAll(async () => {
  const url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  const ledger = openLedger({ url, preparedStatements: true, statementTimeoutMs: 10_000, connectTimeoutMs: 5_000, poolSize: 2, maxBatch: 128, maxQueue: 1_000 }, sealer);
  const none = { outcome: 'not_committed', verified: false, effectSeen: false } as const;
  for (let n = 0; n < 8; n++) {
    const one = meant({ n, generation: 1, keys: n < 6 && n !== 1 ? [n] : [], purse: 'principal:p', call: n, previous: 'none', parks: n === 1, late: false, created: false, stale: false });
    expect(await ledger.reserve(one)).toEqual({ reserved: true });
  }
  await ledger.transition(settlement('2.1'));
  await ledger.transition(settlement('3.1', { ...none, to: 'failed', refund: true }));
  await ledger.transition(settlement('4.1', { to: 'review', settle: false, reason: 'MISMATCH', review: { id: 'rev_4.1', deadlineMs: 60_000 } }));
  await ledger.transition(settlement('5.1', { ...none, to: 'rejected', outcome: 'rejected' }));
  await ledger.close();
  client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`insert into sessions (tenant, session_id, root_session_id, created_by) values ('acme', 'created', 'created', 'a')`);
  await client.query(`insert into budgets (tenant, scope, kind, quota, used) values ('acme', 'session:root', 'executions', 100, 0), ('acme', 'principal:poor', 'executions', 2, 1)`);
  epochs = Object.fromEntries((await client.query<{ guard_key: string; epoch: string }>('select guard_key, epoch from guards')).rows.map(({ guard_key, epoch }) => [guard_key, Number(epoch)]));
});
afterAll(() => client.end());

interface Drawn {
  n: number; generation: number; keys: number[]; purse: string | null; call: number | null; previous: 'none' | 'right' | 'wrong'; parks: boolean; late: boolean; created: boolean; stale: boolean;
}

function meant({ n, generation, keys, purse, call, previous, parks, late, created, stale }: Drawn): Intent {
  const guards = parks ? [] : keys.map((key) => `k:${key}`);
  const one = intent(`${n}`, guards, { epochs: [...guards].sort().map((key) => (epochs?.[key] ?? 0) + (stale ? 1 : 0)) });
  const id = `op_${n}.${generation}`;
  const alias = call === null ? null : {
    tenant: 'acme', callKey: intent(`c${call}`, []).operation.identity, fingerprint: one.operation.fingerprint, operationId: id,
    previous: previous === 'none' ? null : previous === 'right' ? `op_${call}.1` : 'op_other',
  };
  return {
    ...one, alias, budget: purse === null ? null : { scope: purse, quota: 100 }, afterCommitted: stale, sendWindowMs: late ? -1 : 60_000,
    operation: { ...one.operation, id, upstreamKey: id, generation, sessionId: created ? 'created' : 's', decisionReceipt: one.receipt.id },
    receipt: { ...one.receipt, operationId: id }, ...(parks ? { parked: parked(`${n}.${generation}`) } : {}),
  };
}

/** What few flushes have is in few of these too. */
const rarely = (weight = 9): fc.Arbitrary<boolean> => fc.oneof({ weight, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) });
const drawn: fc.Arbitrary<Drawn> = fc.record({
  n: fc.nat(15), generation: fc.oneof({ weight: 6, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 2, max: 3 }) }), keys: fc.uniqueArray(fc.nat(9), { maxLength: 2 }),
  purse: fc.oneof({ weight: 6, arbitrary: fc.constantFrom('session:root') }, { weight: 3, arbitrary: fc.constantFrom('principal:p', 'principal:poor', 'session:none', null) }),
  call: fc.oneof(fc.constant(null), fc.nat(15)), previous: fc.oneof({ weight: 6, arbitrary: fc.constant('none' as const) }, { weight: 1, arbitrary: fc.constantFrom('right' as const, 'wrong' as const) }),
  parks: rarely(), late: rarely(20), created: rarely(3), stale: rarely(),
});
/** As the lane does: what shares a key is not in one flush. */
const flushOf = fc.array(drawn, { minLength: 1, maxLength: 6 }).map((many) => {
  const taken = new Set<string>();
  return many.filter(({ n, call, keys, parks }) => {
    const own = [`i${n}`, ...(call === null ? [] : [`c${call}`]), ...(parks ? [] : keys.map((key) => `k${key}`))];
    if (own.some((key) => taken.has(key))) return false;
    for (const key of own) taken.add(key);
    return true;
  });
});

const states = ['sending', 'parked', 'review', 'committed', 'failed', 'rejected', 'cancelled', 'unknown'] as const;
const moved = fc.uniqueArray(fc.record({
  n: fc.nat(9), from: fc.constantFrom(...states), to: fc.constantFrom(...states), fence: fc.oneof({ weight: 6, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.constant(2) }),
  settle: fc.boolean(), refund: rarely(5), opens: rarely(5), decides: rarely(5), ends: rarely(5), told: fc.boolean(), sends: rarely(5),
}), { minLength: 1, maxLength: 6, selector: ({ n }) => n });
const natural = ['sending', 'parked', 'committed', 'failed', 'review', 'rejected', 'sending', 'sending'];
function move({ n, from, to, fence, settle, refund, opens, decides, ends, told, sends }: (typeof moved extends fc.Arbitrary<(infer T)[]> ? T : never)): Transition {
  const { receipt: effect, effectReceipt, ...one } = settlement(`${n}.1`, { from: [from, ...(n % 2 ? [] : [natural[n] as 'sending'])], to, fence, settle, refund, effectSeen: to === 'committed' });
  return {
    ...one, ...(told ? { receipt: effect, effectReceipt } : {}) as Partial<Transition>,
    ...(opens ? { review: { id: `rev_new.${n}`, deadlineMs: 60_000 }, reason: 'MISMATCH' } : {}),
    ...(decides ? { decided: { review: 'rev_4.1', decision: 'committed' as const, by: 'r', because: 'seen', receipt: receipt(`op_${n}.1`) } } : {}),
    ...(ends ? { approvalEnded: { by: 'r', because: 'no' } } : {}),
    ...(sends ? { send: { attempt: 2, attemptId: one.writeId, windowMs: 1_000 } } : {}),
  };
}

const entries = fc.array(fc.record({ n: fc.oneof(fc.constant(null), fc.nat(11)), receipts: fc.nat(2) }), { minLength: 1, maxLength: 6 });
function entry({ n, receipts }: { n: number | null; receipts: number }): Entry {
  if (n === null) return { receipts: Array.from({ length: receipts }, () => receipt(null)) };
  const { operation, writeId } = meant({ n, generation: 1, keys: [], purse: null, call: null, previous: 'none', parks: false, late: false, created: false, stale: false });
  return {
    receipts: Array.from({ length: receipts }, () => receipt(operation.id)),
    operation: {
      ...operation, effect: 'none', writeId, state: 'committed', fence: 1, owner: null, attempt: 1, attempts: [], unknownAttempts: 0, effectSeen: false, verified: false, reason: null,
      outcome: 'committed', effectReceipt: null, reviewId: null, approval: null, answer: { result: null } as never, dossier: null, clock: {} as never,
    },
  };
}

/** Rows that it gave, and all rows as they are then; undone. Times are those of one transaction, and chance is drawn anew from the same seed. */
async function carriedOut({ text, values }: LaneStatement): Promise<unknown> {
  await client.query('savepoint before; select setseed(0.5)');
  const { rows } = await client.query<object>(text, values);
  const left: Record<string, unknown> = {};
  for (const table of tables) left[table] = (await client.query<{ rows: unknown }>(`select json_agg(t order by t::text) as rows from ${table} t`)).rows[0]?.rows;
  await client.query('rollback to savepoint before');
  return { rows, left };
}

const seen = new Map<string, number>();

async function same(own: LaneStatement, whole: LaneStatement): Promise<void> {
  await client.query('begin');
  try {
    const [partly, wholly] = [await carriedOut(own), await carriedOut({ ...own, text: whole.text })];
    expect(partly).toEqual(wholly);
    const wrote = ((partly as { rows: object[] }).rows).some((row) => Object.entries(row).some(([name, is]) => /inserted|moved|stood/.test(name) && is));
    if (wrote) seen.set(own.variant ?? '', (seen.get(own.variant ?? '') ?? 0) + 1);
  } finally {
    await client.query('rollback');
  }
}

const everything: Drawn = { n: 99, generation: 2, keys: [], purse: 'principal:p', call: 99, previous: 'right', parks: true, late: false, created: false, stale: false };
const others = (name: string): number => [...seen.keys()].filter((variant) => variant.startsWith(name)).length;

describe('a statement that is put together says and does what the whole one would', () => {
  it('where calls are reserved', async () => {
    const whole = reserveStatement([meant(everything)], sealer, dictionaries);
    expect(whole.variant).toBe('reserve_daily_again_called_parked');
    await fc.assert(fc.asyncProperty(flushOf, (flush) => same(reserveStatement(flush.map(meant), sealer, dictionaries), whole)), { numRuns: 300 });
    expect(others('reserve')).toBeGreaterThan(8);
    expect(seen.size).toBeLessThanOrEqual(16);
  }, 120_000);

  it('where operations are moved', async () => {
    const whole = transitionStatement([move({ n: 9, from: 'sending', to: 'committed', fence: 1, settle: true, refund: true, opens: true, decides: true, ends: true, told: true, sends: false })], sealer, dictionaries);
    expect(whole.variant).toBe('transition_reviewed_unsent');
    await fc.assert(fc.asyncProperty(moved, (flush) => same(transitionStatement(flush.map(move), sealer, dictionaries), whole)), { numRuns: 300 });
    expect(others('transition')).toBe(4);
  }, 120_000);

  it('where reads and refusals are recorded', async () => {
    const whole = recordStatement([entry({ n: 99, receipts: 1 })], sealer, dictionaries);
    expect(whole.variant).toBe('record_made');
    await fc.assert(fc.asyncProperty(entries, (flush) => same(recordStatement(flush.map(entry), sealer, dictionaries), whole)), { numRuns: 150 });
    expect(others('record')).toBe(2);
  }, 120_000);
});
