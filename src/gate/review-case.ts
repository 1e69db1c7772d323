/** A review as a person sees it: everything that was kept, what each decision would do, and the digest that a decision names. Pure. */
import { canonicalText, sha256 } from '../canonical.js';
import type { ToolPlan } from '../contract/plan.js';
import type { Json, JsonObject } from '../model.js';
import { rememberedForMs } from './key-window.js';
import type { ReviewCase, ReviewDecision } from './ports.js';
import type { Undo } from './undo.js';

/** What `decision` does; not null `against`: why it cannot be made. */
export interface Option { does: string; against: string | null; asksService: boolean }

const does: Record<ReviewDecision, string> = {
  committed: 'The call counts as done: every caller is told so, with the result that is given or known. Its entity is free for other calls. Nothing is sent.',
  not_committed: 'The call counts as never having happened: its callers may propose it again, which is sent under the same key. Its entity is free. Nothing is sent now.',
  resend: 'The gateway sends the same bytes once more, under the same key, and settles what comes of it.',
  abandon: 'The call is given up: its callers are told not to try again. Its entity is free. Nothing is sent.',
};
const effectSeen = 'An effect of this call was observed; it cannot be decided away. If it must be undone, that is a call of its own.';

/** @param tool null where the contract is not at hand. */
export function options({ operation }: ReviewCase, tool: ToolPlan | null): Record<ReviewDecision, Option> {
  const denial = operation.effectSeen ? effectSeen : null;
  const sent = operation.clock.sinceFirstSent !== null;
  const asksService = sent && tool?.readback !== null && operation.dossier !== null;
  const option = (decision: ReviewDecision, against: string | null): Option => ({ does: does[decision], against: tool ? against : 'The contract under which it began is not at hand.', asksService });
  return {
    committed: option('committed', sent ? null : 'It was never sent.'),
    not_committed: option('not_committed', denial),
    resend: option('resend', denial ?? (operation.dossier?.request ? null : 'The request is not kept any more.') ?? (sent && tool ? againstResend({ operation }, tool) : null)),
    abandon: option('abandon', denial),
  };
}

/** An honoured key makes a second send harmless while the service remembers it; else absence has to be proven first, which is asked when it is decided. */
function againstResend({ operation }: Pick<ReviewCase, 'operation'>, tool: ToolPlan): string | null {
  if (rememberedForMs(tool, operation.clock.sinceFirstSent ?? operation.clock.sinceCreated) > 0 || tool.readback) return null;
  return tool.idempotency
    ? 'The service may have forgotten the key by now, and there is no read-back that could prove that nothing happened.'
    : 'The service honours no key, and there is no read-back that could prove that nothing happened.';
}

/** Over everything that a decision rests on: any evidence that comes after it is another digest. */
export function evidenceDigest(of: ReviewCase): string {
  const { operation } = of;
  return `sha256:${sha256(canonicalText([
    'review', of.id, operation.id, operation.state, operation.fence, operation.reason, operation.effectSeen, operation.contractDigest,
    operation.fingerprint.toString('hex'), operation.attempts as unknown as Json, of.receipts.map((receipt) => receipt['id'] ?? null),
  ])).toString('hex')}`;
}

/** Names the call that would take the effect back: another effect, or another call, is another digest. */
export function undoDigest({ id, operation }: ReviewCase, { tool, arguments: args }: Undo): string {
  return `sha256:${sha256(canonicalText(['undo', id, operation.id, operation.effectReceipt, tool, args])).toString('hex')}`;
}

/** Null where the contract names none, or the result that its arguments need is not known. */
export function undoIn({ operation }: ReviewCase): Undo | null {
  return (operation.answer?.['compensate'] as unknown as Undo | undefined) ?? null;
}

/** What stands against ordering it; null: nothing. */
export function againstUndo({ operation }: ReviewCase): string | null {
  if (operation.state === 'review') return operation.effectSeen ? null : 'No effect of this call was observed; whether there is one has to be decided first.';
  return operation.state === 'committed' ? null : 'The call counts as not done, or is being sent.';
}

function renderUndo(of: ReviewCase): JsonObject | null {
  const undo = undoIn(of);
  if (!undo) return null;
  const against = againstUndo(of);
  return { ...undo, digest: undoDigest(of, undo), possible: against === null, against, taken_back_by: of.operation.compensatedBy ?? null };
}

export function renderReview(of: ReviewCase, tool: ToolPlan | null): JsonObject {
  const { operation } = of;
  const decided = of.decision !== null;
  const proposal = of.receipts.find(({ kind, id }) => kind === 'decision' && id === operation.decisionReceipt);
  return {
    id: of.id,
    state: decided ? 'decided' : 'open',
    reason: of.reason,
    opened_at: of.openedAt, deadline: of.deadline, overdue: of.overdue, escalated_at: of.escalatedAt,
    digest: decided ? null : evidenceDigest(of),
    decision: of.decision,
    operation: {
      id: operation.id, state: operation.state, generation: operation.generation, effect: operation.effect, effect_seen: operation.effectSeen,
      outcome: operation.outcome, idempotency_key: operation.upstreamKey, contract: { version: operation.contractVersion, digest: operation.contractDigest },
      principal: operation.principal, subject: operation.subject, purpose: operation.purpose, session_id: operation.sessionId, intent_id: operation.intentId,
      call_id: operation.callId,
    },
    tool: operation.tool,
    arguments: proposal?.['arguments'] ?? null,
    entity: proposal?.['transition'] ?? null,
    compensate: operation.compensatedBy ? null : (operation.answer?.['compensate'] ?? null),
    undo: renderUndo(of),
    approved_by: of.approvers,
    attempts: operation.attempts as unknown as Json,
    evidence: of.receipts.filter(({ kind }) => kind === 'effect'),
    options: decided ? {} : Object.fromEntries(Object.entries(options(of, tool)).map(([name, { does: effect, against, asksService }]) =>
      [name, { possible: against === null, does: effect, against, asks_service_first: asksService }])),
  };
}
