import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from '../recovery/many-orders.js';
import { until } from '../recovery/process.js';
import { calmEnv, type Case, decide, decideNow, intoReview, type Review, reviewOf, seeing } from './reviews.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/**
 * What no evidence settles is settled by a person, once, on evidence that is named. If this is lost, an order stays locked for ever, or
 * somebody's click pays a customer twice.
 */
describe('the review queue', () => {
  const sight = { blind: false };
  let house: House;
  let open: Opened;
  let desk: Agent;
  let n = 0;
  beforeAll(async () => {
    house = await openHouse({ ...calmEnv(), CALLGATE_RECONCILE_DEADLINE: '1s' });
    open = await openGateway(house, {}, seeing(sight));
    desk = open.control(house.keys.reviewer);
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
  });

  const requests = async (): Promise<number> => (await house.shop.books()).requests['POST /orders/{id}/credits'] ?? 0;
  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  interface Scene extends Case { order: string; again(): Promise<Sent>; next(): Promise<Sent> }
  async function scene(fault: string): Promise<Scene> {
    const order = extraOrder(n++);
    const one = await intoReview(house, open, sight, order, fault);
    return {
      ...one, order, again: () => open.agent.credit(one.call),
      next: () => open.agent.credit({ ...one.call, call_id: 'c-2', arguments: { order_id: order, amount: 100 } }),
    };
  }

  it('shows a person everything that was kept, and what each decision would do; a look changes nothing', async () => {
    const { review, operation, order, again } = await scene('commit_then_drop');
    const seen = await reviewOf(desk, review);
    expect(seen).toMatchObject({
      id: review, state: 'open', reason: 'DEADLINE_PASSED', tool: 'issue_credit', overdue: false, escalated_at: null, decision: null,
      operation: { id: operation, effect_seen: false, idempotency_key: operation, principal: 'agent-1', subject: 'C-17' },
      arguments: { order_id: order, amount: 2500, currency: 'GBP' }, entity: { entity: `order:${order}`, state: 'DELIVERED', action: 'issue_credit' },
      attempts: [{ number: 1, sent: true, outcome: 'unknown' }], evidence: [{ kind: 'effect', disposition: 'review', reason: 'DEADLINE_PASSED' }],
    });
    expect(Object.entries(seen.options).map(([decision, { possible }]) => [decision, possible])).toEqual([
      ['committed', true], ['not_committed', true], ['resend', true], ['abandon', true],
    ]);
    expect(seen.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect((await reviewOf(desk, review)).digest).toBe(seen.digest);
    expect(await again()).toMatchObject({ disposition: 'review', next_action: 'escalate', review_id: review, http: 202 });
    expect(await open.control().get('/v1/reviews?limit=500')).toMatchObject({ items: expect.arrayContaining([expect.objectContaining({ id: review, state: 'open', operation_id: operation })]) as object });
    expect(JSON.stringify(seen)).not.toContain(house.env['RETAIL_TOKEN']);
  });

  it('committed: the service is asked once more, its answer is everybody’s, and the entity is free', async () => {
    const { review, operation, order, again, next } = await scene('commit_then_drop');
    expect((await next()).code).toBe('IN_PROGRESS');
    sight.blind = false;
    const decided = await decideNow(desk, review, { decision: 'committed' });
    expect(decided).toMatchObject({ http: 200, state: 'decided', decision: { decision: 'committed', by: 'reviewer-1', because: 'looked it up' } });
    const [credit] = await creditsOf(order);
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true, result: { receipt_id: credit?.receipt_id, amount: 2500 } });
    expect(await again()).toMatchObject({ disposition: 'replayed', operation_id: operation, result: { receipt_id: credit?.receipt_id } });
    const story = (await open.control().get(`/v1/operations/${operation}`)) as unknown as { receipts: object[] };
    expect(story.receipts.slice(-2)).toMatchObject([
      { kind: 'decision', disposition: 'executed', actor: { principal: 'reviewer-1' }, decision: 'committed', because: 'looked it up', evidence: 'ticket 4711', review: { id: review } },
      { kind: 'effect', disposition: 'executed', outcome: 'committed', verified: true, review },
    ]);
    expect(await next()).toMatchObject({ disposition: 'executed' });
    expect(await creditsOf(order)).toHaveLength(2);
  });

  it('committed on a person’s word alone: not verified, with the result that the schema admits and no other', async () => {
    const { review, operation, again } = await scene('commit_then_drop');
    expect(await decideNow(desk, review, { decision: 'committed', result: { receipt_id: 7 } })).toMatchObject({ http: 400, errors: [{ pointer: '/result' }] });
    expect(await decideNow(desk, review, { decision: 'committed', evidence: undefined })).toMatchObject({ http: 400, errors: [{ pointer: '/evidence' }] });
    expect(await decideNow(desk, review, { decision: 'committed', result: { receipt_id: 'CR-by-phone', amount: 2500 } })).toMatchObject({ http: 200 });
    const told = { outcome: 'committed', verified: false, evidence_of_change: false, result: { receipt_id: 'CR-by-phone', amount: 2500 }, next_action: 'continue' };
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'executed', ...told });
    expect(await again()).toMatchObject({ disposition: 'replayed', ...told });
  });

  it('not committed: every asker is told to retry, and the next proposal is sent under the same key', async () => {
    const { review, operation, order, again } = await scene('drop_before_commit');
    expect(await decideNow(desk, review, { decision: 'not_committed' })).toMatchObject({ http: 200 });
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'rejected', code: 'NOT_COMMITTED', next_action: 'retry', outcome: 'not_committed' });
    sight.blind = false;
    const second = await again();
    expect(second).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
    expect(second.operation_id).not.toBe(operation);
    expect(await creditsOf(order)).toMatchObject([{ key: operation }]);
  });

  it('no decision makes an effect unseen: what the service shows by then is kept, is another digest, and leaves only `committed`', async () => {
    const { review, operation, order, again } = await scene('commit_then_drop');
    const before = await reviewOf(desk, review);
    sight.blind = false;
    for (const decision of ['not_committed', 'abandon', 'resend']) {
      expect(await decide(desk, review, { decision, expected_digest: before.digest })).toMatchObject({ http: 409, code: 'EVIDENCE_CHANGED', next_action: 'refresh' });
    }
    const after = await reviewOf(desk, review);
    expect(after.digest).not.toBe(before.digest);
    expect(after).toMatchObject({ state: 'open', operation: { effect_seen: true }, evidence: [{}, { readback: { result: { count: 1, amount: 2500 } } }] });
    for (const decision of ['not_committed', 'abandon', 'resend']) {
      expect(after.options[decision]).toMatchObject({ possible: false });
      expect(await decideNow(desk, review, { decision })).toMatchObject({ http: 409, code: 'DECISION_NOT_POSSIBLE' });
    }
    expect((await again()).disposition).toBe('review');
    expect(await decideNow(desk, review, { decision: 'committed' })).toMatchObject({ http: 200 });
    expect(await creditsOf(order)).toMatchObject([{ key: operation }]);
  });

  it('send again: one request more under the same key, and its outcome is the answer', async () => {
    const { review, operation, order, again } = await scene('drop_before_commit');
    sight.blind = false;
    const before = await requests();
    expect(await decideNow(desk, review, { decision: 'resend', evidence: undefined })).toMatchObject({ http: 200, decision: { decision: 'resend' } });
    expect(await open.agent.settled(operation)).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true });
    expect(await again()).toMatchObject({ disposition: 'replayed', operation_id: operation });
    expect(await requests() - before).toBe(1);
    expect(await creditsOf(order)).toMatchObject([{ key: operation }]);
  });

  it('send again and lost again: it is found out, or comes back for another decision; it is never two effects', async () => {
    const { review, operation, order } = await scene('drop_before_commit');
    await house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    expect(await decideNow(desk, review, { decision: 'resend' })).toMatchObject({ http: 200 });
    let next: string | undefined;
    await until(async () => {
      const { disposition, review_id: id } = await open.agent.get(`/v1/operations/${operation}`);
      next = id;
      return disposition === 'review' && id !== review;
    }, 15_000);
    sight.blind = false;
    expect(await decideNow(desk, next as string, { decision: 'committed' })).toMatchObject({ http: 200 });
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'executed', verified: true });
    expect(await creditsOf(order)).toMatchObject([{ key: operation }]);
  });

  it('given up: every asker is told so, and the entity is free', async () => {
    const { review, operation, order, next } = await scene('drop_before_commit');
    expect(await decideNow(desk, review, { decision: 'abandon', evidence: { ticket: 4711, seen: 'no credit in the books' } })).toMatchObject({ http: 200 });
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ http: 409, disposition: 'cancelled', code: 'ABANDONED', next_action: 'abandon' });
    sight.blind = false;
    expect(await next()).toMatchObject({ disposition: 'executed' });
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }]);
  });

  it('two effects: a mismatch was seen, and cannot be decided away', async () => {
    sight.blind = false;
    await house.shop.fault({ tool: 'issue_credit', kind: 'double_effect' });
    const order = extraOrder(n++);
    const answer = await open.agent.credit({ session_id: `s-${order}`, call_id: 'c-1', arguments: { order_id: order } }, { prefer: 'wait=10' });
    expect(answer).toMatchObject({ disposition: 'review', code: 'MISMATCH' });
    const review = answer.review_id as string;
    expect(await reviewOf(desk, review)).toMatchObject({ operation: { effect_seen: true }, evidence: [{ readback: { result: { count: 2 } } }] });
    expect(await decideNow(desk, review, { decision: 'not_committed' })).toMatchObject({ code: 'DECISION_NOT_POSSIBLE' });
    expect(await decideNow(desk, review, { decision: 'committed' })).toMatchObject({ http: 200 });
    expect(await open.agent.get(`/v1/operations/${answer.operation_id}`)).toMatchObject({ disposition: 'executed', verified: false, result: answer.result });
  });

  it('is decided once, on the evidence that was looked at, whoever comes at the same time on whichever replica', async () => {
    const { review, operation } = await scene('drop_before_commit');
    expect(await decide(desk, review, { decision: 'abandon', expected_digest: `sha256:${'0'.repeat(64)}` })).toMatchObject({ http: 409, code: 'EVIDENCE_CHANGED', next_action: 'refresh' });
    const other = await openGateway(house, {}, seeing(sight));
    try {
      const { digest } = await reviewOf(desk, review);
      const desks = [desk, other.control(house.keys.secondReviewer), open.control(house.keys.secondReviewer), other.control(house.keys.reviewer)];
      const answers = await Promise.all(desks.flatMap((one) => ['abandon', 'not_committed', 'committed'].map((decision) => decide(one, review, { decision, expected_digest: digest }))));
      expect(answers.filter(({ http }) => http === 200)).toHaveLength(1);
      const { decision } = await reviewOf(desk, review);
      for (const { http, code, detail } of answers.filter((answer) => answer.http !== 200)) {
        expect([http, code]).toEqual([409, 'ALREADY_DECIDED']);
        expect(detail).toContain(decision?.by);
        expect(detail).toContain(decision?.at);
      }
      const story = (await open.control().get(`/v1/operations/${operation}`)) as unknown as { receipts: { kind: string; review?: object }[] };
      expect(story.receipts.filter(({ kind, review: of }) => kind === 'decision' && of)).toHaveLength(1);
    } finally {
      await other.gateway.close();
    }
  });

  it('is decided by a reviewer of the tenant who neither proposed it nor is its subject; others may look, and agents not even that', async () => {
    const { review } = await scene('drop_before_commit');
    const verdict = { decision: 'abandon', expected_digest: (await reviewOf(desk, review)).digest };
    for (const key of ['proposingReviewer', 'subjectReviewer'] as const) {
      expect(await decide(open.control(house.keys[key]), review, verdict)).toMatchObject({ http: 403, code: 'DISTINCT_PERSON_REQUIRED' });
    }
    for (const key of ['auditor', 'admin', 'application'] as const) expect(await decide(open.control(house.keys[key]), review, verdict)).toMatchObject({ http: 403, code: 'FORBIDDEN' });
    for (const key of ['agent', 'otherTenant'] as const) expect(await decide(open.control(house.keys[key]), review, verdict)).toMatchObject({ http: 403, code: 'WRONG_PLANE' });
    expect((await open.control(house.keys.application).get(`/v1/reviews/${review}`)).http).toBe(403);
    for (const key of ['auditor', 'admin'] as const) expect((await open.control(house.keys[key]).get(`/v1/reviews/${review}`)).http).toBe(200);
    expect(await desk.get('/v1/reviews/rev_nothing')).toMatchObject({ http: 404, code: 'REVIEW_NOT_FOUND' });
    expect(await decide(desk, 'rev_nothing', verdict)).toMatchObject({ http: 404, code: 'REVIEW_NOT_FOUND' });
    expect(await desk.post(`/v1/reviews/${review}/decision`, '{"decision":"maybe"}')).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    expect(await desk.post(`/v1/reviews/${review}/decision`, '{"decision":"abandon","decision":"committed"}')).toMatchObject({ http: 400, code: 'DUPLICATE_KEY' });
    expect((await reviewOf(desk, review)).state).toBe('open');
  });

  it('nor by whoever approved the call', async () => {
    const order = extraOrder(n++);
    sight.blind = true;
    await house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    const parked = await open.agent.credit({ session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order, amount: 15_000 } });
    const { id, digest } = parked.approval as { id: string; digest: string };
    expect(await desk.post(`/v1/approvals/${id}/decision`, JSON.stringify({ decision: 'approve', expected_digest: digest }))).toMatchObject({ http: 200 });
    const answer = (): Promise<Sent> => open.agent.get(`/v1/operations/${parked.operation_id}`);
    await until(async () => (await answer()).disposition === 'review', 15_000);
    const review = (await answer()).review_id as string;
    expect(await decideNow(desk, review, { decision: 'committed' })).toMatchObject({ http: 403, code: 'DISTINCT_PERSON_REQUIRED', detail: expect.stringContaining('approved it') as string });
    expect(await decideNow(open.control(house.keys.secondReviewer), review, { decision: 'committed' })).toMatchObject({ http: 200 });
    expect(await answer()).toMatchObject({ disposition: 'executed', outcome: 'committed' });
  });

  it('lists open ones in the order of their coming and decided ones newest first, a page at a time, of one tenant', async () => {
    const list = async (query: string): Promise<Review[]> => {
      const all: Review[] = [];
      for (let cursor = ''; ;) {
        const page = (await desk.get(`/v1/reviews?limit=2${query}${cursor}`)) as unknown as { items: Review[]; next_cursor: string | null };
        expect(page.items.length).toBeLessThanOrEqual(2);
        all.push(...page.items);
        if (page.next_cursor === null) return all;
        cursor = `&cursor=${page.next_cursor}`;
      }
    };
    const waiting = await list('');
    const decided = await list('&state=decided');
    expect(waiting.length).toBeGreaterThan(1);
    expect(decided.length).toBeGreaterThan(4);
    const opened = waiting.map((one) => (one as unknown as { opened_at: string }).opened_at);
    expect(opened).toEqual([...opened].sort());
    const times = decided.map(({ decision }) => decision?.at as string);
    expect(times).toEqual([...times].sort().reverse());
    expect(new Set(decided.map(({ id }) => id)).size).toBe(decided.length);
    expect(await list('&state=decided&reason=MISMATCH')).toMatchObject([{ tool: 'issue_credit', reason: 'MISMATCH' }]);
    expect(await list('&state=decided&tool=cancel_order')).toEqual([]);
    expect((await desk.get('/v1/reviews?state=odd')).http).toBe(400);
    const page = (await desk.get('/v1/reviews?limit=1')) as unknown as { next_cursor: string };
    expect((await desk.get(`/v1/reviews?state=decided&cursor=${page.next_cursor}`)).http).toBe(400);
  });
});
