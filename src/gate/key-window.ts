/** How long a service that honours keys still remembers this one, with a margin for its clock and ours (semantics.md section 4). */
import type { ToolPlan } from '../contract/plan.js';

/** Milliseconds; zero or less: a send now could be a second effect. */
export function rememberedForMs({ idempotency, upstream }: ToolPlan, sinceFirstSentMs: number): number {
  if (!idempotency) return 0;
  const { windowMs } = idempotency;
  const marginMs = Math.max(60_000, windowMs * 0.05);
  return windowMs - marginMs - upstream.deadlineMs - sinceFirstSentMs;
}
