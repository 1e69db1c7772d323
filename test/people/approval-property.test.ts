import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RenderedRequest } from '../../src/contract/plan.js';
import type { Joints } from '../../src/main.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { extraOrder } from '../recovery/many-orders.js';
import { until } from '../recovery/process.js';
import { calmEnv } from './reviews.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/** What is done to one waiting call, by whom, on which of two replicas, how much later. */
interface Deed { what: 'approve' | 'reject' | 'revoke' | 'cancel' | 'propose' | 'change' | 'lose'; by: 'application' | 'reviewer' | 'secondReviewer'; replica: 0 | 1; afterMs: number }

const deed: fc.Arbitrary<Deed> = fc.record({
  what: fc.constantFrom('approve', 'approve', 'approve', 'reject', 'revoke', 'cancel', 'propose', 'change', 'lose'),
  by: fc.constantFrom('application', 'reviewer', 'secondReviewer'), replica: fc.constantFrom(0, 1), afterMs: fc.nat(120),
});

/** One of each end that has to be met, however the others are drawn. */
const ended = (what: Deed['what']): [boolean, Deed[]] => [false, [{ what, by: 'application', replica: 0, afterMs: 0 }]];

/** Invariants 1 and 7 over all of it: whatever people, agents and the service do at the same time, there is at most one effect, only of what was approved, to the byte. */
describe('approvals, property', () => {
  let house: House;
  let both: [Opened, Opened];
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
  beforeAll(async () => {
    house = await openHouse(calmEnv([['by: application, expires: 10m', 'by: application, expires: 10s']]));
    both = [await openGateway(house, {}, listening), await openGateway(house, {}, listening)];
  });
  afterAll(async () => {
    await Promise.all(both.map(({ gateway }) => gateway.close()));
    await house.close();
  });

  it('at most one effect, only with as many different approvals as it needs, and what is sent is what was approved', async () => {
    const ends = new Set<string>();
    await fc.assert(fc.asyncProperty(fc.boolean(), fc.array(deed, { minLength: 1, maxLength: 8 }), async (large, deeds) => {
      const order = extraOrder(n++ % 110);
      const amount = (large ? 41_000 : 11_000) + n;
      const call = { session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order, amount } };
      const first = await both[0].agent.credit(call);
      expect(first.disposition).toBe('approval_required');
      const { id, digest } = first.approval as { id: string; digest: string };
      const approvers: string[] = [];
      await Promise.all(deeds.map(async ({ what, by, replica, afterMs }) => {
        await new Promise((resolve) => setTimeout(resolve, afterMs));
        const at = both[replica];
        if (what === 'cancel') return void (await at.agent.post(`/v1/operations/${first.operation_id}/cancel`, ''));
        if (what === 'propose') return void (await at.agent.credit(call, { prefer: 'wait=0' }));
        if (what === 'change') return void (await at.agent.credit({ ...call, call_id: unique('c'), arguments: { order_id: order, amount: 100 } }, { prefer: 'wait=0' }));
        if (what === 'lose') return house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
        const answer = await at.control(house.keys[by]).post(`/v1/approvals/${id}/decision`, JSON.stringify({ decision: what, expected_digest: digest }));
        if (answer.http === 200 && what === 'approve') approvers.push(by);
      }));
      const needed = large ? 2 : 1;
      const enough = new Set(approvers).size >= needed;
      if (!enough) await both[1].agent.post(`/v1/operations/${first.operation_id}/cancel`, '');
      await until(async () => !['approval_required', 'unknown', 'pending', 'in_progress'].includes((await both[1].agent.get(`/v1/operations/${first.operation_id}`)).disposition), 20_000);
      const settled = await both[1].agent.settled(first.operation_id as string);
      const requests = sent.filter(({ headers }) => headers['idempotency-key'] === first.operation_id);
      const credits = (await house.shop.books()).credits.filter(({ key }) => key === first.operation_id);
      ends.add(settled.code ?? settled.disposition);
      expect(credits).toHaveLength(settled.outcome === 'committed' ? 1 : 0);
      if (credits.length > 0 || requests.length > 0) expect(enough).toBe(true);
      for (const request of requests) {
        expect(request).toEqual(requests[0]);
        expect(JSON.parse(request.body ?? '')).toEqual({ amount, currency: 'GBP', customer_id: 'C-17' });
        expect(request.url).toContain(order);
      }
      expect(new Set(approvers).size).toBe(approvers.length);
      expect(approvers.length).toBeLessThanOrEqual(needed);
    }), { numRuns: 25, interruptAfterTimeLimit: 90_000, markInterruptAsFailure: false, examples: [ended('approve'), ended('reject'), ended('cancel')] });
    expect(ends.has('executed') && ends.size > 2, [...ends].join(' ')).toBe(true);
  }, 150_000);
});
