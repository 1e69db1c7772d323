import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Joints } from '../../src/main.js';
import type { Exchange } from '../../src/upstream/exchange.js';
import { type Agent, type CallBody, type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { decide, decideNow, reviewOf } from '../people/reviews.js';
import { type Fused, spawnFused, until } from './process.js';
import { deadlineMs, leaseMs, quickContracts, quickEnv, sendWindowMs, settleMs } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * A replica that is slow is not dead (case-13). Another one takes over by reconciling; the slow one sends nothing any more, and what it
 * still learns is not thrown away. If this is lost, a long pause of one process (a stopped container, a swapping host) pays twice.
 */
describe('a replica is stopped, another takes over, the first one wakes', () => {
  let house: House;
  let n = 0;
  beforeAll(async () => { house = await openHouse(quickEnv()); });
  afterAll(() => house.close());

  const creditsOf = async (order: string): Promise<unknown[]> => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  const countOf = async (): Promise<number> => (await house.shop.books()).requests['POST /orders/{id}/credits'] ?? 0;
  const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

  interface Scene { slow: Fused; second(joints?: Joints): Promise<Opened>; call: CallBody; order: string; before: number }
  /** Ends both, whatever happened. */
  async function scene(point: Parameters<typeof spawnFused>[1], env: Record<string, string>, play: (scene: Scene) => Promise<void>): Promise<void> {
    const order = extraOrder(n++);
    const slow = await spawnFused(house, point, { CRASH_WITH: 'SIGSTOP', CALLGATE_EXECUTION_PATIENCE: '20s', ...env });
    const opened: Opened[] = [];
    const second = async (joints: Joints = {}): Promise<Opened> => {
      const open = await openGateway(house, env, joints);
      opened.push(open);
      return open;
    };
    try {
      await play({ slow, second, order, before: await countOf(), call: { session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order } } });
    } finally {
      slow.signal('SIGKILL');
      await slow.ended;
      for (const open of opened) await open.gateway.close();
    }
  }

  it('stopped between the intent commit and the send: after its fence it sends nothing; the other replica proves absence and sends once', () =>
    scene('after_reserve', {}, async ({ slow, second, call, order, before }) => {
      const first = slow.agent.credit(call);
      await slow.stopped();
      const { agent } = await second();
      const answer = await agent.settled((await agent.credit(call, { prefer: 'wait=10' })).operation_id as string);
      expect(answer).toMatchObject({ disposition: 'executed', verified: true });
      expect(await countOf() - before).toBe(1);
      slow.signal('SIGCONT');
      expect(await first).toMatchObject({ operation_id: answer.operation_id, outcome: 'committed', result: answer.result });
      await pause(300);
      expect(await countOf() - before).toBe(1);
      expect(await creditsOf(order)).toHaveLength(1);
    }));

  it('stopped past its fence and taken over by nobody: it does not send under the old fence, and sends once under a new one', () =>
    scene('after_reserve', { CALLGATE_EXECUTION_LEASE: '10s' }, async ({ slow, second, call, order, before }) => {
      const first = slow.agent.credit(call);
      await slow.stopped();
      await pause(sendWindowMs + 100);
      slow.signal('SIGCONT');
      const answer = await first;
      expect(answer).toMatchObject({ disposition: 'executed', verified: true });
      expect(await countOf() - before).toBe(1);
      expect(await creditsOf(order)).toHaveLength(1);
      const story = await storyOf((await second()).control(), answer.operation_id as string);
      expect(story.attempts).toMatchObject([{ sent: false, reason: 'fence_passed' }, { sent: true, status: 201 }]);
    }));

  it('stopped while the service works: the other replica reads back, and both give the one answer', () =>
    scene('never', {}, async ({ slow, second, call, order, before }) => {
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 300 });
      const first = slow.agent.credit(call);
      await until(async () => (await countOf()) > before, 5_000);
      slow.signal('SIGSTOP');
      const { agent } = await second();
      const answer = await agent.credit({ ...call, call_id: 'c-2' }, { prefer: 'wait=10' });
      expect(answer).toMatchObject({ disposition: 'replayed', duplicate_of: 'c-1', outcome: 'committed', verified: true });
      slow.signal('SIGCONT');
      expect(await first).toMatchObject({ operation_id: answer.operation_id, outcome: 'committed', result: answer.result });
      expect(await countOf() - before).toBe(1);
      expect(await creditsOf(order)).toHaveLength(1);
    }));

  it('a late result of the slow replica settles what the other one could only call unknown', () =>
    scene('after_exchange', {}, async ({ slow, second, call, order, before }) => {
      const first = slow.agent.credit(call);
      await slow.stopped();
      const { agent } = await second(blind);
      const open = await agent.credit(call, { prefer: `wait=${(leaseMs + 600) / 1000}` });
      await until(async () => (await agent.get(`/v1/operations/${open.operation_id}`)).disposition === 'unknown', 5_000);
      slow.signal('SIGCONT');
      const answer = await first;
      expect(answer).toMatchObject({ outcome: 'committed', verified: true });
      expect(await agent.get(`/v1/operations/${open.operation_id}`)).toMatchObject({ disposition: 'executed', outcome: 'committed', result: answer.result });
      expect(await countOf() - before).toBe(1);
      expect(await creditsOf(order)).toHaveLength(1);
    }));

  it('case-13: a late effect of what is in review already is kept there, and a decision that was made without it finds nothing', () =>
    scene('after_exchange', { CALLGATE_RECONCILE_DEADLINE: '1s' }, async ({ slow, second, call, order }) => {
      const first = slow.agent.credit(call);
      await slow.stopped();
      const { agent, control } = await second(blind);
      const { items: [open] } = (await control().get(`/v1/operations?session_id=${call['session_id']}`)) as unknown as { items: { id: string }[] };
      const operation = open?.id as string;
      let review = '';
      await until(async () => {
        const { disposition, review_id: id } = await agent.get(`/v1/operations/${operation}`);
        review = id ?? '';
        return disposition === 'review';
      }, leaseMs + sendWindowMs + deadlineMs + settleMs + 6_000);
      const desk = control(house.keys.reviewer);
      const before = await reviewOf(desk, review);
      expect(before).toMatchObject({ operation: { effect_seen: false }, options: { abandon: { possible: true } } });
      slow.signal('SIGCONT');
      expect(await first).toMatchObject({ operation_id: operation, disposition: 'review' });
      expect(await decide(desk, review, { decision: 'abandon', expected_digest: before.digest })).toMatchObject({ http: 409, code: 'EVIDENCE_CHANGED' });
      const after = await reviewOf(desk, review);
      expect(after).toMatchObject({ id: review, state: 'open', operation: { effect_seen: true }, options: { abandon: { possible: false } } });
      expect(after.evidence).toHaveLength(before.evidence.length + 1);
      const [credit] = (await creditsOf(order)) as { receipt_id: string }[];
      expect(await decideNow(desk, review, { decision: 'committed', result: { receipt_id: credit?.receipt_id, amount: 2500 } })).toMatchObject({ http: 200 });
      expect(await agent.get(`/v1/operations/${operation}`)).toMatchObject({ disposition: 'executed', result: { receipt_id: credit?.receipt_id } });
    }));

  it('a late effect of what was called absent is contradicted: review, with a correcting receipt, and nobody is told that all is well', () =>
    scene('after_exchange', { CALLGATE_CONTRACTS_FOLDER: quickContracts([['retry: { attempts: 3, elapsed: 20s }', 'retry: { attempts: 1, elapsed: 20s }']]) },
      async ({ slow, second, call, order }) => {
        const first = slow.agent.credit(call);
        await slow.stopped();
        const { agent, control } = await second(lying);
        const { items: [open] } = (await control().get(`/v1/operations?session_id=${call['session_id']}`)) as unknown as { items: { id: string }[] };
        const absent = open?.id as string;
        await until(async () => (await agent.get(`/v1/operations/${absent}`)).disposition === 'rejected', leaseMs + sendWindowMs + deadlineMs + settleMs + 4_000);
        slow.signal('SIGCONT');
        expect(await first).toMatchObject({ operation_id: absent, disposition: 'review', code: 'CONTRADICTED', next_action: 'escalate' });
        const { state, receipts } = await storyOf(control(), absent);
        expect(state).toBe('review');
        const denied = receipts.find(({ kind, disposition }) => kind === 'effect' && disposition === 'rejected');
        expect(receipts.at(-1)).toMatchObject({ kind: 'effect', disposition: 'review', reason: 'CONTRADICTED', corrects: denied?.id });
        const { review_id: review } = await agent.get(`/v1/operations/${absent}`);
        const desk = control(house.keys.reviewer);
        expect(await reviewOf(desk, review as string)).toMatchObject({ state: 'open', reason: 'CONTRADICTED', options: { committed: { possible: true }, not_committed: { possible: false } } });
        expect(await decideNow(desk, review as string, { decision: 'committed' })).toMatchObject({ http: 200 });
        expect(await agent.get(`/v1/operations/${absent}`)).toMatchObject({ disposition: 'executed', outcome: 'committed' });
        // The service honours the key, which stays over generations without an effect: not even the lie made it pay twice.
        expect(await creditsOf(order)).toHaveLength(1);
      }));
});

interface Story { state: string; attempts: object[]; receipts: { id: string; kind: string; disposition: string }[] }
async function storyOf(control: Agent, id: string): Promise<Story> {
  return (await control.get(`/v1/operations/${id}`)) as unknown as Story;
}

/** Read-backs answered by `instead`: of a replica that cannot reach the service, or reaches a stale copy of it. */
const readBacks = (instead: Exchange): Joints => ({
  upstream: (upstream) => ({
    send: (request, options) => (request.url.includes('/credits?') ? Promise.resolve(instead) : upstream.send(request, options)),
    close: () => upstream.close(),
  }),
});
const blind = readBacks({ kind: 'failure', sent: true, reason: 'reset', ms: 1 });
const lying = readBacks({ kind: 'response', sent: true, status: 200, headers: {}, body: { json: { count: 0, amount: 0, voided: false, receipt: null } }, ms: 1 });
