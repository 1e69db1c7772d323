/**
 * What no machine can settle, and the people who do (semantics.md sections 3 and 4). A decision is one conditional update under the fence
 * that its digest was made from: evidence that comes in the same moment moves the fence, and the decision finds nothing.
 *
 * Before it is written down the service is asked once more, where it can be: an effect that it shows by now cannot be decided away.
 */
import { problems, type ProblemCode, refuse, type Refusal } from '../errors.js';
import type { Disposition, Json, JsonObject, Outcome, Principal } from '../model.js';
import type { ReviewDesk, ReviewVerdict } from '../ports.js';
import { newReviewId } from '../receipt-id.js';
import { notDistinct } from './distinct-person.js';
import { rememberedForMs } from './key-window.js';
import { leftOf, openRun } from './open-run.js';
import type { Parts } from './parts.js';
import type { Decided, ReviewCase, ReviewDecision, Reviews } from './ports.js';
import { provesAbsence, type ReadBack, readBack } from './read-back.js';
import { effectReceipt, personReceipt, redacted } from './receipts.js';
import { evidenceDigest, options, renderReview, undoIn } from './review-case.js';
import { orderUndo } from './review-undo.js';
import { settleCommitted, settleEnded } from './route.js';
import { move, type Run } from './run.js';
import { announceSettled, dueTopic } from './topics.js';

const askMs = 2_000;

export function openReviewDesk(parts: Parts, reviews: Reviews): ReviewDesk {
  const rendered = async (of: ReviewCase): Promise<JsonObject> => {
    const catalogue = await parts.catalogueOf(of.operation.catalogueDigest);
    const tool = catalogue?.tools.get(of.operation.tool) ?? null;
    const undo = undoIn(of);
    // the call that takes it back is made of what the contract keeps secret as well
    const annotated = [...(tool?.redact ?? []), ...(undo ? (catalogue?.tools.get(undo.tool)?.redact ?? []) : [])];
    return redacted(parts, renderReview(of, tool), annotated, { ...undo?.arguments, ...of.operation.dossier?.args });
  };
  return {
    list: (tenant, filter) => reviews.list(tenant, filter),
    async one(tenant, id) {
      const found = await reviews.find(tenant, id);
      return found && rendered(found);
    },
    async decide(principal, id, verdict) {
      const found = await reviews.find(principal.tenant, id);
      if (!found) return noSuchReview;
      const refusal = await decide(parts, found, principal, verdict);
      const after = await reviews.find(principal.tenant, id);
      if (!after) return noSuchReview;
      // Lost to somebody else in this moment, or to evidence: which of the two shows now.
      if (refusal === 'lost') return alreadyDecided(after) ?? changed;
      return refusal ?? rendered(after);
    },
    async undo(principal, id, order) {
      const found = await reviews.find(principal.tenant, id);
      if (!found) return noSuchReview;
      return notDistinct(principal, found.operation, found.approvers) ?? orderUndo(parts, found, principal, order);
    },
  };
}

const noSuchReview = refuse('REVIEW_NOT_FOUND', 'No review of this tenant has that id.');
const changed = refuse('EVIDENCE_CHANGED', 'Something was observed since the evidence was looked at. Nothing was decided.');

function alreadyDecided({ decision }: ReviewCase): Refusal | undefined {
  if (!decision) return undefined;
  return refuse('ALREADY_DECIDED', `\`${decision.by}\` decided \`${decision.decision}\` at ${decision.at}.`);
}

/** Undefined: it is decided. */
async function decide(parts: Parts, of: ReviewCase, person: Principal, verdict: ReviewVerdict): Promise<Refusal | 'lost' | undefined> {
  const barred = alreadyDecided(of) ?? notDistinct(person, of.operation, of.approvers) ?? (verdict.expected_digest === evidenceDigest(of) ? undefined : changed);
  if (barred) return barred;
  const run = await runOf(parts, of);
  const against = options(of, run?.tool ?? null)[verdict.decision].against;
  if (against !== null || !run) return refuse('DECISION_NOT_POSSIBLE', against ?? 'The contract under which it began is not at hand.');
  const unfit = unfitVerdict(run, verdict);
  if (unfit) return unfit;

  const seen: ReadBack = wasSent(run) && of.operation.dossier ? await readBack(run, performance.now() + askMs) : { found: 'nothing' };
  const refuted = await refutation(run, verdict, seen);
  if (refuted) return refuted;
  const done = await carryOut(run, of, person, verdict, seen);
  if (done) announceSettled(parts, run.operation);
  return done ? undefined : 'lost';
}

/** Where the sealed request is gone (it had ended once, and was contradicted) what is left is enough to settle it, and nothing is read or sent. */
async function runOf(parts: Parts, { operation }: ReviewCase): Promise<Run | null> {
  return openRun(parts, operation, operation.dossier ?? leftOf(operation));
}

function unfitVerdict({ tool }: Run, { decision, evidence, result }: ReviewVerdict): Refusal | undefined {
  const unfit = (pointer: string, message: string): Refusal => refuse('INVALID_ENVELOPE', `\`${pointer}\`: ${message}`, { errors: [{ pointer, code: 'unfit', message }] });
  if (decision !== 'resend' && (evidence === undefined || evidence === null || evidence === '')) {
    return unfit('/evidence', 'Say what was found out and where, for instance the reference of the service.');
  }
  if (result === undefined) return undefined;
  if (decision !== 'committed') return unfit('/result', 'Only what is committed has a result.');
  return tool.admitResult(result) ? undefined : unfit('/result', `It does not satisfy the result schema of \`${tool.name}\`.`);
}

/** What the service shows by now against the decision. An effect that was not known is kept as evidence before it is told. */
async function refutation(run: Run, { decision }: ReviewVerdict, seen: ReadBack): Promise<Refusal | undefined> {
  if (decision === 'committed') return undefined;
  if (seen.found === 'committed') {
    await keep(run, seen.evidence);
    return refuse('EVIDENCE_CHANGED', 'The service was asked once more and shows the effect now. Nothing was decided.');
  }
  if (decision !== 'resend' || !wasSent(run)) return undefined;
  if (seen.found === 'mismatch') return refuse('DECISION_NOT_POSSIBLE', 'The service shows an effect that is not the one that was meant; a second one may not be added to it.');
  if (provesAbsence(run, seen) || rememberedForMs(run.tool, performance.now() - run.firstSentAt) > 0) return undefined;
  return refuse('DECISION_NOT_POSSIBLE', 'The service could not prove just now that nothing had happened, and it may not remember the key: a second send could be a second effect.');
}

async function keep(run: Run, evidence: JsonObject): Promise<void> {
  const { parts, operation, tool, dossier } = run;
  const receipt = effectReceipt(parts, operation, { tool, args: dossier.args }, {
    disposition: 'review', outcome: 'committed', verified: false, attempts: operation.attempts, result: null, readback: evidence, reason: operation.reason,
    corrects: operation.effectReceipt,
  });
  await parts.ledger.witness(operation.attempt, receipt, { id: newReviewId(), deadlineMs: parts.settings.reviewDeadlineMs });
}

/** False: it was moved in the meantime. */
async function carryOut(run: Run, of: ReviewCase, person: Principal, verdict: ReviewVerdict, seen: ReadBack): Promise<boolean> {
  const { operation } = run;
  const decided = decisionOf(run, of, person, verdict, seen);
  const readback = seen.found === 'nothing' ? {} : { readback: seen.evidence };
  switch (verdict.decision) {
    case 'committed': {
      const verified = seen.found === 'committed';
      const known = (operation.answer?.['result'] ?? operation.answer?.['known'] ?? null) as Json;
      const given = verdict.result === undefined ? null : run.tool.admitResult(verdict.result);
      const result = (verified ? seen.result : null) ?? given?.result ?? known;
      return settleCommitted(run, { kind: 'committed', result, verified, ...readback }, decided);
    }
    case 'not_committed': return settleEnded(run, { kind: 'ended', state: 'rejected', outcome: 'not_committed', code: 'NOT_COMMITTED', ...readback }, decided);
    case 'abandon': return settleEnded(run, { kind: 'ended', state: 'abandoned', outcome: 'not_committed', code: 'ABANDONED', ...readback }, decided);
    case 'resend': return enqueue(run, decided, seen);
  }
}

/** An approved call may come here without ever having been sent; what it then needs is another try. */
function wasSent({ operation }: Run): boolean {
  return operation.clock.sinceFirstSent !== null;
}

/** To `approved`: decided, not sent, due at once on any replica. What is not on the way yet cannot be taken for sent, so a crash loses nothing. */
async function enqueue(run: Run, decided: Decided, seen: ReadBack): Promise<boolean> {
  const { parts, operation } = run;
  const moved = await move(run, {
    from: ['review'], to: 'approved', outcome: wasSent(run) ? 'unknown' : null, reason: null, attempts: wasSent(run) ? operation.attempts : [], unknownAttempts: provesAbsence(run, seen) ? 0 : operation.unknownAttempts,
    dueInMs: 0, release: true, reconcileInMs: parts.settings.reconcileDeadlineMs, decided,
  });
  if (moved) parts.locks.announce(dueTopic);
  return moved;
}

const after: Record<ReviewDecision, { disposition: Disposition; outcome: Outcome; code: ProblemCode | null }> = {
  committed: { disposition: 'executed', outcome: 'committed', code: null },
  not_committed: { disposition: problems.NOT_COMMITTED.disposition, outcome: 'not_committed', code: 'NOT_COMMITTED' },
  abandon: { disposition: problems.ABANDONED.disposition, outcome: 'not_committed', code: 'ABANDONED' },
  resend: { disposition: 'unknown', outcome: 'unknown', code: null },
};

function decisionOf(run: Run, of: ReviewCase, person: Principal, verdict: ReviewVerdict, seen: ReadBack): Decided {
  const { parts, operation, tool, dossier } = run;
  const { disposition, outcome, code } = after[verdict.decision];
  const receipt = personReceipt(parts, operation, person, { tool, args: dossier.args }, {
    disposition, outcome,
    about: {
      review: { id: of.id, reason: of.reason, opened_at: of.openedAt, digest: verdict.expected_digest },
      decision: verdict.decision, because: verdict.reason, evidence: verdict.evidence ?? null, code, attempts: operation.attempts as unknown as Json,
      readback: seen.found === 'nothing' ? null : { found: seen.found, ...seen.evidence },
    },
  });
  return { review: of.id, decision: verdict.decision, by: person.id, because: String(receipt.body['because']), receipt };
}
