/**
 * Results that may carry injected text. A session that has been told one is marked in the ledger, in the commit that records the answer, so
 * before the answer leaves; from then on `session.untrusted` and `context.untrusted` are true in it, on every replica.
 */
import type { ToolPlan } from '../contract/plan.js';
import type { Mark } from './ports.js';

/** Whether what this tool tells comes from a source that is marked: its own answer, or the read-back that its answer is put together from. */
export function tellsUntrusted({ untrusted, readback }: ToolPlan): boolean {
  return untrusted || (readback !== null && readback.result !== null && readback.tool.untrusted);
}

/** What a commit carries that tells of it. */
export function marking(tool: ToolPlan, session: Omit<Mark, 'tool'>): { mark?: Mark } {
  if (!tellsUntrusted(tool)) return {};
  const { tenant, principal, subject, sessionId } = session;
  return { mark: { tenant, principal, subject, sessionId, tool: tool.name } };
}
