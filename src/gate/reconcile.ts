/**
 * Stage 5, reconcile: from what an exchange proves to what really happened. One loop, used inline within the caller's patience and by
 * recovery on any replica; it ends in a finding, which route writes down.
 *
 *   committed ──────► read back (where asked) ──► settled, or settled with a read-back owed
 *   accepted ───────► poll ──► settled | put down
 *   rejected ───────► settled, identity free
 *   not_committed ──► sent again within the budgets | settled, identity free
 *   unknown ────────► read back ──► committed | absent after the window: as not_committed | mismatch: review | put down
 *
 * Time alone never proves that nothing happened: absence is a read-back that began after the window, or it is nothing.
 */
import { randomUUID } from 'node:crypto';
import type { ErrorRule, RenderedRequest } from '../contract/plan.js';
import type { ProblemCode } from '../errors.js';
import type { Json, JsonObject } from '../model.js';
import type { Exchange } from '../upstream/exchange.js';
import { type Heard, heard, type Rejected, settles } from './callback-evidence.js';
import { classify, type Verdict } from './classify.js';
import type { Committed, Finding, ForReview } from './finding.js';
import { rememberedForMs } from './key-window.js';
import { askedPause, defaultPauseMs } from './pause.js';
import { holding, writeTraffic } from './place.js';
import { allUnknown, itemOutcomes, knownItems, mayDoMore } from './item-outcomes.js';
import type { Closed, Entrance, Place, Transition } from './ports.js';
import { observeAftermath, provesAbsence, type ReadBack, readBack } from './read-back.js';
import { move, type Run, runScope } from './run.js';

/** Between two looks of one caller: grows to a second. */
const looksMs = [25, 50, 100, 200, 400, 800, 1000];
/** How long the answer to a clean 2xx may be held back for its read-back to show it. */
const confirmMs = 2000;
const firstResendMs = 100;

/** @param until on the clock of `performance.now()`: the caller's patience. */
export async function reconcile(run: Run, exchange: Exchange, until: number): Promise<Finding> {
  const verdict = classify(run.tool, exchange, { unknownBefore: run.operation.unknownAttempts, scope: runScope(run) });
  run.parts.metrics.exchange(run.tool.service, verdict.outcome);
  if (verdict.outcome === 'committed' || verdict.outcome === 'claimed' || verdict.outcome === 'accepted') run.witnessed = true;
  const pauseMs = askedPause(run.parts, run.tool.service, exchange, verdict.outcome === 'not_committed' && verdict.rateLimited ? defaultPauseMs : 0);
  run.operation.attempts = [...run.operation.attempts, {
    number: run.operation.attempt, sent: exchange.sent, status: exchange.kind === 'response' ? exchange.status : null,
    reason: exchange.kind === 'failure' ? exchange.reason : 'unreadable' in exchange.body ? exchange.body.unreadable : null,
    outcome: verdict.outcome === 'claimed' ? 'committed' : verdict.outcome, ms: Math.round(exchange.ms * 10) / 10,
  }];
  if (verdict.outcome === 'unknown' && verdict.result !== undefined) keepKnown(run, verdict.result);
  return follow(run, verdict, pauseMs, until);
}

async function follow(run: Run, verdict: Verdict, pauseMs: number, until: number): Promise<Finding> {
  // An earlier attempt did some of its items, which no later answer denies.
  if (run.known !== null && (verdict.outcome === 'rejected' || verdict.outcome === 'not_committed')) return confirm(run, run.known, until);
  switch (verdict.outcome) {
    case 'committed': return (await doMore(run, verdict.result, until)) ?? confirm(run, verdict.result, until);
    case 'claimed': return confirm(run, run.known, until);
    case 'accepted': return awaitAccepted(run, until);
    case 'rejected': return rejected(verdict);
    case 'not_committed': return verdict.rateLimited ? rateLimited(verdict, pauseMs) : nothingHappened(run, verdict, until);
    case 'unknown': return becomeUnknown(run, until);
  }
}

/** Items that failed and may be done still: the same request again, within the budgets. Null: nothing is sent any more. */
async function doMore(run: Run, result: Json, until: number): Promise<Finding | null> {
  if (!resumable(run) || !['sending', 'unknown'].includes(run.operation.state)) return null;
  const scope = runScope(run);
  const outcomes = itemOutcomes(run.tool, scope, result, knownItems(run));
  if (outcomes === null || outcomes === 'unreadable' || !mayDoMore(run.tool, scope, result, outcomes)) return null;
  keepKnown(run, result);
  run.operation.unknownAttempts = 0; // what became of each item is known
  const again = await sendAgain(run, until);
  return 'closed' in again ? null : again;
}

/** A service that honours the key item by item, and remembers it still: what it has done it does not do again. */
function resumable({ tool, firstSentAt }: Run): boolean {
  return Boolean(tool.partial?.retry) && rememberedForMs(tool, performance.now() - firstSentAt) > 0;
}

function keepKnown(run: Run, result: Json): void {
  const outcomes = itemOutcomes(run.tool, runScope(run), result, knownItems(run));
  if (outcomes === null || outcomes === 'unreadable') return;
  run.known = result;
  if (outcomes.counts.committed > 0) run.operation.effectSeen = true;
  run.operation.answer = { result: null, states: {}, legal_actions: [], known: result, partial: outcomes as unknown as Json };
}

/** Before it is in doubt, or sent once more: what its caller is told of its items until it settles, and what recovery goes on from. */
function itemsSoFar(run: Run): Pick<Transition, 'answer' | 'effectSeen'> {
  const { operation } = run;
  if (run.known !== null && operation.answer) return { answer: operation.answer, effectSeen: operation.effectSeen };
  const partial = allUnknown(run.tool, runScope(run));
  return partial === null ? {} : { answer: { result: null, states: {}, legal_actions: [], partial: partial as unknown as Json } };
}

/** A clean or claimed effect. An empty read-back cannot undo it: it is owed, and recovery goes on looking. */
async function confirm(run: Run, result: Json, until: number): Promise<Committed | ForReview> {
  if (!run.tool.readback || (run.tool.verify === 'on_ambiguity' && result !== null)) return { kind: 'committed', result, verified: false };
  run.operation.effectSeen = true;
  const seen = await look(run, Math.min(until, performance.now() + confirmMs), (found) => found.found === 'committed' || found.found === 'mismatch');
  if (seen.found === 'committed') return verified(run, seen, result, until);
  if (seen.found === 'mismatch') return { kind: 'review', reason: 'MISMATCH', readback: seen.evidence, result };
  return { kind: 'committed', result, verified: false, owed: true, missingInMs: settleWindowMs(run) };
}

/** After the last byte of an attempt; before it has passed, an empty read-back says nothing. */
function settleWindowMs({ tool }: Run): number {
  return (tool.readback?.settleAfterMs ?? 0) + (tool.readback?.lagMs ?? 0);
}

async function verified(run: Run, seen: Extract<ReadBack, { found: 'committed' }>, result: Json, until: number): Promise<Committed | ForReview> {
  const evidence: Committed = { kind: 'committed', result: seen.result ?? result, verified: true, readback: seen.evidence };
  if (run.tool.verify === 'always') {
    const aftermath = await observeAftermath(run, until);
    if (aftermath?.divergence) {
      run.operation.effectSeen = true;
      return { kind: 'review', reason: 'DIVERGENCE', readback: { ...seen.evidence, divergence: aftermath.divergence }, result: evidence.result, states: aftermath.states };
    }
    evidence.aftermath = aftermath;
  }
  return evidence;
}

/** Absence proves nothing while the service may still be working on what it accepted. */
async function awaitAccepted(run: Run, until: number): Promise<Finding> {
  const deadlineMs = run.tool.async?.deadlineMs ?? run.parts.settings.reconcileDeadlineMs;
  const moved = await move(run, {
    from: ['sending', 'unknown'], to: 'accepted', outcome: 'accepted', attempts: run.operation.attempts, dueInMs: run.parts.settings.leaseMs, absentInMs: deadlineMs,
  });
  if (!moved) return lost;
  return pollAccepted(run, until);
}

/** Also the way in for recovery. At the deadline it becomes an unknown outcome like any other. */
export async function pollAccepted(run: Run, until: number): Promise<Finding> {
  const deadline = run.absentFrom ?? run.reconcileBy;
  if (performance.now() >= deadline) return becomeUnknown(run, until);
  const seen = await lookAndListen(run, Math.min(until, deadline), (found) => found.found === 'committed' || found.found === 'mismatch');
  if (seen.found === 'told') return asTold(run, seen.heard, until);
  if (seen.found === 'committed') return verified(run, seen, null, until);
  if (seen.found === 'mismatch') return { kind: 'review', reason: 'MISMATCH', readback: seen.evidence };
  return later(run);
}

/** A signed event is what a clean answer would have been: an effect is read back where the contract asks for it, a refusal ends it. */
async function asTold(run: Run, { committed, rejected }: Heard, until: number): Promise<Finding> {
  if (!committed) return refusedAsTold(rejected as Rejected);
  if (!rejected) return { ...await confirm(run, committed.result, until), callback: committed.event };
  run.operation.effectSeen = true;
  const seen = await look(run, Math.min(until, performance.now() + confirmMs), (found) => found.found === 'committed' || found.found === 'mismatch');
  const callback = { committed: committed.event, rejected: rejected.event };
  if (seen.found === 'committed') return { ...await verified(run, seen, committed.result, until), callback };
  return { kind: 'review', reason: 'CONTRADICTED', callback, result: committed.result, ...(seen.found === 'nothing' ? {} : { readback: seen.evidence }) };
}

function refusedAsTold({ rule, body, event }: Rejected, readback?: JsonObject): Finding {
  return { kind: 'ended', state: 'rejected', outcome: 'rejected', code: 'UPSTREAM_REJECTED', rule, body, callback: event, ...(readback ? { readback } : {}) };
}

function rejected({ rule, status, notFound, body }: Extract<Verdict, { outcome: 'rejected' }>): Finding {
  const conflict = rule?.class === 'version_conflict' || (!rule && status === 412);
  const code: ProblemCode = notFound ? 'NOT_FOUND' : conflict ? 'UPSTREAM_VERSION_CONFLICT' : 'UPSTREAM_REJECTED';
  return { kind: 'ended', state: 'rejected', outcome: 'rejected', code, rule, ...bodyOf(notFound ? null : rule, body) };
}

/** What is not there and what is out of sight share one answer, so nothing is told of either. */
function bodyOf(rule: ErrorRule | null, body: Json | undefined): { body?: Json } {
  return rule && body !== undefined ? { body } : {};
}

function rateLimited({ rule, body }: Extract<Verdict, { outcome: 'not_committed' }>, retryAfterMs: number): Finding {
  return { kind: 'ended', state: 'rate_limited', outcome: 'not_committed', code: 'RATE_LIMITED', rule, retryAfterMs, ...bodyOf(rule, body) };
}

/** Nothing happened in this attempt, and none before it is in doubt: again, within the budgets, or the end. */
async function nothingHappened(run: Run, verdict: Extract<Verdict, { outcome: 'not_committed' }>, until: number): Promise<Finding> {
  const again = await sendAgain(run, until);
  if (!('closed' in again)) return again;
  const retryAfterMs = again.forMs > 0 ? { retryAfterMs: Math.ceil(again.forMs) } : {};
  const neverSent = run.operation.attempts.every((attempt) => !attempt.sent);
  if (neverSent) {
    return { kind: 'ended', state: 'failed', outcome: 'not_committed', code: 'UPSTREAM_UNREACHABLE', neverSent, ...retryAfterMs };
  }
  return { kind: 'ended', state: 'rejected', outcome: 'not_committed', code: 'NOT_COMMITTED', rule: verdict.rule, ...retryAfterMs, ...bodyOf(verdict.rule, verdict.body) };
}

/** It may have happened. From here on nothing equal runs until evidence or a person says otherwise. */
export async function becomeUnknown(run: Run, until: number, extraWindowMs = 0): Promise<Finding> {
  const { operation, parts } = run;
  const moved = await move(run, {
    from: ['sending', 'accepted', 'unknown'], to: 'unknown', outcome: 'unknown', attempts: operation.attempts, unknownAttempts: operation.unknownAttempts + 1,
    absentInMs: settleWindowMs(run) + extraWindowMs, dueInMs: parts.settings.leaseMs, ...itemsSoFar(run),
  });
  if (!moved) return lost;
  parts.locks.announce(operation.id);
  return pursueUnknown(run, until);
}

/** Also the way in for recovery. */
export async function pursueUnknown(run: Run, until: number): Promise<Finding> {
  if (!run.tool.readback) return withoutReadBack(run, until);
  const absence = (seen: ReadBack): boolean => provesAbsence(run, seen) && !run.operation.effectSeen;
  const seen = await lookAndListen(run, until, (found) => found.found === 'committed' || found.found === 'mismatch' || absence(found));
  if (seen.found === 'told') return asTold(run, seen.heard, until);
  if (seen.found === 'committed') return (await doMore(run, seen.result, until)) ?? verified(run, seen, run.known, until);
  if (seen.found === 'mismatch') return { kind: 'review', reason: 'MISMATCH', readback: seen.evidence };
  if (seen.found === 'absent' && absence(seen)) return provenAbsent(run, seen.evidence, until);
  if (performance.now() >= run.reconcileBy) return { kind: 'review', reason: 'DEADLINE_PASSED' };
  return later(run);
}

async function provenAbsent(run: Run, evidence: JsonObject, until: number): Promise<Finding> {
  const { rejected } = await heard(run);
  if (rejected) return refusedAsTold(rejected, evidence); // nothing happened, and why: there is nothing to send again
  run.operation.unknownAttempts = 0;
  if (run.takenOver && !run.tool.idempotency && withinBudgets(run)) return { kind: 'review', reason: 'RESEND_NEEDS_A_PERSON', readback: evidence };
  const again = await sendAgain(run, until);
  if (!('closed' in again)) return again;
  return {
    kind: 'ended', state: 'rejected', outcome: 'not_committed', code: 'NOT_COMMITTED', readback: evidence,
    ...(again.forMs > 0 ? { retryAfterMs: Math.ceil(again.forMs) } : {}),
  };
}

/** An honoured key makes a second send harmless, but only while the destination still remembers the first. */
async function withoutReadBack(run: Run, until: number): Promise<Finding> {
  const { tool, operation } = run;
  if (!tool.idempotency || (operation.effectSeen && !resumable(run))) return { kind: 'review', reason: 'OUTCOME_UNPROVABLE' };
  if (rememberedForMs(tool, performance.now() - run.firstSentAt) <= 0) return { kind: 'review', reason: 'KEY_WINDOW_PASSED' };
  if (performance.now() >= run.reconcileBy) return { kind: 'review', reason: 'DEADLINE_PASSED' };
  if (performance.now() >= until) return later(run);
  if (!withinBudgets(run)) return { kind: 'review', reason: 'OUTCOME_UNPROVABLE' };
  const again = await sendAgain(run, until);
  return 'closed' in again ? later(run) : again;
}

function withinBudgets({ operation, tool, firstSentAt }: Run): boolean {
  return operation.attempt < tool.retry.attempts && performance.now() - firstSentAt < tool.retry.elapsedMs;
}

/** No retry: its own budgets are used up, it may not be sent at all, or its service takes nothing now. `forMs` 0: time alone mends nothing. */
type Unsendable = Closed | { closed: 'spent'; forMs: 0 };
const spent: Unsendable = { closed: 'spent', forMs: 0 };

/** The same bytes under the same key, as a new attempt: with full jitter, and not before the end of a pause that is short enough to be waited for. */
async function sendAgain(run: Run, until: number): Promise<Finding | Unsendable> {
  if (!withinBudgets(run) || !mayBeSent(run)) return spent;
  const { operation, parts, tool, firstSentAt } = run;
  const pauseMs = parts.upstreamGate.pausedForMs(tool.service);
  if (pauseMs > 0 && performance.now() + pauseMs > Math.min(until, firstSentAt + tool.retry.elapsedMs)) return { closed: 'paused', forMs: pauseMs };
  await sleepUnlessLeaving(run, pauseMs + Math.random() * firstResendMs * 2 ** Math.min(operation.attempt, 6));
  return withinBudgets(run) && mayBeSent(run) ? sendNow(run, 'retry', until) : spent;
}

function mayBeSent(run: Run): boolean {
  const { operation, dossier, parts } = run;
  return (!operation.effectSeen || (run.known !== null && resumable(run))) && dossier.request !== null && !parts.draining();
}

/** As a person decided: once, whatever the budgets. It waits where nothing may be sent just now. */
export async function sendAsDecided(run: Run, until: number): Promise<Finding> {
  const sent = mayBeSent(run) ? await sendNow(run, 'neither', until) : spent;
  return 'closed' in sent ? { kind: 'later', dueInMs: Math.max(defaultPauseMs, sent.forMs) } : sent;
}

/** Its place first, as for a first attempt: between the fence that the ledger is told and the send nothing is waited for. */
async function sendNow(run: Run, as: Entrance['as'], until: number): Promise<Finding | Closed> {
  const { tool, parts } = run;
  const place = await parts.upstreamGate.enter(tool.upstream, { traffic: writeTraffic(tool), as, until });
  if ('closed' in place) return place;
  if (keyForgotten(run)) {
    place.leave();
    return { kind: 'review', reason: 'KEY_WINDOW_PASSED' };
  }
  const exchange = await sendAt(place, run).finally(() => place.leave());
  return exchange ? reconcile(run, exchange, until) : lost;
}

/** While an attempt is unknown, or has done some items, a further one rests on the key; the wait for its service may have outlasted that. */
function keyForgotten({ operation, tool, firstSentAt, known }: Run): boolean {
  return (operation.unknownAttempts > 0 || known !== null) && rememberedForMs(tool, performance.now() - firstSentAt) <= 0;
}

async function sendAt(place: Place, run: Run): Promise<Exchange | undefined> {
  const { operation, tool, parts, dossier } = run;
  const attemptId = randomUUID();
  const fenceFrom = performance.now();
  const moved = await move(run, {
    from: ['sending', 'unknown', 'approved'], to: 'sending', outcome: null, attempts: operation.attempts, unknownAttempts: operation.unknownAttempts,
    send: { attempt: operation.attempt + 1, attemptId, windowMs: parts.settings.sendWindowMs }, dueInMs: parts.settings.leaseMs, absentInMs: null,
    ...(run.known === null ? {} : { ...itemsSoFar(run), resumes: true }),
  });
  if (!moved) return undefined;
  return holding(place, parts.upstream.send(dossier.request as RenderedRequest, {
    upstream: tool.upstream, attempt: attemptId, deadlineMs: tool.upstream.deadlineMs, sendBefore: fenceFrom + parts.settings.sendWindowMs,
  }));
}

/**
 * A committed effect whose read-back was owed. Recovery's way in. The result that was told stays the result. The entity is not held against
 * the declaration any more: its guard key is free, and another write may have moved it on.
 */
export async function verifyLater(run: Run, until: number): Promise<Finding> {
  const known = (run.operation.answer?.['result'] ?? null) as Json;
  const seen = await look(run, until, (found) => found.found === 'committed' || found.found === 'mismatch' || provesAbsence(run, found));
  if (seen.found === 'committed') return { kind: 'committed', result: known ?? seen.result, verified: true, readback: seen.evidence };
  if (seen.found === 'mismatch') return { kind: 'review', reason: 'MISMATCH', readback: seen.evidence, result: known };
  if (seen.found === 'absent' && provesAbsence(run, seen)) return { kind: 'review', reason: 'MISSING_AFTER_COMMIT', readback: seen.evidence, result: known };
  if (performance.now() >= run.reconcileBy) return { kind: 'review', reason: 'DEADLINE_PASSED', result: known };
  return later(run);
}

/** As `look`, and hears what the service has told by itself in the meantime, which is known without asking. */
async function lookAndListen(run: Run, until: number, enough: (found: ReadBack) => boolean): Promise<ReadBack | { found: 'told'; heard: Heard }> {
  if (!run.tool.async?.callback) return look(run, until, enough);
  let told: Heard | undefined;
  const found = await look(run, until, enough, async () => {
    const now = await heard(run);
    if (settles(now, run)) told = now;
    return told !== undefined;
  });
  return told ? { found: 'told', heard: told } : found;
}

/** Reads back until the answer is enough or the time is up; the last thing seen. A replica that is leaving does not wait for a service that does not answer. */
async function look(run: Run, until: number, enough: (found: ReadBack) => boolean, told?: () => Promise<boolean>): Promise<ReadBack> {
  for (let n = 0; ; n++) {
    if (await told?.()) return { found: 'nothing' };
    const found = await readBack(run, until);
    if (enough(found) || (found.found === 'nothing' && run.parts.draining())) return found;
    const pause = looksMs[Math.min(n, looksMs.length - 1)] as number;
    if (performance.now() + pause >= until) return found;
    await run.parts.locks.heard(run.operation.id, pause); // whoever has news of it wakes us
  }
}

/** The longer it has been open the rarer the looks; never later than the moment at which absence begins to count. */
function later(run: Run): Finding {
  const { backoffFirstMs, backoffMaxMs } = run.parts.settings;
  const ageMs = performance.now() - run.firstSentAt;
  const backoffMs = Math.min(backoffMaxMs, Math.max(backoffFirstMs, ageMs / 4)) * (0.75 + Math.random() / 2);
  const windowMs = run.absentFrom === null ? Number.POSITIVE_INFINITY : run.absentFrom - performance.now();
  return { kind: 'later', dueInMs: windowMs > 0 ? Math.min(backoffMs, windowMs + 10) : backoffMs };
}

const lost: Finding = { kind: 'lost' };

const leavingLookMs = 250;

async function sleepUnlessLeaving({ parts }: Run, ms: number): Promise<void> {
  for (const until = performance.now() + ms; !parts.draining();) {
    const left = until - performance.now();
    if (left <= 0) return;
    await sleep(Math.min(left, leavingLookMs));
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
