/** What a call draws on (semantics.md section 5): whose purse pays, which refusals count, and what is said when it is empty. Pure. */
import { canonicalText, sha256 } from '../canonical.js';
import { problems, refuse, type Refusal } from '../errors.js';
import type { BudgetUse, Disposition, Principal } from '../model.js';
import type { Envelope } from './calls.js';
import type { BudgetLimits } from './parts.js';
import type { ExecutionBudget, Purse, SessionScope, SessionStanding } from './ports.js';

type Caller = { principal: Principal; envelope: Pick<Envelope, 'subject' | 'sessionId' | 'intentId'> };

export function sessionScope({ principal, envelope: { subject, sessionId, intentId } }: Caller): SessionScope {
  return {
    id: sessionId,
    own: `own:${sha256(canonicalText([principal.tenant, principal.id, subject, sessionId])).toString('base64url')}`,
    task: intentId === '' ? `session:${sessionId}` : `intent:${intentId}`,
  };
}

const dayMs = 86_400_000;
let today = { day: 0, text: '' };

/** Pays for executions in sessions that the application did not create. */
export function dailyPurse(principal: Principal): string {
  const day = Math.floor(Date.now() / dayMs);
  if (day !== today.day) today = { day, text: new Date(day * dayMs).toISOString().slice(0, 10) };
  return `principal:${principal.id}:${today.text}`;
}

export function executionBudget(principal: Principal, standing: SessionStanding | null, limits: BudgetLimits): ExecutionBudget {
  const root = standing?.root ?? null;
  return {
    scope: root === null ? dailyPurse(principal) : `session:${root}`,
    quota: root === null ? limits.executionsPerPrincipalPerDay : limits.executionsPerSession,
    opened: (standing?.executions ?? null) !== null,
  };
}

/** As it stood when the call was looked up. */
export function executionUse(standing: SessionStanding | null, limits: BudgetLimits): BudgetUse {
  const created = (standing?.root ?? null) !== null;
  const limit = created ? limits.executionsPerSession : limits.executionsPerPrincipalPerDay;
  return usedExecutions(created, standing?.executions ?? { limit, used: 0 });
}

function usedExecutions(created: boolean, { limit, used }: Purse): BudgetUse {
  return { kind: 'executions', of: created ? 'session' : 'principal', per: created ? 'session' : 'day', limit, used };
}

export function noExecutionsLeft(standing: SessionStanding | null, purse: Purse): Refusal {
  const created = (standing?.root ?? null) !== null;
  const { limit, used } = purse;
  return refuse('BUDGET_EXHAUSTED', created
    ? `The executions of this session are used up: ${used} of ${limit}. Nothing was sent. The application can raise the limit; tell the user what is left undone.`
    : `The executions of this caller for today are used up: ${used} of ${limit}. Nothing was sent.`, {
    next: created ? 'escalate' : 'abandon', budget: usedExecutions(created, purse),
  });
}

export function noProposalsLeft(tool: string, { intentId }: Pick<Envelope, 'intentId'>, { limit, used }: Purse): Refusal {
  const task = intentId === '' ? 'in this session' : 'for this intent';
  return refuse('BUDGET_EXHAUSTED', `\`${tool}\` was refused ${used} times ${task}, and the limit is ${limit}. Do not propose it again; tell the user what is missing.`, {
    next: 'abandon', budget: { kind: 'proposals', of: 'session', per: 'tool and intent', limit, used, tool, intent_id: intentId || null },
  });
}

export function noTurnsLeft({ limit, used }: Purse): Refusal {
  return refuse('BUDGET_EXHAUSTED', `The turns of this session are used up: ${used} of ${limit}. Nothing was sent. Tell the user how far it came.`, {
    next: 'escalate', budget: { kind: 'turns', of: 'session', per: 'session', limit, used },
  });
}

/** Verdicts of the guard over a proposal. What stands beside them is an answer about an operation, a budget, or a fault of nobody here. */
const verdicts: ReadonlySet<Disposition> = new Set([
  'blocked_tool', 'invalid_arguments', 'id_conflict', 'denied', 'precondition_failed', 'transition_error', 'version_required', 'version_conflict', 'rejected',
]);

/** `wait` and `retry` tell the caller to send the very same again, which is no new proposal. */
export function countsAsProposal(refusal: Refusal): boolean {
  const problem = problems[refusal.refused];
  const next = refusal.next ?? problem.next;
  return verdicts.has(problem.disposition) && next !== 'wait' && next !== 'retry' && !refusal.refused.startsWith('PREDECESSOR_');
}
