import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from '../recovery/many-orders.js';
import { type CrashPoint, spawnFused, until } from '../recovery/process.js';
import { changedContracts, quickEnv, settleMs } from '../recovery/quick.js';
import { calmEnv, decideNow, intoReview, type Review, reviewOf, seeing } from './reviews.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

interface Offered extends Review { undo: { tool: string; arguments: object; digest: string; possible: boolean; against: string | null; taken_back_by: string | null } | null }
const offered = async (desk: Agent, id: string): Promise<Offered> => (await reviewOf(desk, id)) as Offered;
const order = async (desk: Agent, id: string, change: object = {}, headers: Record<string, string> = {}): Promise<Sent> =>
  desk.post(`/v1/reviews/${id}/undo`, JSON.stringify({ reason: 'given twice, says ticket 4711', expected_digest: (await offered(desk, id)).undo?.digest ?? 'none', ...change }), headers);

/**
 * Who looks at a review can have the effect taken back by the call that the contract names: once, whoever else does the same in the same
 * moment, with rights of their own. If this is lost, a refund is taken back twice, or by somebody whom no policy permits to.
 */
describe('the undo, ordered from a review', () => {
  const sight = { blind: false };
  let house: House;
  let open: Opened;
  let other: Opened;
  let n = 0;
  beforeAll(async () => {
    house = await openHouse({ ...calmEnv(), CALLGATE_RECONCILE_DEADLINE: '1s' });
    [open, other] = [await openGateway(house, {}, seeing(sight)), await openGateway(house, {}, seeing(sight))];
  });
  afterAll(async () => {
    await Promise.all([open.gateway.close(), other.gateway.close()]);
    await house.close();
  });

  const voidsOf = async (id: string): Promise<unknown[]> => (await house.shop.books()).voids.filter((one) => (one as { order_id: string }).order_id === id);
  /** Committed by a person, whose evidence the service shows by then. */
  async function decided(): Promise<{ review: string; operation: string; order: string; call: object }> {
    const id = extraOrder(n++);
    const one = await intoReview(house, open, sight, id, 'commit_then_drop');
    sight.blind = false;
    expect(await decideNow(open.control(house.keys.reviewer), one.review, { decision: 'committed' })).toMatchObject({ http: 200 });
    return { ...one, order: id };
  }

  it('it is a call of its own, bound to the effect and its receipt, by the person who ordered it', async () => {
    const desk = open.control(house.keys.reviewer);
    const { review, operation, order: id } = await decided();
    const { undo } = await offered(desk, review);
    const effect = await open.agent.get(`/v1/operations/${operation}`);
    expect(undo).toMatchObject({ ...effect.compensate, possible: true, against: null, taken_back_by: null });
    const undone = await order(desk, review);
    expect(undone).toMatchObject({ http: 200, disposition: 'executed', outcome: 'committed', verified: true, compensates: operation, tool: 'void_credit' });
    expect(await voidsOf(id)).toMatchObject([{ key: undone.operation_id }]);
    const { receipts } = (await desk.get(`/v1/operations/${undone.operation_id}`)) as unknown as { receipts: object[] };
    expect(receipts[0]).toMatchObject({
      kind: 'decision', compensates: operation, actor: { principal: 'reviewer-1', roles: ['reviewer'], subject: 'C-17' }, policy: { determining: ['reviewers-take-credits-back'] },
      ordered: { review, because: 'given twice, says ticket 4711', effect: effect.receipts.effect },
    });
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'executed', compensated_by: undone.operation_id });
    expect(await open.agent.get(`/v1/operations/${undone.operation_id}`)).toMatchObject({ compensates: operation });
    expect(await other.as(house.keys.otherAgent).get(`/v1/operations/${undone.operation_id}`)).toMatchObject({ http: 404 });
    expect((await offered(desk, review)).undo).toMatchObject({ taken_back_by: undone.operation_id });
    expect(await order(other.control(house.keys.secondReviewer), review)).toMatchObject({ http: 200, disposition: 'replayed', operation_id: undone.operation_id });
    expect(await voidsOf(id)).toHaveLength(1);
  });

  it('an effect that was seen can be taken back before it is decided', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'double_effect' });
    const id = extraOrder(n++);
    const answer = await open.agent.credit({ session_id: unique('s'), arguments: { order_id: id } }, { prefer: 'wait=10' });
    expect(answer).toMatchObject({ disposition: 'review', code: 'MISMATCH' });
    const desk = open.control(house.keys.reviewer);
    expect(await order(desk, answer.review_id as string)).toMatchObject({ disposition: 'executed', compensates: answer.operation_id });
    expect(await decideNow(desk, answer.review_id as string, { decision: 'committed' })).toMatchObject({ http: 200 });
    expect(await voidsOf(id)).toHaveLength(1);
  });

  it('once, when two people and the agent order it at the same time on two replicas', async () => {
    const { review, operation, order: id } = await decided();
    const { compensate } = await open.agent.get(`/v1/operations/${operation}`);
    const propose = (agent: Agent): Promise<Sent> => agent.call({ session_id: unique('s'), intent_id: unique('i'), call_id: unique('c'), ...compensate });
    const desks = [open, other].flatMap((at) => [at.control(house.keys.reviewer), at.control(house.keys.secondReviewer)]);
    const answers = await Promise.all([...desks.map((desk) => order(desk, review)), propose(open.agent), propose(other.agent)]);
    expect(new Set(answers.map(({ operation_id: one }) => one)).size).toBe(1);
    for (const answer of answers) expect(answer).toMatchObject({ outcome: 'committed', result: { voided: true } });
    expect(await voidsOf(id)).toHaveLength(1);
  });

  it('one that had no effect may be ordered again', async () => {
    const { review, order: id } = await decided();
    await house.shop.fault({ tool: 'void_credit', kind: '503_not_started', times: 3 });
    const desk = open.control(house.keys.reviewer);
    const first = await order(desk, review, {}, { prefer: 'wait=10' });
    expect(first).toMatchObject({ disposition: 'rejected', code: 'NOT_COMMITTED', next_action: 'retry' });
    const second = await order(desk, review);
    expect(second).toMatchObject({ disposition: 'executed' });
    expect(second.operation_id).not.toBe(first.operation_id);
    expect(await voidsOf(id)).toHaveLength(1);
  });

  it('not by whoever proposed it or is its subject, without the role, of another tenant, on another digest; nothing is sent', async () => {
    const { review, order: id } = await decided();
    for (const key of ['proposingReviewer', 'subjectReviewer'] as const) expect(await order(open.control(house.keys[key]), review)).toMatchObject({ http: 403, code: 'DISTINCT_PERSON_REQUIRED' });
    const digest = { expected_digest: (await offered(open.control(), review)).undo?.digest };
    for (const key of ['auditor', 'admin', 'application'] as const) expect(await order(open.control(house.keys[key]), review, digest)).toMatchObject({ http: 403, code: 'FORBIDDEN' });
    for (const key of ['agent', 'otherTenant'] as const) expect(await order(open.control(house.keys[key]), review, digest)).toMatchObject({ http: 403, code: 'WRONG_PLANE' });
    const desk = open.control(house.keys.reviewer);
    expect(await order(desk, review, { expected_digest: `sha256:${'0'.repeat(64)}` })).toMatchObject({ http: 409, code: 'EVIDENCE_CHANGED' });
    expect(await desk.post(`/v1/reviews/${review}/undo`, '{"reason":"no digest"}')).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    expect(await order(desk, 'rev_nothing', digest)).toMatchObject({ http: 404, code: 'REVIEW_NOT_FOUND' });
    expect(await voidsOf(id)).toEqual([]);
  });

  it('not of what was not observed, nor of what counts as not done', async () => {
    const one = await intoReview(house, open, sight, extraOrder(n++), 'drop_before_commit');
    sight.blind = false;
    const desk = open.control(house.keys.reviewer);
    expect(await order(desk, one.review)).toMatchObject({ http: 409, code: 'DECISION_NOT_POSSIBLE' });
    await decideNow(desk, one.review, { decision: 'abandon' });
    expect(await order(desk, one.review)).toMatchObject({ http: 409, code: 'DECISION_NOT_POSSIBLE' });
  });
});

describe('an undo that is not simply permitted', () => {
  const sight = { blind: false };
  const contracts = (change: [string, string][]): Record<string, string> => ({ CALLGATE_CONTRACTS_FOLDER: changedContracts([['settle_after: 10s', `settle_after: ${settleMs}ms`], ...change]) });
  const doubled = async (house: House, open: Opened, id: string): Promise<Sent> => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'double_effect' });
    return open.agent.credit({ session_id: unique('s'), arguments: { order_id: id } }, { prefer: 'wait=10' });
  };

  it('parks where its contract asks for an approval, which another person gives; it is sent once', async () => {
    const house = await openHouse({ ...calmEnv(), ...contracts([['    bind: { customer_id: principal.subject } # another', '    approval: [{ when: "true", by: reviewer }]\n    bind: { customer_id: principal.subject } # another']]) });
    const open = await openGateway(house, {}, seeing(sight));
    try {
      const answer = await doubled(house, open, extraOrder(90));
      const [desk, second] = [open.control(house.keys.reviewer), open.control(house.keys.secondReviewer)];
      const parked = await order(desk, answer.review_id as string);
      expect(parked).toMatchObject({ http: 202, disposition: 'approval_required', approval: { by: 'reviewer' }, compensates: answer.operation_id });
      expect(await order(second, answer.review_id as string)).toMatchObject({ http: 202, operation_id: parked.operation_id });
      expect((await house.shop.books()).voids).toEqual([]);
      const approve = (by: Agent): Promise<Sent> => by.post(`/v1/approvals/${parked.approval?.id}/decision`, JSON.stringify({ decision: 'approve', expected_digest: parked.approval?.digest }));
      expect(await approve(desk)).toMatchObject({ http: 403, code: 'DISTINCT_PERSON_REQUIRED' });
      expect(await approve(second)).toMatchObject({ http: 200 });
      await until(async () => (await order(desk, answer.review_id as string)).disposition === 'replayed', 15_000);
      expect((await house.shop.books()).voids).toMatchObject([{ key: parked.operation_id }]);
    } finally {
      await open.gateway.close();
      await house.close();
    }
  });

  it('is denied where policy does not permit it to the person', async () => {
    const folder = contracts([]);
    const { readFileSync, writeFileSync } = await import('node:fs');
    const file = `${folder['CALLGATE_CONTRACTS_FOLDER']}/policies/retail.cedar`;
    const text = readFileSync(file, 'utf8');
    const without = text.replace(/@id\("reviewers-take-credits-back"\)[^;]*;/, '');
    expect(without).not.toBe(text);
    writeFileSync(file, without);
    const house = await openHouse({ ...calmEnv(), ...folder });
    const open = await openGateway(house, {}, seeing(sight));
    try {
      const answer = await doubled(house, open, extraOrder(91));
      expect(await order(open.control(house.keys.reviewer), answer.review_id as string)).toMatchObject({ http: 403, disposition: 'denied', code: 'FORBIDDEN' });
      expect((await house.shop.books()).voids).toEqual([]);
    } finally {
      await open.gateway.close();
      await house.close();
    }
  });
});

/** A person's order to take something back outlives the process that took it, and is carried out once (semantics.md section 6). */
describe('killed while an ordered undo is under way', () => {
  const sight = { blind: false };
  let house: House;
  let n = 0;
  beforeAll(async () => { house = await openHouse(quickEnv({ CALLGATE_RECONCILE_DEADLINE: '1s' })); });
  afterAll(() => house.close());

  const rows: { killed: string; at: CrashPoint }[] = [
    { killed: 'before it is an intent', at: 'before_reserve' },
    { killed: 'after it is an intent, before it is sent', at: 'after_reserve' },
    { killed: 'after it was sent', at: 'after_exchange' },
    { killed: 'before it settles', at: 'before_settle' },
  ];
  it.each(rows)('$killed: ordered again it is the same operation, and taken back once', async ({ at }) => {
    const id = extraOrder(n++);
    const first = await openGateway(house, {}, seeing(sight));
    const one = await intoReview(house, first, sight, id, 'commit_then_drop');
    sight.blind = false;
    expect(await decideNow(first.control(house.keys.reviewer), one.review, { decision: 'committed' })).toMatchObject({ http: 200 });
    await first.gateway.close();

    const doomed = await spawnFused(house, at);
    await order(doomed.control(house.keys.reviewer), one.review).catch(() => 'cut off');
    expect(await doomed.ended).toBe('SIGKILL');

    const next = await openGateway(house, {}, seeing(sight));
    try {
      const desk = next.control(house.keys.secondReviewer);
      let answer = await order(desk, one.review);
      await until(async () => {
        answer = await order(desk, one.review);
        return answer.outcome === 'committed';
      }, 20_000);
      expect(answer).toMatchObject({ result: { voided: true }, compensates: one.operation });
      expect((await house.shop.books()).voids.filter((each) => (each as { order_id: string }).order_id === id)).toMatchObject([{ key: answer.operation_id }]);
    } finally {
      await next.gateway.close();
    }
  });
});
