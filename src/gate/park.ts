/**
 * Instead of execute, for a call that needs an approval: one durable commit of the whole intent, but for its guard keys, and nothing is sent.
 * Whatever holds the entity until then is none of its business, so a person who takes an hour keeps nobody else from working.
 */
import { EvaluationError } from '../contract/plan.js';
import { LedgerUnavailable, refuse, type Refusal } from '../errors.js';
import { newApprovalId } from '../receipt-id.js';
import type { Told } from './answer.js';
import { approvalDigest, approvalSummary } from './approval.js';
import { noExecutionsLeft } from './budgets.js';
import type { AdmittedCall } from './calls.js';
import { type Conflict, intentOf } from './execute.js';
import type { Parts } from './parts.js';
import type { Asked, Operation, StoredAnswer } from './ports.js';
import { predicateError } from './predicate-error.js';
import type { Progress } from './progress.js';
import { redactedText } from './receipts.js';
import { callScope } from './scope.js';
import type { WaitingCall } from './waiting.js';
import { type ProposedIntent, withdraw } from './withdraw.js';

/** The operation as it waits. */
export async function park(parts: Parts, call: AdmittedCall, progress: Progress, waiting: WaitingCall): Promise<Operation | Conflict | Refusal> {
  if (parts.draining()) return refuse('DRAINING', 'This replica takes no new calls.');
  let intent: ProposedIntent;
  try {
    intent = parkedIntent(parts, call, progress);
  } catch (error) {
    if (error instanceof EvaluationError) return predicateError('http', error);
    throw error;
  }
  if (!(await waiting.begin())) return { conflict: 'given_up' };
  try {
    return await parkNow(parts, call, progress, waiting, intent);
  } catch (error) {
    // Its caller is told that it was not recorded: then nobody may approve it.
    if (error instanceof LedgerUnavailable) void withdraw(parts, call.tool, intent);
    throw error;
  }
}

async function parkNow(parts: Parts, call: AdmittedCall, progress: Progress, waiting: WaitingCall, intent: ProposedIntent): Promise<Operation | Conflict | Refusal> {
  const reservation = await parts.ledger.reserve(intent).finally(() => waiting.end());
  if (!reservation.reserved) return reservation.because === 'budget' ? noExecutionsLeft(call.session, { limit: reservation.quota, used: reservation.used }) : { conflict: reservation.because };
  waiting.leave();
  progress.decisionReceipt = intent.receipt.id;
  const { tenant, id } = intent.operation;
  return (await parts.ledger.get(tenant, id)) ?? { conflict: 'exists' };
}

function parkedIntent(parts: Parts, call: AdmittedCall, progress: Progress): ProposedIntent {
  const { approval: rule, tool, args, bound, served, principal, envelope } = call;
  if (!rule) throw new Error('parked without a rule that asks for it');
  const request = tool.render(callScope(call));
  const asked: Asked = {
    id: newApprovalId(), by: rule.by, needed: rule.approvals, summary: redactedText(parts, approvalSummary(tool, rule, args), tool.redact, args),
    digest: approvalDigest({
      tenant: principal.tenant, id: call.operationId, subject: envelope.subject, contractDigest: tool.digest, dossier: { args, bound, request },
    }, served.policy.version, rule),
  };
  const told: Told = { result: null, states: {}, legal_actions: [], approval: { id: asked.id, by: asked.by, digest: asked.digest, summary: asked.summary } };
  return intentOf(parts, call, progress, request, { asked, expiresMs: rule.expiresMs, answer: told as unknown as StoredAnswer });
}
