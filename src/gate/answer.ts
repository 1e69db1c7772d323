/** Answers: a refusal, and how an operation stands. Everything that an agent is told about a call is put together here. */
import { problems, type ProblemCode, type Refusal } from '../errors.js';
import type { Answer, Disposition, Json, JsonObject, NextAction, OperationState, Outcome } from '../model.js';
import type { ItemOutcomes } from './item-outcomes.js';
import { timeOfId } from '../receipt-id.js';
import type { Dossier, Operation } from './ports.js';
import type { Progress } from './progress.js';
import type { Resource } from './resource.js';
import { pageOf, resultBytes } from './result-page.js';

function blank(progress: Progress): Answer {
  const { tool } = progress;
  return {
    disposition: 'failed', next_action: 'abandon', call_id: progress.callId, operation_id: null, tool: progress.toolName,
    contract: tool ? { version: tool.version, digest: tool.digest } : null,
    outcome: null, verified: false, evidence_of_change: false, result: null, states: {}, legal_actions: [],
    receipts: { decision: progress.decisionReceipt, effect: null }, repaired: progress.repaired, retry_after_ms: null, trace: progress.trace,
  };
}

const defaultRetryMs = 1000;
const waitsFor: ReadonlySet<Disposition> = new Set(['in_progress', 'rate_limited', 'unavailable']);

/** A refusal before dispatch, as an RFC 9457 document. */
export function refusalAnswer(refusal: Refusal, progress: Progress, operationId: string | null = null): Answer {
  const problem = problems[refusal.refused];
  return {
    ...blank(progress),
    operation_id: operationId,
    ...problemMembers(refusal.refused, refusal),
    states: refusal.states ?? {},
    legal_actions: refusal.legalActions ?? [],
    retry_after_ms: refusal.retryAfterMs ?? (waitsFor.has(problem.disposition) ? defaultRetryMs : null),
    ...(refusal.errors ? { errors: refusal.errors } : {}),
    ...(refusal.nearestTools?.length ? { nearest_tools: refusal.nearestTools } : {}),
    ...(refusal.upstream ? { upstream: refusal.upstream } : {}),
    ...(refusal.untrusted ? { untrusted: true } : {}),
    ...(refusal.budget ? { budget: refusal.budget } : {}),
    ...(refusal.retryWith ? { retry_with: refusal.retryWith } : {}),
  };
}

function problemMembers(code: ProblemCode, given: { detail: string; code?: string; next?: NextAction }): Partial<Answer> & Pick<Answer, 'disposition' | 'next_action'> {
  const problem = problems[code];
  return {
    disposition: problem.disposition, next_action: given.next ?? problem.next, type: `/docs/problems/${code}`, title: problem.title,
    status: problem.status, detail: given.detail, code: given.code ?? code,
  };
}

/** How an operation ended or stands, kept with it so that every later asker is told the same. */
export interface Told {
  result: Json;
  states: Record<string, string>;
  legal_actions: string[];
  /** Only of an end without effect. */
  problem?: { code: ProblemCode; detail: string; contractCode?: string; next?: NextAction; upstream?: JsonObject };
  retryAfterMs?: number;
  /** A read-back is still owed; this is the read that shows the effect. */
  verifyWith?: { tool: string; arguments: { [key: string]: Json } };
  next?: NextAction;
  /** It comes from a source that its contract marks. */
  untrusted?: true;
  partial?: ItemOutcomes;
  /** While it is open, of a call about a list: the answer by which some items are done. Not told. */
  known?: Json;
  /** The call about the items that failed. */
  retryWith?: { tool: string; arguments: JsonObject };
  /** The call by which it is taken back. */
  compensate?: { tool: string; arguments: JsonObject };
  /** While it waits for it. */
  approval?: Omit<NonNullable<Answer['approval']>, 'expires_at'>;
  /** Of an end without an effect: what it would have changed here, should it come to light after all. Never part of an answer. */
  left?: Pick<Dossier, 'baseline' | 'items'>;
  /** What policy saw, for the re-check when it is told again; never part of an answer. */
  decided?: Decided | null;
}

export interface Decided { resource: Resource; args: JsonObject }

export interface Asker {
  progress: Progress;
  /** How this asker came to it: its own proposal, the same call again, or an equal one under another call id. */
  as: 'proposer' | 'again' | 'duplicate' | 'reader';
}

const openDetail: Partial<Record<OperationState, string>> = {
  sending: 'The call is being made. Ask for this operation again; do not propose a new call.',
  accepted: 'The service accepted the call and has not confirmed it yet. Ask for this operation again; do not propose a new call.',
  unknown: 'The call may have taken effect; its outcome is being read back. Ask for this operation again; do not propose a new call.',
  approved: 'The call may have taken effect; a person decided to send it once more, which is about to happen. Ask for this operation again; do not propose a new call.',
  review: 'The outcome could not be settled by evidence and is with a person. Do not propose the call again.',
};

/** The answer object for an operation in whatever state it is. */
export function operationAnswer(operation: Operation, asker: Asker): Answer {
  const told = operation.answer as unknown as Told | null;
  const { progress, as } = asker;
  // One literal, with a place for every name that most answers have: a copy of an object of so many names costs more than all the rest of a replay.
  return {
    disposition: 'failed',
    next_action: 'abandon',
    call_id: as === 'reader' ? operation.callId : (progress.callId ?? operation.callId),
    operation_id: operation.id,
    tool: operation.tool,
    contract: { version: operation.contractVersion, digest: operation.contractDigest },
    outcome: operation.outcome,
    verified: operation.verified,
    evidence_of_change: operation.effect !== 'none' && operation.verified && told?.partial?.counts.committed !== 0,
    result: told?.result ?? null,
    states: told?.states ?? {},
    legal_actions: told?.legal_actions ?? [],
    receipts: { decision: operation.decisionReceipt, effect: operation.effectReceipt },
    repaired: progress.repaired,
    retry_after_ms: null,
    trace: progress.trace,
    ...(as === 'duplicate' ? { duplicate_of: operation.callId } : {}),
    ...(told?.untrusted ? { untrusted: true } : {}),
    ...(operation.compensates ? { compensates: operation.compensates } : {}),
    ...(operation.compensatedBy ? { compensated_by: operation.compensatedBy } : told?.compensate && operation.state === 'committed' ? { compensate: told.compensate } : {}),
    ...standing(operation, told, asker),
  };
}

/** Told in the place of a third equal read: what was observed then, which is no evidence of what is now. */
export function repeatedReadAnswer(operation: Operation, progress: Progress): Answer {
  const answer = operationAnswer(operation, { progress, as: 'duplicate' });
  const observedAt = operation.effectReceipt === null ? {} : { observed_at: timeOfId(operation.effectReceipt).toISOString() };
  return {
    ...answer, notice: 'REPEATED_READ', ...observedAt,
    detail: 'The same was read before in this session and nothing was written since. This is its last answer; reading it again will not change it.',
  };
}

function standing(operation: Operation, told: Told | null, asker: Asker): Partial<Answer> {
  switch (operation.state) {
    case 'committed': {
      const replayed = asker.as === 'again' || asker.as === 'duplicate';
      const owed = !operation.verified && told?.verifyWith !== undefined;
      return {
        disposition: replayed ? 'replayed' : 'executed',
        next_action: owed ? 'verify' : 'continue',
        ...(owed && told?.verifyWith ? { verify_with: told.verifyWith } : {}),
        ...(told?.partial ? itemMembers(told) : {}),
        ...(told ? {} : { detail: 'The result itself has passed its retention; the outcome stands.', code: 'RESULT_EXPIRED' }),
      };
    }
    case 'sending':
    case 'unknown': return open(operation, 'unknown', 'wait');
    case 'accepted': return open(operation, 'pending', 'wait');
    case 'review': return { ...open(operation, 'review', 'escalate'), ...(operation.reviewId === null ? {} : { review_id: operation.reviewId }) };
    case 'parked': return awaiting(operation, told);
    case 'approved': return operation.clock.sinceFirstSent === null ? awaiting(operation, told) : open(operation, 'unknown', 'wait');
    default: return ended(operation, told);
  }
}

/** Of those that are told one by one; the failed ones are first. */
const itemsAtMost = 1_000;

/** Whoever re-sends the whole gets this answer again; the failed items are a call of their own. */
function itemMembers({ partial, retryWith }: Told): Partial<Answer> {
  if (!partial) return {};
  const { total, failed } = partial.counts;
  return {
    partial: failed > 0, ...itemsTold(partial),
    ...(failed > 0 ? { detail: `${failed} of ${total} items failed. This call is done and will not run again; to try the failed items, propose a new call with these alone${retryWith ? ', as `retry_with` has it' : ''}.` } : {}),
    ...(retryWith ? { retry_with: retryWith } : {}),
  };
}

function itemsTold({ items, counts }: ItemOutcomes): Pick<Answer, 'items' | 'item_counts'> {
  return { items: items.slice(0, itemsAtMost), item_counts: counts };
}

/** Nothing is sent. Once it is approved there is nothing to ask any more: it is about to be. */
function awaiting({ state, approval }: Operation, told: Told | null): Partial<Answer> {
  const asked = told?.approval;
  const waiting = state === 'parked';
  return {
    disposition: 'approval_required', next_action: waiting ? (asked?.by === 'reviewer' ? 'escalate' : 'ask') : 'wait', outcome: null,
    retry_after_ms: waiting ? null : defaultRetryMs,
    detail: waiting
      ? 'The call waits for an approval; nothing was sent. Once it is approved the gateway sends it. Do not propose it again; ask for this operation later.'
      : 'The call is approved and about to be sent. Ask for this operation again; do not propose a new call.',
    ...(asked && approval ? { approval: { ...asked, expires_at: approval.expiresAt } } : {}),
  };
}

function open(operation: Operation, disposition: Disposition, next: NextAction): Partial<Answer> {
  const told = operation.answer as unknown as Told | null;
  const outcome: Outcome = operation.state === 'accepted' ? 'accepted' : (operation.outcome ?? 'unknown');
  return {
    disposition, next_action: next, outcome, retry_after_ms: next === 'wait' ? defaultRetryMs : null,
    detail: openDetail[operation.state] ?? 'The operation is waiting.', ...(operation.reason ? { code: operation.reason } : {}),
    ...(told?.partial ? itemsTold(told.partial) : {}),
  };
}

function ended(operation: Operation, told: Told | null): Partial<Answer> {
  const code: ProblemCode = told?.problem?.code ?? (operation.state === 'cancelled' || operation.state === 'abandoned' ? 'CANCELLED' : 'NOT_COMMITTED');
  const problem = told?.problem;
  return {
    ...problemMembers(code, {
      detail: problem?.detail ?? problems[code].why,
      ...(problem?.contractCode ? { code: problem.contractCode } : {}),
      ...(problem?.next ? { next: problem.next } : {}),
    }),
    ...(problem?.upstream ? { upstream: problem.upstream } : {}),
    retry_after_ms: told?.retryAfterMs ?? (waitsFor.has(problems[code].disposition) ? defaultRetryMs : null),
  };
}

/** What an effect has brought about is never an error for its size: the answer has the beginning, and the rest is there to be read. */
export function withinLimit(answer: Answer, limitBytes: number): Answer {
  if (answer.result === null || answer.operation_id === null) return answer;
  // the order of members, in which the canonical form differs, does not change the size
  if (Buffer.byteLength(JSON.stringify(answer.result)) <= limitBytes) return answer;
  const part = pageOf(resultBytes(answer.result), 0, limitBytes);
  return part === null ? answer : { ...answer, result: null, result_part: { ...part, href: `/v1/operations/${answer.operation_id}/result?offset=${part.next_offset}` } };
}
