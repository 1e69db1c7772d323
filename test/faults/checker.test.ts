import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { naiveRefund } from '../../examples/retail/naive-client.js';
import { type RetailService, startRetailService } from '../../examples/retail/service/server.js';
import { check, type Violation } from '../../faults/checker.js';
import { type Books, type Evidence, type LedgerEntry, newHistory, type Said, type Told, type Verdict } from '../../faults/history.js';
import type { Intent } from '../../faults/plan.js';

/**
 * A checker that finds nothing is worth what it would have found. Each invariant is broken here once, in an otherwise honest run, and a client without a
 * gateway breaks the first by itself. If one of these passed unseen, the fault suite would call a gateway sound that pays twice.
 */
const said = (change: Partial<Said> = {}): Said => ({
  askedAt: 0, at: 10, http: 200, disposition: 'executed', next: 'continue', outcome: 'committed', verified: true, operationId: 'op_1', code: null,
  result: '{"receipt_id":"CR-1"}', receiptId: 'CR-1', evidenceOfChange: true, receipts: { decision: 'rcp_d', effect: 'rcp_e' }, ...change,
});
const refused = (disposition: string, http: number, code: string): Said => said({
  http, disposition, code, next: 'abandon', outcome: null, verified: false, operationId: null, result: 'null', receiptId: null, evidenceOfChange: false, receipts: { decision: 'rcp_d', effect: null },
});

/** As the answer to a 2xx that could not be read, while its read-back is owed. */
const owed = (change: Partial<Said> = {}): Said => said({ next: 'verify', verified: false, evidenceOfChange: false, result: 'null', receiptId: null, ...change });

interface Change { intent?: Partial<Intent>; step?: Partial<Told['step']>; said?: Said[]; verdicts?: Verdict[]; cut?: number; final?: Said | null }
function told(change: Change = {}): Told {
  const all = change.said ?? [said()];
  const final = change.final === undefined ? (all.at(-1) ?? null) : change.final;
  return {
    intent: { id: 'a', customer: 0, tool: 'issue_credit', args: { order_id: 'O-1', amount: 100, currency: 'GBP' }, envelope: {}, expects: 'effect', verdict: 'approve', ...change.intent },
    step: { n: 0, kind: 'single', session: 's', budget: null, givesUp: false, ...change.step },
    said: all, cut: change.cut ?? 0, verdicts: change.verdicts ?? [], final, endedAt: final?.at ?? null,
  };
}

const credit = (change: Partial<Books['credits'][number]> = {}) => ({ order_id: 'O-1', amount: 100, key: 'op_1', receipt_id: 'CR-1', ...change });
const decided = { id: 'rcp_d', kind: 'decision', disposition: 'executed' };
const effected = { id: 'rcp_e', kind: 'effect', disposition: 'executed' };
const operation = (id = 'op_1', state = 'committed', change: Partial<LedgerEntry> = {}): LedgerEntry => ({
  id, state, reason: null, session: 's', generation: 1, tool: 'issue_credit', subject: 'C-17', args: { order_id: 'O-1', amount: 100, currency: 'GBP' }, createdAt: '2026-01-01T00:00:00Z',
  receipts: [decided, effected], ...change,
});

function evidence(all: Told[], change: Partial<Omit<Evidence, 'books'>> & { books?: Partial<Books> } = {}): Evidence {
  const { books, ...rest } = change;
  return {
    history: { ...newHistory(), told: all, quietAt: 1_000 }, books: { credits: [credit()], voids: [], cancellations: [], ...books },
    ledger: [operation()], doubles: 0, deadlineMs: 60_000, ...rest,
  };
}
const numbers = (found: Violation[]): number[] => [...new Set(found.map(({ invariant }) => invariant))].sort();

describe('an honest run', () => {
  const verdict = (decision: 'approve' | 'reject', http = 200, by = 'application'): Verdict =>
    ({ approval: 'apr', decision, by, http, summary: 'Credit 15000 GBP to O-1', digest: 'd' });
  const asking = { args: { order_id: 'O-1', amount: 15_000, currency: 'GBP' } };
  const honest: [string, Evidence][] = [
    ['one effect, told twice', evidence([told({ said: [said(), said({ askedAt: 20, at: 30, disposition: 'replayed' })] })])],
    ['unknown first, an effect then', evidence([told({ said: [said({ http: 202, disposition: 'unknown', next: 'wait', outcome: 'unknown', result: 'null' }), said({ at: 20 })] })])],
    ['without its result while a read-back is owed, with it then, and so for ever', evidence([told({ said: [owed(), owed({ askedAt: 20, at: 30, disposition: 'replayed' }), said({ askedAt: 40, at: 50 }), said({ askedAt: 60, at: 70, disposition: 'replayed' })] })])],
    ['with its result, and verified then', evidence([told({ said: [owed({ result: '{"receipt_id":"CR-1"}', receiptId: 'CR-1' }), said({ askedAt: 20, at: 30 })] })])],
    ['refused as it was to be', evidence([told({ intent: { expects: 'refusal' }, said: [refused('denied', 404, 'NOT_FOUND')] })], { books: { credits: [] }, ledger: [] })],
    ['given up after a 503', evidence([told({ step: { givesUp: true }, said: [refused('unavailable', 503, 'UNAVAILABLE')], final: null })], { books: { credits: [] }, ledger: [] })],
    ['approved and sent', evidence([told({ intent: asking, verdicts: [verdict('approve')] })], { books: { credits: [credit({ amount: 15_000 })] } })],
    ['refused by a person', evidence([told({ intent: { ...asking, verdict: 'reject' }, verdicts: [verdict('reject')], said: [refused('denied', 403, 'APPROVAL_REJECTED')] })], {
      books: { credits: [] }, ledger: [operation('op_1', 'cancelled', { receipts: [decided] })],
    })],
    ['twice under one key, because the service was told to', evidence([told()], { books: { credits: [credit(), credit({ receipt_id: 'CR-2' })] }, doubles: 1 })],
  ];
  it.each(honest)('%s: nothing is found', (_, run) => { expect(check(run)).toEqual([]); });

  const broken: [number, string, Evidence][] = [
    [1, 'two effects under two keys', evidence([told()], { books: { credits: [credit(), credit({ key: 'op_2', receipt_id: 'CR-2' })] }, ledger: [operation(), operation('op_2')], doubles: 5 })],
    [1, 'two effects under one key, and the service was told nothing of the kind', evidence([told()], { books: { credits: [credit(), credit({ receipt_id: 'CR-2' })] } })],
    [2, 'an effect without an intent', evidence([told()], { ledger: [] })],
    [2, 'an effect without a decision receipt', evidence([told()], { ledger: [operation('op_1', 'committed', { receipts: [effected] })] })],
    [2, 'an end without an effect receipt', evidence([told()], { ledger: [operation('op_1', 'committed', { receipts: [decided] })] })],
    [2, 'an answer with a receipt that is nowhere', evidence([told({ said: [said({ receipts: { decision: 'rcp_d', effect: 'rcp_x' } })] })])],
    [3, 'lost: executed, and not in the books', evidence([told()], { books: { credits: [] } })],
    [3, 'refused, and in the books', evidence([told({ said: [refused('rejected', 422, 'UPSTREAM_REJECTED')], step: { givesUp: true } })])],
    [3, 'refused, where nothing was wrong with it', evidence([told({ said: [refused('denied', 404, 'NOT_FOUND')] })], { books: { credits: [] }, ledger: [] })],
    [3, 'another result the second time', evidence([told({ said: [said(), said({ askedAt: 20, at: 30, result: '{"receipt_id":"CR-1","amount":7}' })] })])],
    [3, 'a result the second time, when nothing was owed', evidence([told({ said: [said({ result: 'null', receiptId: null }), said({ askedAt: 20, at: 30 })] })])],
    [3, 'another result than the one that was owed and told', evidence([told({ said: [owed(), said({ askedAt: 20, at: 30 }), said({ askedAt: 40, at: 50, result: '{"receipt_id":"CR-1","amount":7}' })] })])],
    [3, 'another result than the one that waited for its read-back', evidence([told({ said: [owed({ result: '{"receipt_id":"CR-9"}', receiptId: 'CR-9' }), said({ askedAt: 20, at: 30 })] })])],
    [3, 'no result any more', evidence([told({ said: [said(), said({ askedAt: 20, at: 30, result: 'null' })] })])],
    [3, 'verified, and then not', evidence([told({ said: [said(), said({ askedAt: 20, at: 30, verified: false })] })])],
    [3, 'another operation the second time', evidence([told({ said: [said(), said({ askedAt: 20, at: 30, operationId: 'op_2' })] })])],
    [3, 'unknown after it was known', evidence([told({ said: [said(), said({ askedAt: 20, at: 30, http: 202, disposition: 'unknown', outcome: 'unknown' }), said({ askedAt: 40, at: 50 })] })])],
    [3, 'another receipt than the books have', evidence([told({ said: [said({ receiptId: 'CR-9' })] })])],
    [3, 'a 500 for what was sent', evidence([told({ said: [said({ http: 500, disposition: 'unknown', outcome: 'unknown', next: 'wait' }), said()] })])],
    [3, 'a 408', evidence([told({ said: [said({ http: 408, outcome: null, disposition: 'unavailable' }), said()] })])],
    [3, 'a batch with an answer missing', evidence([told()], { history: { ...newHistory(), told: [told()], misshapen: ['2 answers to 3 calls'], quietAt: 1_000 } })],
    [4, 'an effect of what was to be refused', evidence([told({ intent: { expects: 'refusal' }, said: [refused('denied', 404, 'NOT_FOUND')] })])],
    [4, 'executed, what was to be refused', evidence([told({ intent: { expects: 'refusal' } })])],
    [4, 'an effect of what was answered 503 and never asked again', evidence([told({ step: { givesUp: true }, said: [refused('unavailable', 503, 'UNAVAILABLE')], final: null })])],
    [4, 'an effect that nobody asked for', evidence([told()], { books: { credits: [credit(), credit({ order_id: 'O-9' })] } })],
    [4, 'a read that says it changed something', evidence([told(), told({ intent: { expects: 'read', tool: 'get_order' } })])],
    [5, 'an operation shown to two users', evidence([told()], { history: { ...newHistory(), told: [told()], quietAt: 1_000, sightings: new Map([['op_1', new Set(['acme/C-17', 'globex/C-90'])]]) } })],
    [6, 'more effects than the budget', evidence([1, 2].map((amount) => told({ intent: { expects: 'budgeted', args: { order_id: 'O-1', amount, currency: 'GBP' } }, step: { budget: 1 } })), {
      books: { credits: [credit({ amount: 1 }), credit({ amount: 2 })] } })],
    [6, 'more started than the budget', evidence([told({ intent: { expects: 'budgeted' }, step: { budget: 1 } })], { ledger: [operation(), operation('op_2', 'rejected')] })],
    [6, 'fewer than the budget, and one refused for want of it', evidence([told({ intent: { expects: 'budgeted' }, step: { budget: 2 } }),
      told({ intent: { id: 'b', expects: 'budgeted', args: { order_id: 'O-2', amount: 1, currency: 'GBP' } }, step: { budget: 2 }, said: [refused('budget_exhausted', 429, 'BUDGET_EXHAUSTED')] })])],
    [7, 'sent without the approval', evidence([told({ intent: asking })], { books: { credits: [credit({ amount: 15_000 })] } })],
    [7, 'sent with one approval of two', evidence([told({ intent: { args: { order_id: 'O-1', amount: 45_000, currency: 'GBP' } }, verdicts: [{ ...verdict('approve', 200, 'reviewer-1'), summary: 'Credit 45000 GBP to O-1' }] })],
      { books: { credits: [credit({ amount: 45_000 })] } })],
    [7, 'another call approved than sent', evidence([told({ intent: asking, verdicts: [{ ...verdict('approve'), summary: 'Credit 15 GBP to O-1' }] })], { books: { credits: [credit({ amount: 15_000 })] } })],
    [7, 'sent, though a person had said no', evidence([told({ intent: { ...asking, verdict: 'reject' }, verdicts: [verdict('approve'), verdict('reject')] })], { books: { credits: [credit({ amount: 15_000 })] } })],
    [9, 'an operation that is still open', evidence([told()], { ledger: [operation('op_1', 'unknown')] })],
    [9, 'a call without an end', evidence([told({ said: [said({ disposition: 'unknown', http: 202, next: 'wait', outcome: 'unknown' })], final: null })])],
    [9, 'a person asked about what the evidence shows', evidence([told()], { history: { ...newHistory(), told: [told()], quietAt: 1_000, reviews: [{ key: 'op_1', reason: 'CONTRADICTED' }] } })],
    [9, 'an end that comes too late', evidence([told({ said: [said({ at: 90_000 })] })])],
  ];
  it.each(broken)('broken at %i, %s: it is found', (invariant, _, run) => { expect(numbers(check(run))).toContain(invariant); });
});

describe('what is found', () => {
  it('tells of an operation that is still open what it was meant for, its generations, what its callers and its people were told', () => {
    const parked = { intent: { args: { order_id: 'O-1', amount: 15_000, currency: 'GBP' }, verdict: 'reject' as const }, step: { n: 48, givesUp: true }, cut: 2 };
    const run = evidence([told({ ...parked, said: [refused('unavailable', 503, 'UNAVAILABLE')], final: null,
      verdicts: [{ approval: 'apr_1', decision: 'reject', by: 'application', http: 503, summary: 'Credit 15000 GBP to O-1', digest: 'd' }] })], {
      books: { credits: [] }, ledger: [
        operation('op_1', 'cancelled', { args: parked.intent.args, reason: 'APPROVAL_REJECTED', receipts: [decided] }),
        operation('op_2', 'parked', { args: parked.intent.args, generation: 2, receipts: [{ ...decided, disposition: 'approval_required' }] }), operation('op_9')],
    });
    const [found, ...others] = check(run);
    expect(others).toEqual([]);
    for (const part of [
      'op_2 is still parked', 'session s', 'op_1 generation 1 cancelled APPROVAL_REJECTED', 'op_2 generation 2 parked', 'decision approval_required', 'single a (issue_credit {"order_id":"O-1","amount":15000',
      'of step 48, whose caller gives up', '503 unavailable', 'cut off 2 times', 'its end was not told', 'the person says reject', 'apr_1 application reject 503',
    ]) expect(found?.what).toContain(part);
    expect(found?.what).not.toContain('op_9');
  });
});

describe('a client without a gateway', () => {
  let service: RetailService;
  beforeAll(async () => { service = await startRetailService({ port: 0 }); });
  afterAll(() => service.close());

  it('that plans again when no answer comes pays twice, and the checker says so from the books', async () => {
    await fetch(`${service.url}/_faults`, { method: 'POST', body: JSON.stringify({ tool: 'issue_credit', kind: 'commit_then_drop' }) });
    const steps = await naiveRefund(service.url, null, { orderId: 'O-420', amount: 100, customerId: 'C-17' });
    const books = await (await fetch(`${service.url}/_books`)).json() as Books;
    const [last] = books.credits.slice(-1);
    const run = evidence([told({ intent: { args: { order_id: 'O-420', amount: 100, currency: 'GBP' } }, said: [said({ receiptId: last?.receipt_id ?? null })] })], {
      books, ledger: steps.map(({ key }) => operation(key)),
    });
    expect(numbers(check(run))).toEqual([1]);
  });
});
