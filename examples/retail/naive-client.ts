/**
 * What an agent loop does without a gateway, for the demonstration: when no answer comes, it plans again, and the new
 * plan is a new call with a new key. Each step is sound by itself; together they pay twice.
 */
import { randomUUID } from 'node:crypto';

export interface Refund { orderId: string; amount: number; customerId: string; timeoutMs?: number; plans?: number }
export type NaiveStep =
  | { plan: number; key: string; saw: 'answer'; status: number; body: unknown }
  | { plan: number; key: string; saw: 'no answer'; reason: string };

/** Proposes the credit until the service answers, at most `plans` (3) times; the log has one step for each proposal. */
export async function naiveRefund(serviceUrl: string, token: string | null, refund: Refund): Promise<NaiveStep[]> {
  const log: NaiveStep[] = [];
  for (let plan = 1; plan <= (refund.plans ?? 3); plan += 1) {
    const step = await propose(serviceUrl, token, refund, plan);
    log.push(step);
    if (step.saw === 'answer') break;
  }
  return log;
}

async function propose(serviceUrl: string, token: string | null, refund: Refund, plan: number): Promise<NaiveStep> {
  const { orderId, amount, customerId, timeoutMs = 2_000 } = refund;
  const key = `call_${randomUUID()}`;
  const credential: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
  try {
    const response = await fetch(`${serviceUrl}/orders/${encodeURIComponent(orderId)}/credits`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key, ...credential },
      body: JSON.stringify({ amount, currency: 'GBP', customer_id: customerId }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    return { plan, key, saw: 'answer', status: response.status, body: await response.json() };
  } catch (error) {
    const timedOut = error instanceof Error && error.name === 'TimeoutError';
    return { plan, key, saw: 'no answer', reason: timedOut ? `nothing came within ${timeoutMs} ms` : 'the connection failed before a whole answer came' };
  }
}
