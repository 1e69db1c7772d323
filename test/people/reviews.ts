/** Operations on their way into review, and the desk at which people decide on them. */
import type { Joints } from '../../src/main.js';
import { type Agent, type CallBody, type House, type Opened, type Sent, unique } from '../support/gateway.js';
import { until } from '../recovery/process.js';
import { changedContracts, quickEnv, settleMs } from '../recovery/quick.js';

/** Short windows, but patience with a busy machine: an attempt that was given up only because it was slow is another story. */
export const calmEnv = (more: [string, string][] = []): Record<string, string> => quickEnv({
  CALLGATE_CONTRACTS_FOLDER: changedContracts([['settle_after: 10s', `settle_after: ${settleMs}ms`], ...more]), CALLGATE_EXECUTION_SEND_WINDOW: '10s', CALLGATE_EXECUTION_LEASE: '15s',
});

/** Whether read-backs reach the service; a test switches it. */
export interface Sight { blind: boolean }

/** A gateway that sees no read-back while `sight.blind`. */
export const seeing = (sight: Sight): Joints => ({
  upstream: (upstream) => ({
    send: (request, options) => (sight.blind && request.url.includes('/credits?')
      ? Promise.resolve({ kind: 'failure', sent: true, reason: 'reset', ms: 1 })
      : upstream.send(request, options)),
    close: () => upstream.close(),
  }),
});

export interface Case { call: CallBody; operation: string; review: string }

/** A credit whose answer is lost by `fault`, in review because nothing could be read back in time. */
export async function intoReview(house: House, open: Opened, sight: Sight, order: string, fault: string): Promise<Case> {
  sight.blind = true;
  await house.shop.fault({ tool: 'issue_credit', kind: fault });
  const call = { session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order } };
  const first = await open.agent.credit(call);
  let answer = first;
  await until(async () => {
    answer = await open.agent.get(`/v1/operations/${first.operation_id}`);
    return answer.disposition === 'review';
  }, 15_000);
  return { call, operation: answer.operation_id as string, review: answer.review_id as string };
}

export interface Review {
  id: string; state: string; reason: string; digest: string; overdue: boolean; escalated_at: string | null;
  operation: { id: string; effect_seen: boolean }; tool: string; arguments: object; attempts: object[]; evidence: { id: string; reason: string | null; readback: object | null }[];
  options: Record<string, { possible: boolean; against: string | null }>;
  decision: { decision: string; by: string; at: string; receipt: string } | null;
}

export async function reviewOf(desk: Agent, id: string): Promise<Review> {
  return (await desk.get(`/v1/reviews/${id}`)) as unknown as Review;
}

export function decide(desk: Agent, id: string, verdict: object): Promise<Sent> {
  return desk.post(`/v1/reviews/${id}/decision`, JSON.stringify({ reason: 'looked it up', evidence: 'ticket 4711', ...verdict }));
}

/** Decides on the evidence as it stands. */
export async function decideNow(desk: Agent, id: string, verdict: object): Promise<Sent> {
  return decide(desk, id, { expected_digest: (await reviewOf(desk, id)).digest, ...verdict });
}
