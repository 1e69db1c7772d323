import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { openPayouts, payoutContracts, type Payouts } from './payouts.js';

/**
 * A list that was done in part can be brought to its end: what failed is tried again by the gateway or by a call about it alone, and nothing that
 * was done is done twice, however the list around it is put together. If this is lost, the payees of a month are paid twice because one of
 * them could not be paid at once, or one is never paid.
 */
describe('items of a list', () => {
  let house: House;
  let payouts: Payouts;
  let one: Opened;
  let two: Opened;
  beforeAll(async () => {
    payouts = await openPayouts();
    process.env['PAYOUTS_URL'] = payouts.url;
    house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: payoutContracts(), CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms', CALLGATE_EXECUTION_PATIENCE: '5s', PAYOUTS_URL: payouts.url });
    [one, two] = [await openGateway(house), await openGateway(house)];
  });
  beforeEach(() => payouts.reset());
  afterAll(async () => {
    await Promise.all([one.gateway.close(), two.gateway.close()]);
    await Promise.all([payouts.close(), house.close()]);
  });

  const payees = (refs: string[]): { ref: string; amount: number }[] => refs.map((ref) => ({ ref, amount: 100 }));
  const pay = (intent: string, refs: string[], change: object = {}, open = one): Promise<Sent> =>
    open.agent.call({ session_id: `s-${intent}`, intent_id: intent, call_id: unique('c'), tool: 'pay_out', arguments: { month: '2026-11', payees: payees(refs) }, ...change });
  const paid = (): string[] => payouts.books.map(({ ref }) => ref).sort();
  const outcomes = ({ items = [] }: Sent): Record<string, string> => Object.fromEntries(items.map(({ key, outcome }) => [key, outcome]));

  it('what may be done still is sent again by the gateway: the same bytes under the same key, one operation', async () => {
    payouts.stubborn = { b: { times: 1, says: 'busy' } };
    const answer = await pay(unique('i'), ['a', 'b', 'c']);
    expect(answer).toMatchObject({ disposition: 'executed', next_action: 'continue', partial: false, item_counts: { total: 3, committed: 3, failed: 0, unknown: 0 } });
    expect(answer.retry_with).toBeUndefined();
    expect(paid()).toEqual(['a', 'b', 'c']);
    expect(payouts.posts).toEqual([answer.operation_id, answer.operation_id]);
  });

  it('within its budgets; then the answer has the call about the failed items alone, and that one is another operation', async () => {
    payouts.stubborn = { b: { times: 4, says: 'busy' }, c: { times: 1, says: 'failed' } };
    const intent = unique('i');
    const first = await pay(intent, ['a', 'b', 'c']);
    expect(payouts.posts).toHaveLength(3);
    expect(outcomes(first)).toEqual({ a: 'committed', b: 'failed', c: 'committed' });
    expect(first).toMatchObject({ disposition: 'executed', partial: true, retry_with: { tool: 'pay_out', arguments: { month: '2026-11', payees: payees(['b']) } }, detail: expect.stringContaining('retry_with') as string });
    const second = await one.agent.call({ session_id: `s-${intent}`, intent_id: intent, call_id: unique('c'), ...first.retry_with });
    expect(second).toMatchObject({ disposition: 'executed', partial: false });
    expect(second.operation_id).not.toBe(first.operation_id);
    expect(paid()).toEqual(['a', 'b', 'c']);
    // Whoever proposes the whole again is told what became of the whole.
    expect(await pay(intent, ['a', 'b', 'c'])).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, partial: true });
    expect(paid()).toEqual(['a', 'b', 'c']);
  });

  it('a service that says no is not asked again, and its items can be tried as often as it is proposed', async () => {
    payouts.stubborn = { b: { times: 2, says: 'failed' } };
    const intent = unique('i');
    const first = await pay(intent, ['a', 'b']);
    expect(payouts.posts).toHaveLength(1);
    expect(first).toMatchObject({ partial: true, item_counts: { committed: 1, failed: 1 } });
    const second = await pay(intent, ['b']);
    expect(second).toMatchObject({ disposition: 'executed', partial: true, evidence_of_change: false, item_counts: { total: 1, committed: 0, failed: 1 }, retry_with: { arguments: { payees: payees(['b']) } } });
    // Nothing of it was done: the same call id is answered as before, another one tries again.
    expect(await pay(intent, ['b'], { call_id: second.call_id })).toMatchObject({ disposition: 'replayed', operation_id: second.operation_id });
    const third = await pay(intent, ['b']);
    expect(third).toMatchObject({ disposition: 'executed', partial: false, item_counts: { total: 1, committed: 1, failed: 0 } });
    expect(third.operation_id).not.toBe(second.operation_id);
    expect(paid()).toEqual(['a', 'b']);
  });

  it('items that are done are refused by name, with the call about the others; nothing is sent', async () => {
    const intent = unique('i');
    await pay(intent, ['a', 'b']);
    const mixed = await pay(intent, ['c', 'a', 'd', 'b']);
    expect(mixed).toMatchObject({
      http: 409, disposition: 'precondition_failed', code: 'ITEMS_ALREADY_DONE', next_action: 'repair',
      errors: [{ pointer: '/payees/1', code: 'already_done' }, { pointer: '/payees/3', code: 'already_done' }], retry_with: { tool: 'pay_out', arguments: { month: '2026-11', payees: payees(['c', 'd']) } },
    });
    expect(mixed.header('x-should-retry')).toBe('false');
    const all = await pay(intent, ['b']);
    expect(all).toMatchObject({ code: 'ITEMS_ALREADY_DONE', next_action: 'continue' });
    expect(all.retry_with).toBeUndefined();
    expect(payouts.posts).toHaveLength(1);
    expect(await one.agent.call({ session_id: `s-${intent}`, intent_id: intent, call_id: unique('c'), ...mixed.retry_with })).toMatchObject({ disposition: 'executed' });
    expect(paid()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('another intent, other common arguments, a deliberate repeat of another caller are effects of their own', async () => {
    const intent = unique('i');
    await pay(intent, ['a']);
    expect(await pay(unique('i'), ['a'])).toMatchObject({ disposition: 'executed' });
    expect(await pay(intent, [], { arguments: { month: '2026-12', payees: payees(['a']) } })).toMatchObject({ disposition: 'executed' });
    expect(await one.as(house.keys.otherAgent).call({ session_id: 's', intent_id: intent, tool: 'pay_out', arguments: { month: '2026-11', payees: payees(['a']) } })).toMatchObject({ disposition: 'executed' });
    expect(await pay(intent, ['a'], { idempotency_key: unique('k') })).toMatchObject({ disposition: 'executed' });
    expect(paid()).toEqual(['a', 'a', 'a', 'a', 'a']);
  });

  it('lists that share an item, at the same time on two replicas: it is done once', async () => {
    const intent = unique('i');
    const answers = await Promise.all([['a', 'b'], ['b', 'c'], ['c', 'd'], ['d', 'a']].map((refs, n) => pay(intent, refs, {}, n % 2 === 0 ? one : two)));
    expect(answers.some(({ disposition }) => disposition === 'executed')).toBe(true);
    for (const { disposition, code } of answers) expect([disposition, code]).toEqual(disposition === 'executed' ? ['executed', undefined] : ['precondition_failed', 'ITEMS_ALREADY_DONE']);
    let left = answers.flatMap(({ retry_with: rest }) => (rest ? [rest] : []));
    while (left.length > 0) left = (await Promise.all(left.map((rest) => one.agent.call({ session_id: `s-${intent}`, intent_id: intent, call_id: unique('c'), ...rest })))).flatMap(({ retry_with: rest }) => (rest ? [rest] : []));
    expect(paid()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('while the answer is lost every item is unknown; what a read-back shows of them is the answer, and what may be done still is done', async () => {
    payouts.stubborn = { b: { times: 1, says: 'busy' } };
    payouts.faults = ['drop_after'];
    const early = await pay(unique('i'), ['a', 'b'], {}, one);
    expect(early).toMatchObject({ disposition: 'executed', item_counts: { total: 2, committed: 2, failed: 0 } });
    expect(payouts.posts).toHaveLength(2);
    expect(paid()).toEqual(['a', 'b']);

    payouts.reset();
    Object.assign(payouts, { faults: ['hang_after'], blind: true });
    const waiting = await pay(unique('i'), ['x', 'y'], {}, two);
    expect(waiting).toMatchObject({ disposition: 'unknown', next_action: 'wait', item_counts: { total: 2, unknown: 2 } });
    expect(outcomes(waiting)).toEqual({ x: 'unknown', y: 'unknown' });
    payouts.blind = false;
    expect(await one.agent.settled(waiting.operation_id as string)).toMatchObject({ disposition: 'executed', item_counts: { total: 2, committed: 2 } });
    expect(payouts.posts).toHaveLength(1);
  });

  it('an item of which the service does not say what became is unknown, with the others beside it, until it says', async () => {
    payouts.pending = { b: 1_000_000 };
    payouts.stubborn = { c: { times: 9, says: 'failed' } };
    const answer = await one.agent.call({ session_id: unique('s'), tool: 'pay_out', arguments: { month: '2026-11', payees: payees(['a', 'b', 'c']) } }, { prefer: 'wait=1' });
    expect(answer).toMatchObject({ disposition: 'unknown', next_action: 'wait', items: [{ key: 'c', outcome: 'failed' }, { key: 'b', outcome: 'unknown' }, { key: 'a', outcome: 'committed' }] });
    payouts.pending = { b: 1 };
    const settled = await one.agent.settled(answer.operation_id as string);
    expect(outcomes(settled)).toEqual({ a: 'committed', b: 'committed', c: 'failed' });
    expect(payouts.posts).toHaveLength(1);
    expect(paid()).toEqual(['a', 'b']);
  });

  it.each(['422_before', '503_before', 'drop_before', 'drop_after', '500_after', 'hang_after'] as const)('%s of the second attempt denies nothing that the first one did', async (fault) => {
    payouts.stubborn = { b: { times: 1, says: 'busy' } };
    payouts.faults = [null, fault];
    const first = await pay(unique('i'), ['a', 'b']);
    const answer = first.disposition === 'unknown' ? await one.agent.settled(first.operation_id as string) : first;
    expect(answer).toMatchObject({ disposition: 'executed', outcome: 'committed' });
    expect(outcomes(answer)).toEqual({ a: 'committed', b: paid().includes('b') ? 'committed' : 'failed' });
    expect(paid().filter((ref) => ref === 'a')).toHaveLength(1);
    expect(payouts.posts.length).toBeGreaterThan(1);
    expect(new Set(payouts.posts)).toEqual(new Set([answer.operation_id]));
  });
});
