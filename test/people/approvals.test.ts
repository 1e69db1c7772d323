import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RenderedRequest } from '../../src/contract/plan.js';
import { LedgerUnavailable } from '../../src/errors.js';
import type { Joints } from '../../src/main.js';
import type { JsonObject } from '../../src/model.js';
import { type Agent, type CallBody, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from '../recovery/many-orders.js';
import { until } from '../recovery/process.js';
import { openTcpProxy } from '../recovery/tcp-proxy.js';
import { calmEnv } from './reviews.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

const contractsOf = (changes: [string, string][]): string => calmEnv(changes)['CALLGATE_CONTRACTS_FOLDER'] as string;

interface Approval {
  id: string; state: string; digest: string; summary: string; by: string; needed: number; approved_by: string[]; expires_at: string; arguments: object; operation_id: string;
  ended: { by: string; at: string } | null;
}

/**
 * A person approves exactly what is sent, once, in time, and somebody else than the one who asks (invariant 7; cases 39, 41, 42). If this is lost, what
 * was approved is not what runs, or runs twice, or runs a week later.
 */
describe('approvals', () => {
  let house: House;
  let open: Opened;
  let n = 0;
  const sent: RenderedRequest[] = [];
  const listening: Joints = {
    upstream: (upstream) => ({
      send(request, options) {
        if (request.method !== 'GET') sent.push(request);
        return upstream.send(request, options);
      },
      close: () => upstream.close(),
    }),
  };
  const shortLived = contractsOf([['by: application, expires: 10m', 'by: application, expires: 1s']]);
  beforeAll(async () => {
    house = await openHouse(calmEnv());
    open = await openGateway(house, {}, listening);
  });
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
  });

  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  const desk = (key: keyof House['keys'], of: Opened = open): Agent => of.control(house.keys[key]);
  const approvalOf = async (id: string, of: Opened = open): Promise<Approval> => (await desk('auditor', of).get(`/v1/approvals/${id}`)) as unknown as Approval;
  const decide = (by: Agent, id: string, verdict: object): Promise<Sent> => by.post(`/v1/approvals/${id}/decision`, JSON.stringify(verdict));
  const decideNow = async (by: Agent, id: string, decision: string, more: object = {}): Promise<Sent> =>
    decide(by, id, { decision, expected_digest: (await approvalOf(id)).digest, ...more });
  interface Parked { answer: Sent; id: string; operation: string; order: string; call: CallBody; again(change?: CallBody): Promise<Sent> }
  /** Over 10,000 an application approves; over 40,000 two reviewers. */
  async function parked(amount = 15_000, of: Opened = open): Promise<Parked> {
    const order = extraOrder(n++);
    const call = { session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order, amount } };
    const answer = await of.agent.credit(call);
    expect(answer).toMatchObject({ http: 202, disposition: 'approval_required' });
    return {
      answer, id: answer.approval?.id as string, operation: answer.operation_id as string, order, call,
      again: (change = {}) => of.agent.credit({ ...call, ...change }),
    };
  }

  it('a call that needs one waits before anything is sent, holds nobody up, and equal calls find it', async () => {
    const before = sent.length;
    const { answer, id, operation, order, call, again } = await parked();
    expect(answer).toMatchObject({
      outcome: null, next_action: 'ask', verified: false, result: null,
      approval: { id, by: 'application', digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as string, summary: `Credit 15000 GBP to ${order}`, expires_at: expect.stringMatching(/Z$/) as string },
    });
    expect(await again()).toMatchObject({ disposition: 'approval_required', operation_id: operation, approval: answer.approval });
    expect(await again({ call_id: 'c-2' })).toMatchObject({ disposition: 'approval_required', operation_id: operation, duplicate_of: 'c-1' });
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'approval_required', approval: answer.approval });
    expect(await open.control().get('/v1/approvals?limit=500')).toMatchObject({ items: expect.arrayContaining([expect.objectContaining({ id, state: 'pending', by: 'application', needed: 1 })]) as object });
    expect(await approvalOf(id)).toMatchObject({ state: 'pending', arguments: { order_id: order, amount: 15_000 }, summary: answer.approval?.summary });
    expect(sent.length).toBe(before);
    expect(await open.agent.credit({ ...call, call_id: 'c-3', arguments: { order_id: order, amount: 100 } })).toMatchObject({ disposition: 'executed' });
  });

  it('approved: the gateway sends the bytes that were approved, once, and who waits is told', async () => {
    const { id, operation, order, again } = await parked();
    const before = sent.length;
    const waiting = open.agent.get(`/v1/operations/${operation}`, { prefer: 'wait=20' });
    expect(await decideNow(desk('application'), id, 'approve')).toMatchObject({ http: 200, approved_by: ['application'] });
    expect(await waiting).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true, result: { amount: 15_000 } });
    expect(await again()).toMatchObject({ disposition: 'replayed', operation_id: operation });
    expect(sent.slice(before)).toHaveLength(1);
    expect(JSON.parse(sent[before]?.body ?? '')).toEqual({ amount: 15_000, currency: 'GBP', customer_id: 'C-17' });
    expect(sent[before]?.headers).toMatchObject({ 'idempotency-key': operation });
    expect(await creditsOf(order)).toMatchObject([{ amount: 15_000, key: operation }]);
    expect(await approvalOf(id)).toMatchObject({ state: 'used' });
    const { receipts } = (await open.control().get(`/v1/operations/${operation}`)) as unknown as { receipts: { kind: string; disposition: string; approval?: { id: string } }[] };
    expect(receipts.map(({ kind, disposition, approval }) => [kind, disposition, approval?.id])).toEqual([
      ['decision', 'approval_required', id], ['decision', 'approval_required', id], ['decision', 'executed', id], ['effect', 'executed', undefined],
    ]);
  });

  it('the strictest rule that applies: two different reviewers, and no application', async () => {
    const { answer, id, operation, order } = await parked(45_000);
    expect(answer).toMatchObject({ next_action: 'escalate', approval: { by: 'reviewer' } });
    expect(await decideNow(desk('application'), id, 'approve')).toMatchObject({ http: 403, code: 'NOT_AN_APPROVER' });
    expect(await decideNow(desk('reviewer'), id, 'approve')).toMatchObject({ http: 200, state: 'pending', approved_by: ['reviewer-1'] });
    expect(await decideNow(desk('reviewer'), id, 'approve')).toMatchObject({ http: 409, code: 'ALREADY_DECIDED' });
    expect(await creditsOf(order)).toEqual([]);
    expect(await decideNow(desk('secondReviewer'), id, 'approve')).toMatchObject({ http: 200, approved_by: ['reviewer-1', 'reviewer-2'] });
    expect(await open.agent.settled(operation)).toMatchObject({ disposition: 'executed', verified: true });
    expect(await decideNow(desk('reviewer'), id, 'approve')).toMatchObject({ http: 409, code: 'ALREADY_DECIDED' });
    expect(await creditsOf(order)).toHaveLength(1);
  });

  it('by the client: the application answers for it here, and the agent itself cannot', async () => {
    const asked = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: contractsOf([['by: application, expires: 10m', 'by: client, expires: 10m']]) }, listening);
    try {
      const { answer, id, operation, order } = await parked(15_000, asked);
      expect(answer).toMatchObject({ next_action: 'ask', approval: { by: 'client', summary: `Credit 15000 GBP to ${order}` } });
      const verdict = { decision: 'approve', expected_digest: answer.approval?.digest };
      expect(await decide(desk('agent', asked), id, verdict)).toMatchObject({ http: 403, code: 'WRONG_PLANE' });
      expect(await asked.agent.post(`/v1/approvals/${id}/decision`, JSON.stringify(verdict))).toMatchObject({ http: 404, code: 'ROUTE_NOT_FOUND' });
      expect(await creditsOf(order)).toEqual([]);
      expect(await decide(desk('application', asked), id, verdict)).toMatchObject({ http: 200, approved_by: ['application'] });
      await until(async () => (await asked.agent.get(`/v1/operations/${operation}`)).disposition !== 'approval_required', 15_000);
      expect(await asked.agent.settled(operation)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await creditsOf(order)).toHaveLength(1);
    } finally {
      await asked.gateway.close();
    }
  });

  it('taken back after it was approved and before it is sent, it is never sent; afterwards it is too late', async () => {
    let away = false;
    const remote = await openGateway(house, { CALLGATE_APPROVALS_DISPATCH_TRIES: '1000', CALLGATE_RECONCILE_BACKOFF_FIRST: '50ms' }, {
      upstream: (upstream) => ({
        send: (request, options) => (away && request.method === 'GET' ? Promise.resolve({ kind: 'failure', sent: false, reason: 'refused', ms: 1 }) : upstream.send(request, options)),
        close: () => upstream.close(),
      }),
    });
    await open.gateway.close(); // or it would be the one that sends
    try {
      const { id, operation, order } = await parked(15_000, remote);
      const { digest } = await approvalOf(id, remote);
      away = true;
      expect(await decide(desk('application', remote), id, { decision: 'approve', expected_digest: digest })).toMatchObject({ http: 200, state: 'approved' });
      let taken: Sent;
      do taken = await decide(desk('reviewer', remote), id, { decision: 'revoke', reason: 'the customer called', expected_digest: digest });
      while (taken.code === 'IN_PROGRESS');
      expect(taken).toMatchObject({ http: 200, state: 'revoked', ended: { by: 'reviewer-1', because: 'the customer called' } });
      away = false;
      expect(await remote.agent.get(`/v1/operations/${operation}`)).toMatchObject({ http: 403, code: 'APPROVAL_REVOKED', outcome: 'not_committed' });
      const next = await parked(15_000, remote); // which is sent after it would have been
      const verdict = { expected_digest: (await approvalOf(next.id, remote)).digest };
      await decide(desk('application', remote), next.id, { decision: 'approve', ...verdict });
      await until(async () => (await approvalOf(next.id, remote)).state === 'used', 15_000);
      expect(await decide(desk('application', remote), next.id, { decision: 'revoke', ...verdict })).toMatchObject({ http: 409, code: 'ALREADY_DECIDED', detail: expect.stringContaining('has been sent') as string });
      expect(await creditsOf(order)).toEqual([]);
      await until(async () => (await creditsOf(next.order)).length === 1, 15_000);
    } finally {
      await remote.gateway.close();
      open = await openGateway(house, {}, listening);
    }
  });

  it('nobody approves what they proposed, what they did not look at, or what is none of theirs', async () => {
    const { id, order } = await parked(45_000);
    const { digest } = await approvalOf(id);
    const verdict = { decision: 'approve', expected_digest: digest };
    for (const key of ['proposingReviewer', 'subjectReviewer'] as const) expect(await decide(desk(key), id, verdict)).toMatchObject({ http: 403, code: 'DISTINCT_PERSON_REQUIRED' });
    for (const key of ['auditor', 'admin'] as const) expect(await decide(desk(key), id, verdict)).toMatchObject({ http: 403, code: 'FORBIDDEN' });
    for (const key of ['agent', 'otherTenant'] as const) expect(await decide(desk(key), id, verdict)).toMatchObject({ http: 403, code: 'WRONG_PLANE' });
    expect(await decide(desk('reviewer'), id, { ...verdict, expected_digest: `sha256:${'0'.repeat(64)}` })).toMatchObject({ http: 409, code: 'EVIDENCE_CHANGED' });
    expect(await decide(desk('reviewer'), id, { decision: 'maybe', expected_digest: digest })).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    expect(await decide(desk('reviewer'), 'apr_nothing', verdict)).toMatchObject({ http: 404, code: 'APPROVAL_NOT_FOUND' });
    expect(await approvalOf(id)).toMatchObject({ state: 'pending', approved_by: [] });
    expect(await creditsOf(order)).toEqual([]);
  });

  it('rejected and revoked: nothing is sent, the budget is given back, and the same call may be proposed anew', async () => {
    const used = async (): Promise<number> => {
      const db = new pg.Client({ connectionString: house.databaseUrl });
      await db.connect();
      const { rows: [row] } = await db.query<{ used: number }>(`select sum(used)::integer as used from budgets where scope like 'principal:agent-1:%' and kind = 'executions'`);
      await db.end();
      return row?.used ?? 0;
    };
    for (const [decision, code] of [['reject', 'APPROVAL_REJECTED'], ['revoke', 'APPROVAL_REVOKED']] as const) {
      const before = await used();
      const { id, operation, order, again } = await parked();
      expect(await used()).toBe(before + 1);
      expect(await decideNow(desk('application'), id, decision, { reason: 'not this month' })).toMatchObject({ http: 200, ended: { by: 'application', because: 'not this month' } });
      expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ http: 403, disposition: 'denied', code, next_action: 'ask' });
      expect(await used()).toBe(before);
      expect(await decideNow(desk('application'), id, 'approve')).toMatchObject({ http: 409, code: 'ALREADY_DECIDED', detail: expect.stringContaining('application') as string });
      expect(await creditsOf(order)).toEqual([]);
      const second = await again();
      expect(second).toMatchObject({ disposition: 'approval_required' });
      expect(second.operation_id).not.toBe(operation);
    }
  });

  it('case-41: past its deadline it cannot be approved, whether or not anybody has swept, and its callers are told', async () => {
    const brief = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: shortLived, CALLGATE_RECONCILE_SWEEP_INTERVAL: '1m' });
    try {
      const { id, operation, order } = await parked(15_000, brief);
      const { digest } = await approvalOf(id, brief);
      await until(async () => (await approvalOf(id, brief)).state === 'expired', 10_000);
      expect(await decide(desk('application', brief), id, { decision: 'approve', expected_digest: digest })).toMatchObject({ http: 410, code: 'APPROVAL_EXPIRED' });
      expect(await decide(desk('application', brief), id, { decision: 'reject', expected_digest: digest })).toMatchObject({ http: 410, code: 'APPROVAL_EXPIRED' });
      const { items } = (await desk('auditor', brief).get('/v1/approvals?limit=500')) as unknown as { items: Approval[] };
      expect(items.map((one) => one.id)).not.toContain(id);
      // the other gateway sweeps
      await until(async () => (await open.agent.get(`/v1/operations/${operation}`)).disposition === 'denied', 10_000);
      expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ http: 403, code: 'APPROVAL_EXPIRED', next_action: 'ask', outcome: 'not_committed' });
      expect(await creditsOf(order)).toEqual([]);
    } finally {
      await brief.gateway.close();
    }
  });

  it('approve and expire in the same moment: either it is sent, or it has expired, and never both', async () => {
    // Alone: a replica that serves other contracts would find what was approved under these stale, and may be the one to take it up.
    await open.gateway.close();
    const brief = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: shortLived });
    try {
      const all = await Promise.all(Array.from({ length: 8 }, () => parked(15_000, brief)));
      const answers = await Promise.all(all.map(async ({ id, answer }, i) => {
        const at = Date.parse(answer.approval?.expires_at as string);
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - Date.now() - 40 + i * 10)));
        return decide(desk('application', brief), id, { decision: 'approve', expected_digest: answer.approval?.digest });
      }));
      for (const [i, { operation, order }] of all.entries()) {
        const approved = answers[i]?.http === 200;
        if (!approved) expect(answers[i]).toMatchObject({ http: 410 });
        await until(async () => (await brief.agent.get(`/v1/operations/${operation}`)).disposition !== 'approval_required', 15_000);
        expect(await brief.agent.settled(operation)).toMatchObject(approved ? { disposition: 'executed' } : { code: 'APPROVAL_EXPIRED' });
        expect(await creditsOf(order)).toHaveLength(approved ? 1 : 0);
      }
    } finally {
      await brief.gateway.close();
      open = await openGateway(house, {}, listening);
    }
  });

  it('case-39, case-41: the world has moved since the proposal, so what was approved does not hold', async () => {
    const { id, operation, order, call } = await parked();
    expect(await open.agent.credit({ ...call, call_id: 'c-9', arguments: { order_id: order, amount: 100 } })).toMatchObject({ disposition: 'executed' });
    const before = sent.length;
    expect(await decideNow(desk('application'), id, 'approve')).toMatchObject({ http: 200 });
    await until(async () => (await open.agent.get(`/v1/operations/${operation}`)).disposition !== 'approval_required', 15_000);
    expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({
      http: 409, disposition: 'precondition_failed', code: 'STALE_APPROVAL', next_action: 'refresh', detail: expect.stringContaining('version') as string,
    });
    expect(sent.length).toBe(before);
    expect(await creditsOf(order)).toMatchObject([{ amount: 100 }]);
    expect(await approvalOf(id)).toMatchObject({ state: 'stale' });
  });

  it('another contract or other policies than were approved under: it is not sent', async () => {
    const { id, operation, order } = await parked();
    const { digest } = await approvalOf(id);
    const later = contractsOf([['check: args.amount <= order.refundable', 'check: args.amount <= order.refundable - 1'], ['version: 3.1.0', 'version: 3.1.1']]);
    await open.gateway.close();
    open = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: later }, listening);
    try {
      expect(await decide(desk('application'), id, { decision: 'approve', expected_digest: digest })).toMatchObject({ http: 200 });
      await until(async () => (await open.agent.get(`/v1/operations/${operation}`)).disposition !== 'approval_required', 15_000);
      expect(await open.agent.get(`/v1/operations/${operation}`)).toMatchObject({ http: 409, code: 'STALE_APPROVAL' });
      expect(await creditsOf(order)).toEqual([]);
    } finally {
      await open.gateway.close();
      open = await openGateway(house, {}, listening);
    }
  });

  it('cancelled by who proposed it, before it is approved; after it is sent it is too late', async () => {
    const first = await parked();
    expect(await open.agent.post(`/v1/operations/${first.operation}/cancel`, '')).toMatchObject({ http: 409, disposition: 'cancelled', code: 'CANCELLED' });
    expect(await decideNow(desk('application'), first.id, 'approve')).toMatchObject({ http: 410, code: 'APPROVAL_CLOSED' });
    const second = await parked();
    expect((await open.as(house.keys.otherAgent).post(`/v1/operations/${second.operation}/cancel`, '')).http).toBe(404);
    expect(await decideNow(desk('application'), second.id, 'approve')).toMatchObject({ http: 200 });
    expect(await open.agent.settled(second.operation)).toMatchObject({ disposition: 'executed' });
    expect(await open.agent.post(`/v1/operations/${second.operation}/cancel`, '')).toMatchObject({ code: 'TOO_LATE' });
    expect(await decideNow(desk('application'), second.id, 'revoke')).toMatchObject({ http: 409, code: 'ALREADY_DECIDED' });
    expect(await creditsOf(first.order)).toEqual([]);
    expect(await creditsOf(second.order)).toHaveLength(1);
  });

  it('two replicas, approvals, revocations and cancellations all at once: each call is sent at most once, and only if it was approved', async () => {
    const other = await openGateway(house, {}, listening);
    try {
      const all = await Promise.all(Array.from({ length: 12 }, () => parked()));
      const answers = await Promise.all(all.map(async ({ id, operation, answer }, i) => {
        const verdict = (decision: string) => ({ decision, expected_digest: answer.approval?.digest });
        const both = [open, other] as const;
        return Promise.all([
          ...both.map((of) => decide(desk('application', of), id, verdict('approve'))),
          ...both.map((of) => decide(desk('reviewer', of), id, verdict('approve'))),
          ...(i % 3 === 0 ? [decide(desk('secondReviewer', other), id, verdict('revoke'))] : []),
          ...(i % 3 === 1 ? [decide(desk('secondReviewer', other), id, verdict('reject'))] : []),
          ...(i % 3 === 2 ? [other.agent.post(`/v1/operations/${operation}/cancel`, '')] : []),
        ]);
      }));
      for (const [i, { operation, order }] of all.entries()) {
        await until(async () => !['approval_required', 'unknown', 'in_progress'].includes((await open.agent.get(`/v1/operations/${operation}`)).disposition), 20_000);
        const settled = await open.agent.settled(operation);
        expect(settled.disposition).toMatch(/^(executed|denied|cancelled)$/);
        expect(await creditsOf(order)).toHaveLength(settled.disposition === 'executed' ? 1 : 0);
        const approvals = (answers[i] as Sent[]).slice(0, 4).filter(({ http }) => http === 200);
        expect(approvals.length).toBeLessThanOrEqual(1);
        if (settled.disposition === 'executed') expect(approvals).toHaveLength(1);
      }
    } finally {
      await other.gateway.close();
    }
  });

  it.each(['approve', 'reject'])('whoever decided (%s) is told so, also when the ledger goes away right after it, or with its acknowledgement', async (decision) => {
    const proxy = await openTcpProxy(house.databaseUrl);
    let lost: 'nothing' | 'the ledger' | 'the acknowledgement' = 'nothing';
    const losing = async <T>(work: Promise<T>): Promise<T> => {
      const result = await work;
      if (lost === 'the acknowledgement') throw new LedgerUnavailable(new Error('lost on the way'));
      if (lost === 'the ledger') proxy.down();
      return result;
    };
    // What it decides must not be taken up by anybody in the moment in which it is looked at.
    const remote = await openGateway(house, { DATABASE_URL: proxy.url, CALLGATE_RECONCILE_SWEEP_INTERVAL: '1m' }, {
      ledger: (ledger) => ({ ...ledger, approve: (given) => losing(ledger.approve(given)), transition: (given) => losing(ledger.transition(given)) }),
    });
    try {
      for (const what of ['the ledger', 'the acknowledgement'] as const) {
        const { id, operation, order } = await parked(15_000, remote);
        const { digest } = await approvalOf(id, remote);
        lost = what;
        const told = await decide(desk('application', remote), id, { decision, expected_digest: digest });
        [lost] = ['nothing'];
        proxy.up();
        expect(told).toMatchObject(decision === 'approve' ? { http: 200, approved_by: ['application'] } : { http: 200, state: 'rejected', ended: { by: 'application' } });
        // A second decision is none, and says whose the first was.
        expect(await decide(desk('application'), id, { decision, expected_digest: digest })).toMatchObject({ http: 409, code: 'ALREADY_DECIDED', detail: expect.stringContaining('`application`') as string });
        await until(async () => (await open.agent.get(`/v1/operations/${operation}`)).disposition !== 'approval_required', 15_000);
        expect(await open.agent.settled(operation)).toMatchObject({ disposition: decision === 'approve' ? 'executed' : 'denied' });
        expect(await creditsOf(order)).toHaveLength(decision === 'approve' ? 1 : 0);
      }
    } finally {
      proxy.up();
      await remote.gateway.close();
      await proxy.close();
    }
  }, 60_000);

  it('an approved call that cannot be sent yet is tried again, and then put before a person, who can have it sent', async () => {
    let away = true;
    const remote = await openGateway(house, { CALLGATE_APPROVALS_DISPATCH_TRIES: '3', CALLGATE_RECONCILE_BACKOFF_FIRST: '50ms' }, {
      upstream: (upstream) => ({
        send: (request, options) => (away && request.method === 'GET' ? Promise.resolve({ kind: 'failure', sent: false, reason: 'refused', ms: 1 }) : upstream.send(request, options)),
        close: () => upstream.close(),
      }),
    });
    await open.gateway.close();
    try {
      away = false;
      const { id, operation, order } = await parked(15_000, remote);
      const { digest } = await approvalOf(id, remote);
      away = true;
      expect(await decide(desk('application', remote), id, { decision: 'approve', expected_digest: digest })).toMatchObject({ http: 200 });
      await until(async () => (await remote.agent.get(`/v1/operations/${operation}`)).disposition === 'review', 20_000);
      const answer = await remote.agent.get(`/v1/operations/${operation}`);
      expect(answer).toMatchObject({ code: 'NOT_DISPATCHED', outcome: 'not_committed' });
      const review = (await desk('reviewer', remote).get(`/v1/reviews/${answer.review_id}`)) as unknown as { digest: string; attempts: object[]; options: JsonObject };
      expect(review.attempts).toMatchObject(Array.from({ length: 3 }, () => ({ sent: false, reason: 'OBSERVATION_FAILED' })));
      expect(review.options).toMatchObject({ committed: { possible: false }, resend: { possible: true }, abandon: { possible: true } });
      away = false;
      const verdict = JSON.stringify({ decision: 'resend', reason: 'the shop is back', expected_digest: review.digest });
      expect(await desk('reviewer', remote).post(`/v1/reviews/${answer.review_id}/decision`, verdict)).toMatchObject({ http: 200 });
      await until(async () => (await remote.agent.get(`/v1/operations/${operation}`)).disposition !== 'approval_required', 15_000);
      expect(await remote.agent.settled(operation)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await creditsOf(order)).toHaveLength(1);
    } finally {
      await remote.gateway.close();
      open = await openGateway(house, {}, listening);
    }
  });

  it('lists what waits in the order in which it was asked, all others newest first, a page at a time, of one tenant', async () => {
    for (let i = 0; i < 3; i++) await parked();
    const list = async (query: string): Promise<Approval[]> => {
      const all: Approval[] = [];
      for (let cursor = ''; ;) {
        const page = (await desk('auditor').get(`/v1/approvals?limit=3${query}${cursor}`)) as unknown as { items: Approval[]; next_cursor: string | null };
        all.push(...page.items);
        if (page.next_cursor === null) return all;
        cursor = `&cursor=${page.next_cursor}`;
      }
    };
    const [pending, ended] = [await list(''), await list('&state=ended')];
    expect(pending.length).toBeGreaterThan(3);
    expect(new Set(pending.map(({ state }) => state))).toEqual(new Set(['pending']));
    expect(pending.map(({ id }) => id)).toEqual([...pending].sort((a, b) => (a.id < b.id ? -1 : 1)).map(({ id }) => id));
    expect(new Set(ended.map(({ state }) => state)).size).toBeGreaterThan(2);
    expect(ended.some(({ state }) => state === 'pending')).toBe(false);
    expect((await list('&by=reviewer')).every(({ by }) => by === 'reviewer')).toBe(true);
    expect(await list('&tool=cancel_order')).toEqual([]);
    const first = (await desk('auditor').get('/v1/approvals?limit=1')) as unknown as { next_cursor: string };
    expect(await desk('auditor').get(`/v1/approvals?state=ended&cursor=${first.next_cursor}`)).toMatchObject({ http: 400, errors: [{ code: 'BAD_CURSOR' }] });
    expect(await desk('auditor').get('/v1/approvals?by=somebody')).toMatchObject({ http: 400 });
  });

  it('50 calls that wait cost no memory to speak of, and are decided independently', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const held = (): number => process.memoryUsage().heapUsed;
    await parked();
    collect();
    const before = held();
    const all: Parked[] = [];
    for (let i = 0; i < 50; i++) all.push(await parked());
    collect();
    expect(held() - before).toBeLessThan(40 * 1024 * 1024);
    const [, second, third] = all as [Parked, Parked, Parked];
    expect(await decideNow(desk('application'), third.id, 'approve')).toMatchObject({ http: 200 });
    await until(async () => (await open.agent.get(`/v1/operations/${third.operation}`)).disposition === 'executed', 15_000);
    expect((await approvalOf(second.id)).state).toBe('pending');
    expect(new Set(all.map(({ answer }) => answer.approval?.digest)).size).toBe(50);
  }, 60_000);
});
