import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type House, openGateway, openHouse, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { type CrashPoint, spawnFused, until } from './process.js';
import { deadlineMs, leaseMs, quickEnv, sendWindowMs, settleMs } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * The crash matrix of semantics.md section 6, one replica: killed at exactly that point, started again, sent again. If a row is lost, a
 * crash pays twice, or holds an order hostage for ever (case-12), or forgets a refund that was given.
 */
interface Row {
  killed: string;
  at: CrashPoint;
  fault?: { kind: string; ms?: number };
  /** `arrival`: from outside, when the request has reached the service. */
  by?: 'arrival';
  /** Requests of the tool that the service then has had: 2 where absence was proven and it was sent again. */
  requests: number;
  /** From the restart until the answer is final, at most. */
  withinMs: number;
}

const slackMs = 1_000;
const taken = leaseMs + slackMs;
/** Absence counts from the moment after which the dead process cannot have been heard any more. */
const proven = sendWindowMs + deadlineMs + settleMs + taken;
const rows: Row[] = [
  { killed: 'before the intent commit', at: 'before_reserve', requests: 1, withinMs: slackMs },
  { killed: 'after the intent commit, before the send', at: 'after_reserve', requests: 1, withinMs: proven },
  { killed: 'during the send, before the service commits', at: 'never', by: 'arrival', fault: { kind: 'delay_commit', ms: 300 }, requests: 1, withinMs: proven },
  { killed: 'during the send, after the service committed', at: 'never', by: 'arrival', fault: { kind: 'slow_reply', ms: 600 }, requests: 1, withinMs: taken },
  { killed: 'during the send, which the service drops', at: 'after_exchange', fault: { kind: 'drop_before_commit' }, requests: 2, withinMs: proven },
  { killed: 'after the exchange, before the result is durable', at: 'after_exchange', requests: 1, withinMs: taken },
  { killed: 'after the read-back, before the result is durable', at: 'before_settle', requests: 1, withinMs: taken },
  { killed: 'after the effect receipt, before the answer', at: 'after_settle', requests: 1, withinMs: slackMs },
  { killed: 'after the outcome was called unknown', at: 'after_unknown', fault: { kind: 'commit_then_drop' }, requests: 1, withinMs: taken },
  { killed: 'while reconciling what happened', at: 'after_first_readback', fault: { kind: 'commit_then_drop' }, requests: 1, withinMs: taken },
  { killed: 'while reconciling what did not happen', at: 'after_first_readback', fault: { kind: 'drop_before_commit' }, requests: 2, withinMs: taken + settleMs },
  { killed: 'after the second intent commit, before the second send', at: 'after_resend_intent', fault: { kind: 'drop_before_commit' }, requests: 2, withinMs: proven },
];

describe('killed at any point, one replica', () => {
  let house: House;
  beforeAll(async () => { house = await openHouse(quickEnv()); });
  const measured: string[] = [];
  afterAll(async () => {
    console.log(measured.join('\n'));
    await house.close();
  });

  for (const [n, row] of rows.entries()) {
    it(`case-12, ${row.killed}: one effect, the answer is what the books say, nothing stays stuck`, async () => {
      const order = extraOrder(n);
      const session = unique('s');
      const call = { session_id: session, call_id: 'c-1', arguments: { order_id: order } };
      const countOf = async (): Promise<number> => (await house.shop.books()).requests['POST /orders/{id}/credits'] ?? 0;
      const before = await countOf();
      if (row.fault) await house.shop.fault({ tool: 'issue_credit', ...row.fault });

      const doomed = await spawnFused(house, row.at);
      const interrupted = doomed.agent.credit(call).then(() => 'answered', () => 'cut off');
      if (row.by === 'arrival') {
        await until(async () => (await countOf()) > before, 5_000);
        doomed.signal('SIGKILL');
      }
      expect(await doomed.ended).toBe('SIGKILL');
      expect(await interrupted).toBe('cut off');

      const open = await openGateway(house);
      try {
        const restarted = performance.now();
        let inProgressMs = 0;
        const answer = await finalAnswer(async () => {
          const told = await open.agent.credit(call, { prefer: 'wait=1' });
          if (told.http === 409) inProgressMs = performance.now() - restarted;
          return told;
        });
        const tookMs = performance.now() - restarted;
        // "In progress" is the word of a lease that may be alive: after it, what is known is told.
        expect(inProgressMs).toBeLessThan(taken);
        measured.push(`${row.killed}: ${Math.round(tookMs)} ms (at most ${row.withinMs})`);
        expect(answer).toMatchObject({ outcome: 'committed', verified: true, disposition: expect.stringMatching(/executed|replayed/) as string });
        expect(tookMs).toBeLessThan(row.withinMs);
        const { credits } = await house.shop.books();
        expect(credits.filter(({ order_id }) => order_id === order)).toEqual([
          { order_id: order, amount: 2500, key: answer.operation_id, receipt_id: (answer.result as { receipt_id: string }).receipt_id },
        ]);
        expect(await countOf() - before).toBe(row.requests);
        const next = await open.agent.credit({ ...call, call_id: 'c-2', arguments: { order_id: order, amount: 100 } });
        expect(next).toMatchObject({ disposition: 'executed' });
      } finally {
        await open.gateway.close();
      }
    });
  }
});

/** As a client does: the same call again while it is told to wait or to try again. */
async function finalAnswer<T extends { next_action: string }>(send: () => Promise<T>): Promise<T> {
  const end = performance.now() + 20_000;
  for (;;) {
    const answer = await send();
    if (!['wait', 'retry', 'verify'].includes(answer.next_action) || performance.now() > end) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
