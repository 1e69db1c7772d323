/**
 * A statement that reads a table from end to end, or all that a tenant has, is not seen while there is little: over millions of rows it stops whoever
 * asked and everybody else. So what people and what works in the background ask is planned here over tables that are worth an index, with every
 * combination of filters that the listener admits, for what is frequent, what was last seen long ago and what there never was.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSealer } from '../../src/ledger/seal.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { openRecords, type RecordStore } from '../../src/ledger/records.js';
import type { ReceiptFilter } from '../../src/ports.js';
import { timeOfId } from '../../src/receipt-id.js';
import { fillLedger } from './large-ledger.js';
import { type Planned, watched, wrongWith } from './watched-plans.js';

/** The tenant has 27,000 operations with 57,000 receipts. A page looks at 1,000 rows before it looks at the clock; of what is named up to 2,000 are put in order. */
const most = { rows: 3_000, blocks: 12_000 };
const operations = 30_000;

let db: pg.Client;
let records: RecordStore;
let ledger: LedgerStore;
let url: string;

beforeAll(async () => {
  url = await fillLedger(operations);
  db = new pg.Client({ connectionString: url });
  await db.connect();
  const options = { url, statementTimeoutMs: 20_000, connectTimeoutMs: 2_000, poolSize: 1 };
  records = openRecords({ ...options, searchMs: 0 }, createSealer('seal'));
  ledger = openLedger({ ...options, preparedStatements: true, maxBatch: 128, maxQueue: 1_000 }, createSealer('seal'));
}, 240_000);
afterAll(async () => {
  await Promise.all([records.close(), ledger.close()]);
  await db.end();
});

/** What a filter may ask for; each of `values` in turn for all of the filters at once. */
const asked = {
  session_id: ['session-00001000-c23', 'session-00000001-r01', 'nobody'], intent_id: ['intent-00001000-c22', 'intent-00000001-r01', 'nobody'],
  tool: ['issue_credit', 'quote_credit', 'nobody'], outcome: ['committed', 'not_committed', 'accepted'], principal: ['agent-4', 'agent-rare', 'nobody'],
  from: ['2020-01-01T00:00:00Z', '2020-01-01T00:00:00Z', '2090-01-01T00:00:00Z'], to: ['2090-01-01T00:00:00Z', '2090-01-01T00:00:00Z', '2020-01-01T00:00:00Z'],
} as const;
const ofReceipts = { ...asked, disposition: ['executed', 'blocked_tool', 'cancelled'] };
const states = ['parked', 'approved', 'sending', 'accepted', 'unknown', 'review', 'committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned'];

function* combinations(values: Record<string, readonly string[]>): Generator<ReceiptFilter> {
  const names = Object.keys(values);
  for (let n = 0; n < 2 ** names.length; n++) {
    for (let value = 0; value < 3; value++) {
      yield { limit: 50, ...Object.fromEntries(names.filter((_, bit) => n & (1 << bit)).map((name) => [name, values[name]?.[value]])) };
    }
  }
}

/** The statements of each, and what is wrong with them. */
async function offences(work: () => Promise<unknown>): Promise<string[]> {
  const planned = await watched(work);
  expect(planned.length).toBeGreaterThan(0);
  return planned.flatMap(offence);
}

function offence(planned: Planned): string[] {
  const wrong = wrongWith(planned, most);
  return wrong.length > 0 ? [`${wrong.join(', ')}: ${planned.text} ${JSON.stringify(planned.values)}\n${JSON.stringify(planned.plan, null, 1)}`] : [];
}

const everyReceiptFilter = async (cursor?: string): Promise<void> => {
  for (const filter of combinations(ofReceipts)) await records.receipts('acme', { ...filter, ...(cursor ? { cursor } : {}) });
};
const everyOperationFilter = async (cursor?: string): Promise<void> => {
  for (const filter of combinations({ ...asked, state: ['committed', 'parked', 'failed'] })) await records.operations('acme', { ...filter, ...(cursor ? { cursor } : {}) });
  for (const state of states) await records.operations('acme', { state, limit: 500 });
};

/** Far down the list, where most of it is newer. */
async function deepCursor(list: 'receipts' | 'operations'): Promise<string> {
  const { rows: [row] } = await db.query<{ at: Date }>(`select created_at as at from operations where tenant = 'acme' order by created_at offset ${operations / 10} limit 1`);
  return (await records[list]('acme', { limit: 1, to: (row as { at: Date }).at.toISOString() })).next_cursor as string;
}

describe('the ledger that plans are made over', () => {
  it('has rows that belong together and could be real: no part without its whole, no time that its name does not tell, nothing twice', async () => {
    const { rows: [found] } = await db.query<Record<string, number>>(`select
      (select count(*)::integer from operations) as operations,
      (select count(*)::integer from operations o where not exists (select 1 from receipts r where r.tenant = o.tenant and r.id = o.decision_receipt and r.operation_id = o.operation_id and r.session_id = o.session_id)) as undecided,
      (select count(*)::integer from receipts r where r.operation_id is not null and not exists (select 1 from operations o where o.tenant = r.tenant and o.operation_id = r.operation_id)) as orphans,
      (select count(*)::integer from operations o where o.effect <> 'none' and not exists (select 1 from calls c where c.tenant = o.tenant and c.operation_id = o.operation_id)) as uncalled,
      (select count(*)::integer from approvals a where not exists (select 1 from operations o where o.tenant = a.tenant and o.operation_id = a.operation_id and o.approval_id = a.id)) as unasked,
      (select count(*)::integer from receipts) - (select count(*)::integer from receipt_chain c join receipts r on r.tenant = c.tenant and r.id = c.receipt_id) as unchained`);
    expect(found).toEqual({ operations: expect.any(Number), undecided: 0, orphans: 0, uncalled: 0, unasked: 0, unchained: 0 });
    expect(Math.abs((found?.['operations'] ?? 0) / operations - 1)).toBeLessThan(0.05);
    const { rows } = await db.query<{ id: string; recorded_at: Date }>('select id, recorded_at from receipts order by random() limit 500');
    for (const { id, recorded_at } of rows) expect(timeOfId(id)).toEqual(recorded_at);
    expect(Date.now() - Math.min(...rows.map(({ recorded_at }) => recorded_at.getTime()))).toBeGreaterThan(80 * 86_400_000);
  });
});

describe('what people ask', () => {
  it('lists of receipts read a bounded number of rows under any filters', async () => {
    expect(await offences(() => everyReceiptFilter())).toEqual([]);
    const deep = await deepCursor('receipts');
    expect(await offences(() => everyReceiptFilter(deep))).toEqual([]);
  }, 240_000);

  it('lists of operations do so too', async () => {
    expect(await offences(() => everyOperationFilter())).toEqual([]);
    const deep = await deepCursor('operations');
    expect(await offences(() => everyOperationFilter(deep))).toEqual([]);
  }, 240_000);

  it('so does everything else that the listener shows', async () => {
    const [{ id: receipt }, { id: operation }] = (await Promise.all([records.receipts('acme', { limit: 1 }), records.operations('acme', { limit: 1 })])).map(({ items }) => items[0]) as [{ id: string }, { id: string }];
    expect(await offences(async () => {
      await records.receipt('acme', receipt);
      await records.operation('acme', operation);
      for (const state of ['pending', 'ended'] as const) for (const more of [{}, { tool: 'issue_credit' }, { by: 'reviewer' as const }, { session_id: 'nobody' }, { principal: 'nobody' }]) {
        const { items } = await records.approvals.list('acme', { state, limit: 50, ...more });
        if (items[0]) await records.approvals.find('acme', items[0]['id'] as string);
      }
      for (const state of ['open', 'decided'] as const) for (const more of [{}, { tool: 'issue_credit' }, { reason: 'MISMATCH' }, { tool: 'nobody', reason: 'nothing' }]) {
        const { items } = await records.reviews.list('acme', { state, limit: 50, ...more });
        if (items[0]) await records.reviews.find('acme', items[0]['id'] as string);
      }
      await records.chain.page('acme', 20_000, 500);
      await ledger.sessions.get('acme', 'session-00001000-c23');
      await ledger.sessions.put({ tenant: 'acme', id: 'new', parent: null, budgets: {}, defaults: { executions: 1, proposals: 1, turns: 1 }, by: 'application' });
      await ledger.context({ tenant: 'acme', principal: 'agent-1', subject: 'C-1', session: { id: 'session-00001000-c23', own: 'own:x', task: 'session:x' }, purse: 'principal:agent-1' });
    })).toEqual([]);
  }, 120_000);
});

/** A test of plans that passes whatever they are says nothing. */
describe('without an index', () => {
  const deepReads = async (): Promise<void> => {
    for (const filter of [{ session_id: 'nobody' }, { intent_id: 'nobody' }, { outcome: 'accepted' }, { disposition: 'cancelled' }, {}]) await records.receipts('acme', { ...filter, limit: 50 });
    for (const filter of [{ session_id: 'nobody' }, { intent_id: 'nobody' }, { outcome: 'accepted' }, { state: 'failed' }, {}]) await records.operations('acme', { ...filter, limit: 50 });
    const { items: [operation] } = await records.operations('acme', { limit: 1 });
    await records.operation('acme', operation?.['id'] as string);
  };
  it.each(['receipts_session', 'receipts_intent', 'receipts_outcome', 'receipts_disposition', 'operations_state', 'operations_outcome', 'operations_newest', 'receipts_operation', 'calls_again'])('%s something reads too much, and is told', async (index) => {
    expect(await offences(deepReads)).toEqual([]);
    const { rows: [row] } = await db.query<{ text: string }>('select pg_get_indexdef($1::regclass) as text', [index]);
    await db.query(`drop index ${index}`);
    try {
      expect(await offences(deepReads)).not.toEqual([]);
    } finally {
      await db.query(row?.text as string);
    }
  }, 60_000);
});

describe('what works in the background', () => {
  const dayMs = 86_400_000;
  it('recovery, gauges and retention read a bounded number of rows', async () => {
    expect(await offences(async () => {
      await ledger.take('plans', 1_000, 64);
      await ledger.renew('plans', 1_000, [{ tenant: 'acme', id: 'op_none', fence: 1 }]);
      await ledger.tidy(60_000);
      await ledger.escalateReviews();
      await ledger.adoptReviews(dayMs);
      await ledger.countOpen();
      await ledger.countReviews();
      await ledger.callbacks.take(64, 1_000);
      await ledger.cancelRequests.list();
      await ledger.erasures.tenants(60 * dayMs);
      await ledger.erasures.plan('acme', 60 * dayMs);
      await ledger.erasures.carryOut();
      await ledger.handOver('plans');
    })).toEqual([]);
  }, 120_000);

  it('the sealer looks for what is new, and goes on after what it has', async () => {
    expect(await offences(async () => {
      const held = await ledger.chain.hold(null, 'plans', 60_000, null);
      await ledger.chain.heads('', 500);
      const { upTo } = await ledger.chain.look();
      await ledger.chain.unsealed(held?.sealed ?? upTo, upTo, null, 500);
    })).toEqual([]);
  }, 60_000);
});
