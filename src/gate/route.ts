/**
 * Stage 6, route: the single write that commits the effect receipt with the new state, and what everybody will be told from then on.
 * Also the ways to put an operation down without an outcome: for later, or for a person.
 */
import { EvaluationError } from '../contract/plan.js';
import { LedgerUnavailable, problems } from '../errors.js';
import { newReviewId } from '../receipt-id.js';
import type { Json, JsonObject, OperationState } from '../model.js';
import type { Decided, Told } from './answer.js';
import type { Committed, Ended, Finding, ForReview, Unsent } from './finding.js';
import { keptMoves } from './entities.js';
import type { Decided as Decision, EntityMove, OpenedReview, SeenEntity, StoredAnswer, Transition } from './ports.js';
import type { Aftermath } from './read-back.js';
import { type ItemOutcomes, itemOutcomes, knownItems } from './item-outcomes.js';
import { callAbout, itemsDone } from './items.js';
import { effectReceipt } from './receipts.js';
import { evaluateAll } from './scope.js';
import { shownOf } from './shown.js';
import { marking, tellsUntrusted } from './trust.js';
import { move, type Run, runScope } from './run.js';
import { undoKeyOf, undoOf } from './undo.js';
import { unsentEnding } from './unsent.js';

/** How a run stands after the write: its operation says it. `lost`: another process has taken it over. */
export type Standing = 'settled' | 'open' | 'lost';

export async function route(run: Run, finding: Finding): Promise<Standing> {
  const evidence = finding.kind === 'committed' ? finding : null;
  try {
    if (await write(run, finding)) return finding.kind === 'later' ? 'open' : 'settled';
  } catch (error) {
    if ((evidence || run.witnessed) && error instanceof LedgerUnavailable) void insist(run, evidence);
    throw error;
  }
  return evidence || run.witnessed ? testify(run, evidence) : 'lost';
}

async function write(run: Run, finding: Finding): Promise<boolean> {
  switch (finding.kind) {
    case 'committed': return settleCommitted(run, finding);
    case 'ended': return settleEnded(run, finding);
    case 'review': return toReview(run, finding);
    case 'later': return putDown(run, finding.dueInMs);
    case 'unsent': return endUnsent(run, finding);
    case 'lost': return false;
  }
}

const firstLookMs = 500;

/** @param decided by a person, out of review. */
export async function settleCommitted(run: Run, evidence: Committed, decided?: Decision): Promise<boolean> {
  const { operation, tool, parts } = run;
  const earlier = operation.answer as unknown as Told | null;
  // Out of review too, where its read-back was still owed when it went there.
  const settled = operation.state === 'committed' || (decided !== undefined && earlier?.verifyWith !== undefined);
  const moves = settled ? [] : keptMoves(run);
  const before = settled ? earlier : null;
  // What had ended has let its entities go: who knows where they are by now.
  const late = operation.dossier === null;
  const states = before?.states ?? (late ? {} : { ...evidence.aftermath?.states, ...Object.fromEntries(moves.map(({ entity, to }) => [entity, to])) });
  const own = states[run.dossier.baseline.entity ?? ''];
  const partial = itemsOf(run, evidence.result);
  const failed = new Set(partial?.items.filter(({ outcome }) => outcome === 'failed').map(({ key }) => key));
  const retryWith = callAbout(tool, run.dossier.args, failed);
  const undo = before?.compensate ?? undoOf(run, evidence.result);
  const told: Told = {
    result: evidence.result, states, legal_actions: before?.legal_actions ?? (own === undefined ? [] : run.legalActions(own)), decided: decidedBy(run),
    ...(evidence.owed ? verifyWith(run) : {}),
    ...trustOf(tool, evidence.result),
    ...(partial ? { partial } : {}),
    ...(retryWith ? { retryWith } : {}),
    ...(undo ? { compensate: undo } : {}),
  };
  const receipt = effectReceipt(parts, operation, { tool, args: run.dossier.args }, {
    disposition: 'executed', outcome: 'committed', verified: evidence.verified, attempts: operation.attempts, result: evidence.result, states,
    ...(evidence.readback ? { readback: evidence.readback } : {}), ...(evidence.callback ? { callback: evidence.callback } : {}), ...(decided ? { decidedIn: decided.review } : {}), ...(partial ? { partial } : {}),
  });
  return move(run, {
    // What settled before has let its entities go and told its session; a later verification moves and tells nothing.
    from: decided ? ['review'] : settled ? ['committed'] : ['sending', 'accepted', 'unknown'], to: 'committed', outcome: 'committed', verified: evidence.verified, effectSeen: true, reason: null,
    attempts: operation.attempts, answer: told as unknown as StoredAnswer, settle: true, dueInMs: evidence.owed ? firstLookMs : null, release: true, calledBack: !!tool.async?.callback,
    absentInMs: evidence.missingInMs ?? null, receipt, effectReceipt: receipt.id, items: itemsDone(run.dossier, partial),
    ...(decided ? { decided } : {}),
    ...(settled ? {} : { moves, late, ...seenAfter(run, evidence.aftermath, states), ...rememberedAs(run) }),
    ...(evidence.result === null ? {} : marking(tool, operation)),
    ...undoKeyOf(run, undo),
  });
}

/** An answer without text of its source carries none. */
function trustOf(tool: Run['tool'], told: Json): Pick<Told, 'untrusted'> {
  return told !== null && tellsUntrusted(tool) ? { untrusted: true } : {};
}

function itemsOf(run: Run, result: Json): ItemOutcomes | undefined {
  if (!run.tool.partial) return undefined;
  const found = result === null ? null : itemOutcomes(run.tool, runScope(run), result, knownItems(run));
  return found === null || found === 'unreadable' ? undefined : found;
}

function decidedBy({ dossier }: Run): Decided | null {
  return dossier.resource ? { resource: dossier.resource, args: dossier.args } : null;
}

/** The read that shows the effect, with its arguments, for a caller that wants to look itself. */
function verifyWith(run: Run): Pick<Told, 'verifyWith'> {
  const { readback } = run.tool;
  if (!readback) return {};
  try {
    const scope = runScope(run);
    return { verifyWith: { tool: readback.tool.name, arguments: evaluateAll(readback.args, scope) } };
  } catch (error) {
    if (error instanceof EvaluationError) return {};
    throw error;
  }
}

/**
 * Its own write moved the version, and the answer reports the state: the session's next proposal rests on that, and on no version of what
 * else the write may have changed. Where nothing but the gateway can show the entity, the session is told even if it never asked.
 */
function seenAfter({ operation, dossier, tool }: Run, aftermath: Aftermath | null | undefined, states: Told['states']): Pick<Transition, 'seen' | 'told'> {
  const { tenant, principal, subject, sessionId } = operation;
  const { entity, touched = [] } = dossier.baseline;
  const seenOf = (of: string, version: string | null): SeenEntity => ({ tenant, principal, subject, sessionId, entity: of, version, state: states[of] ?? null });
  const others = touched.map((key) => seenOf(key, null));
  if (!entity) return { seen: others };
  const own = seenOf(entity, aftermath?.version ?? null);
  return tool.entity?.observation ? { seen: [own, ...others] } : { told: [own], seen: others };
}

/** For the calls that bind this tool's last result. Of what had ended and was contradicted it is no longer known on which entity it was. */
function rememberedAs({ operation, dossier, tool }: Run): Pick<Transition, 'remembered'> {
  const { entity } = dossier.baseline;
  if (!tool.remembered || (tool.entity && !entity)) return {};
  const { principal, subject, sessionId } = operation;
  return { remembered: { principal, subject, sessionId, tool: tool.name, entity: entity ?? '' } };
}

/** Ended without an effect, which frees the identity: the next equal proposal is a new generation. */
export async function settleEnded(run: Run, ending: Ended, decided?: Decision): Promise<boolean> {
  const { operation, tool, parts } = run;
  const upstream = ending.body === undefined ? undefined : shownOf(parts, tool, run.dossier.args, ending.body);
  const told: Told = {
    result: null, states: {}, legal_actions: [], ...trustOf(tool, upstream ?? null), ...left(run),
    problem: {
      code: ending.code, detail: ending.rule?.message ?? problems[ending.code].why,
      ...(ending.rule?.code ? { contractCode: ending.rule.code } : {}),
      ...(ending.rule ? { next: ending.rule.next } : {}),
      ...(upstream ? { upstream } : {}),
    },
    ...(ending.retryAfterMs === undefined ? {} : { retryAfterMs: ending.retryAfterMs }),
  };
  const receipt = effectReceipt(parts, operation, { tool, args: run.dossier.args }, {
    disposition: problems[ending.code].disposition, outcome: ending.outcome, verified: false, attempts: operation.attempts, result: null,
    reason: ending.rule?.code ?? ending.code, ...(ending.readback ? { readback: ending.readback } : {}), ...(ending.callback ? { callback: ending.callback } : {}), ...(decided ? { decidedIn: decided.review } : {}),
    ...(upstream ? { upstream } : {}),
  });
  return move(run, {
    ...(decided ? { decided } : {}),
    ...(upstream ? marking(tool, operation) : {}),
    from: decided ? ['review'] : ['sending', 'accepted', 'unknown'], to: ending.state, outcome: ending.outcome, reason: ending.rule?.code ?? ending.code, attempts: operation.attempts,
    unknownAttempts: 0, answer: told as unknown as StoredAnswer, settle: true, refund: ending.neverSent ?? false, receipt, effectReceipt: receipt.id,
  });
}

/** The sealed request is wiped with the end, and late evidence may still come. */
function left({ dossier: { baseline, items }, tool }: Run): Pick<Told, 'left'> {
  if (!baseline.kept?.length && !items?.length && !tool.remembered) return {};
  return { left: { baseline: { ...baseline, never: {} }, ...(items ? { items } : {}) } };
}

/** Not one byte was sent, and none will be: the world is not what was approved, or nobody approved it in time. */
async function endUnsent(run: Run, ending: Unsent): Promise<boolean> {
  const { operation, parts } = run;
  return move(run, unsentEnding(parts, operation, ending));
}

/** Into a person's hands. The guard keys and the sealed request stay: nothing else may touch the entity until it is decided. */
async function toReview(run: Run, seen: ForReview): Promise<boolean> {
  const { reason } = seen;
  const { operation, tool, parts } = run;
  const undo = undoOf(run, seen.result ?? null);
  const outcome = reason === 'NOT_DISPATCHED' ? 'not_committed' : operation.effectSeen || reason === 'DIVERGENCE' ? 'committed' : 'unknown';
  const receipt = effectReceipt(parts, operation, { tool, args: run.dossier.args }, {
    disposition: 'review', outcome, verified: false, attempts: operation.attempts, result: seen.result ?? null, reason,
    ...(seen.readback ? { readback: seen.readback } : {}), ...(seen.callback ? { callback: seen.callback } : {}), ...(seen.states ? { states: seen.states } : {}),
    ...(reason === 'CONTRADICTED' ? { corrects: operation.effectReceipt } : {}),
  });
  parts.log.warn({ operation: operation.id, tool: operation.tool, reason }, 'an operation went to review');
  return move(run, {
    from: ['approved', 'sending', 'accepted', 'unknown', 'committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned'],
    to: 'review', outcome, reason, attempts: operation.attempts, effectSeen: operation.effectSeen, dueInMs: null, release: true, receipt, effectReceipt: receipt.id,
    review: newReview(run),
    ...(seen.result === undefined || operation.state === 'committed' ? {} : {
      answer: { result: seen.result, states: {}, legal_actions: [], ...trustOf(tool, seen.result), ...(undo ? { compensate: { ...undo } } : {}), decided: decidedBy(run) as unknown as Json },
      ...undoKeyOf(run, undo),
      ...(seen.result === null ? {} : marking(tool, operation)),
    }),
  });
}

function newReview({ parts }: Run): OpenedReview {
  return { id: newReviewId(), deadlineMs: parts.settings.reviewDeadlineMs };
}

/** Put down for recovery on any replica. */
export async function putDown(run: Run, dueInMs: number): Promise<boolean> {
  const { state, attempts } = run.operation;
  return move(run, { from: [state], to: state, attempts, release: true, dueInMs: Math.max(0, Math.round(dueInMs)) });
}

/** An event says that it happened, of what had ended without an effect or is with a person already: it goes, or stays, there with a receipt that corrects. */
export async function contradict(run: Run, callback: JsonObject, effect: { result: Json } | null): Promise<void> {
  const { operation, parts, tool } = run;
  const receipt = effectReceipt(parts, operation, { tool, args: run.dossier.args }, {
    disposition: 'review', outcome: 'committed', verified: false, attempts: operation.attempts, result: null, callback, reason: 'CONTRADICTED', corrects: operation.effectReceipt,
  });
  await parts.ledger.witness(operation.attempt, receipt, newReview(run), effect ? effectOf(run, effect.result) : undefined);
  parts.log.warn({ operation: operation.id, tool: operation.tool, reason: 'CONTRADICTED' }, 'a service tells of an effect that was not known of');
}

/** Of what is with a person: evidence for the decision, which proves nothing by itself once an attempt is in doubt. */
export async function keepRefusal({ operation, parts, tool, dossier }: Run, callback: JsonObject): Promise<void> {
  const receipt = effectReceipt(parts, operation, { tool, args: dossier.args }, {
    disposition: 'review', outcome: operation.outcome ?? 'unknown', verified: false, attempts: operation.attempts, result: null, callback, reason: operation.reason,
  });
  await parts.ledger.record({ receipts: [receipt] });
}

/** What it changes here, of an operation that had ended and let that go. */
function effectOf(run: Run, result: Json): { moves: EntityMove[]; items: string[] } {
  return { moves: keptMoves(run), items: itemsDone(run.dossier, itemsOf(run, result)).filter(({ done }) => done).map(({ identity }) => identity) };
}

/**
 * Our lease was lost and our answer says that it happened: evidence that no fencing token can make untrue. What is still open is settled
 * under the present fence, where the evidence is whole, and else looked at again; what ended, or was sent again since, is contradicted.
 */
async function testify(run: Run, evidence: Committed | null): Promise<Standing> {
  const { operation, parts, tool } = run;
  const current = await parts.ledger.get(operation.tenant, operation.id);
  if (!current) return 'lost';
  const attempts = [...current.attempts.filter(({ number }) => number !== operation.attempt), ...operation.attempts.slice(-1)];
  const contradiction = effectReceipt(parts, operation, { tool, args: run.dossier.args }, {
    disposition: 'review', outcome: 'committed', verified: false, attempts, result: evidence?.result ?? null, reason: 'CONTRADICTED', corrects: current.effectReceipt,
  });
  const state = await parts.ledger.witness(operation.attempt, contradiction, newReview(run), evidence ? effectOf(run, evidence.result) : undefined);
  if (evidence === null || state === null || !stillOpen.has(state)) return 'lost';
  return settleAsSuccessor(run, evidence, { ...current, attempts });
}

/** Recovery may be at it in the same moment and move the fence; the effect is known here, so look again and settle under the new one. */
async function settleAsSuccessor(run: Run, evidence: Committed, seen: Run['operation']): Promise<Standing> {
  let current: Run['operation'] | null = seen;
  for (let n = 0; n < settleTries && current && stillOpen.has(current.state); n++) {
    const successor: Run = { ...run, operation: { ...current, attempts: seen.attempts, effectSeen: true } };
    if (await settleCommitted(successor, evidence)) {
      run.operation = successor.operation;
      return 'settled';
    }
    current = await run.parts.ledger.get(seen.tenant, seen.id);
  }
  return 'lost';
}

const settleTries = 5;
const stillOpen: ReadonlySet<OperationState> = new Set(['sending', 'accepted', 'unknown']);
const insistMs = 1000;
const insistTimes = 120;

/** The effect is known to this process alone while the ledger is away: told as soon as it is back, however the lease has fared meanwhile. */
async function insist(run: Run, evidence: Committed | null): Promise<void> {
  const mine: Run = { ...run, operation: { ...run.operation } };
  for (let n = 0; n < insistTimes; n++) {
    await new Promise((resolve) => { setTimeout(resolve, insistMs).unref(); });
    try {
      await testify(mine, evidence);
      return;
    } catch (error) {
      if (!(error instanceof LedgerUnavailable)) return run.parts.log.error({ err: error, operation: run.operation.id }, 'a known effect could not be recorded');
    }
  }
}
