/**
 * Problem documents (RFC 9457) for what goes wrong in http itself: no credential, wrong plane, no such route, a body
 * that is no JSON or too large. Refusals of a call come from the gate, in the same shape.
 */
import { type Problem, problems, type Refusal } from '../errors.js';
import type { Answer, Disposition } from '../model.js';

/** An answer with all members of a problem document. `incident_id` (on `INTERNAL` alone) finds our log entry. */
export type ProblemDocument = Answer & { type: string; title: string; status: number; detail: string; code: string; incident_id?: string };

/** These always tell how long to pause, so that a client never has to guess (protocol.md, the table of dispositions). */
const alwaysPauses: ReadonlySet<Disposition> = new Set(['in_progress', 'rate_limited', 'unavailable']);
const defaultPauseMs = 1000;

export function problemAnswer(refusal: Refusal, incidentId?: string): ProblemDocument {
  const problem: Problem = problems[refusal.refused];
  return {
    type: `/docs/problems/${refusal.refused}`,
    title: problem.title,
    status: problem.status,
    detail: refusal.detail,
    code: refusal.code ?? refusal.refused,
    errors: refusal.errors ?? [],
    disposition: problem.disposition,
    next_action: refusal.next ?? problem.next,
    call_id: null,
    operation_id: null,
    tool: null,
    contract: null,
    outcome: null,
    verified: false,
    evidence_of_change: false,
    result: null,
    states: refusal.states ?? {},
    legal_actions: refusal.legalActions ?? [],
    receipts: { decision: null, effect: null },
    repaired: [],
    retry_after_ms: refusal.retryAfterMs ?? (alwaysPauses.has(problem.disposition) ? defaultPauseMs : null),
    trace: [],
    ...(refusal.nearestTools && { nearest_tools: refusal.nearestTools }),
    ...(refusal.budget && { budget: refusal.budget }),
    ...(incidentId !== undefined && { incident_id: incidentId }),
  };
}

/**
 * The header Retry-After in whole seconds, at least 1; null where there must be none: waiting refills no budget, and
 * a pause there would only make client libraries re-send on their own.
 */
export function retryAfterSeconds(answer: Answer): number | null {
  if (answer.disposition === 'budget_exhausted') return null;
  const pauseMs = answer.retry_after_ms ?? (alwaysPauses.has(answer.disposition) ? defaultPauseMs : null);
  return pauseMs === null ? null : Math.max(1, Math.ceil(pauseMs / 1000));
}

/** Client libraries re-send 409, 429 and 5xx by themselves unless they are told not to (case-02). */
export function forbidsResend(answer: Answer): boolean {
  return answer.disposition === 'budget_exhausted' || (answer.next_action !== 'retry' && answer.next_action !== 'wait');
}
