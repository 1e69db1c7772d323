/**
 * The path of a call. Six stages, in order; read this file first.
 *
 *   parse      bytes → one well-formed call of an allowlisted tool
 *   validate   its arguments; later the world: transition, version, preconditions over fresh observations
 *   authorize  the tool; later the resource
 *   execute    one durable intent, then one send
 *   reconcile  what really happened
 *   route      one write with the receipt, and what may be done next
 *
 * Whatever the guard (everything before execute) refuses has changed nothing anywhere. After the intent no answer is an error until an
 * effect is disproved.
 */
import { EvaluationError } from '../contract/plan.js';
import { isRefusal, LedgerUnavailable, type ProblemCode, refuse, type Refusal } from '../errors.js';
import type { Answer } from '../model.js';
import { operationAnswer, refusalAnswer } from './answer.js';
import { authorizeResource, authorizeTool, usableActions } from './authorize.js';
import type { AuthorizedCall, FreshCall, PermittedCall } from './calls.js';
import { type Earlier, earlierAnswer, type FoundEarlier, replayRefusal, type Standing } from './earlier.js';
import { type Reserved, reserve, send } from './execute.js';
import { observe, survey } from './observe.js';
import { parse, type Received } from './parse.js';
import type { Parts } from './parts.js';
import { Progress } from './progress.js';
import { runRead } from './read-call.js';
import { type CallSoFar, decisionReceipt } from './receipts.js';
import { reconcile } from './reconcile.js';
import { route } from './route.js';
import { Turn } from './turn.js';
import { predicateError, validateShape, validateWorld } from './validate.js';

/** For an answer that is just being written down when the patience ends. */
const graceMs = 50;

export interface CallOptions {
  /** How long the caller waits, in milliseconds. */
  patienceMs: number;
  /** Answer as soon as the intent is durable. */
  respondAsync: boolean;
}

export async function call(parts: Parts, received: Received, options: CallOptions): Promise<Answer> {
  const progress = new Progress(parts.metrics.stage);
  const answer = await guarded(parts, received, options, progress);
  parts.metrics.call(progress.tool?.name ?? '', answer.disposition);
  return answer;
}

async function guarded(parts: Parts, received: Received, options: CallOptions, progress: Progress): Promise<Answer> {
  const until = performance.now() + options.patienceMs;

  const parsed = parse(parts, received, progress);
  progress.pass('parse', isRefusal(parsed) ? 'refuse' : 'pass');
  if (isRefusal(parsed)) return refused(parts, progress, received, null, parsed);

  const shaped = validateShape(parsed, progress);
  progress.pass('validate', isRefusal(shaped) ? 'refuse' : 'pass');
  if (isRefusal(shaped)) return refused(parts, progress, received, parsed, shaped);

  const permitted = authorizeTool(shaped.served.policy, shaped);
  progress.pass('authorize', isRefusal(permitted) ? 'refuse' : 'pass');
  if (isRefusal(permitted)) return refused(parts, progress, received, shaped, permitted);

  const turn = new Turn(parts.locks, permitted, until);
  try {
    return await inTurn(parts, permitted, turn, options, progress, received);
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    parts.log.warn({ err: error.cause }, 'the ledger could not be reached; nothing was sent');
    return refusalAnswer(refuse('UNAVAILABLE', 'The ledger could not record the call. Nothing was sent.'), progress);
  } finally {
    turn.leave();
  }
}

/** Looks, and if nothing answers the call yet, goes on; whenever somebody else was faster, looks again. */
async function inTurn(parts: Parts, permitted: PermittedCall, turn: Turn, options: CallOptions, progress: Progress, received: Received): Promise<Answer> {
  let sighted = false;
  for (;;) {
    const earlier = await lookUp(parts, permitted);
    if (isRefusal(earlier)) return refused(parts, progress, received, permitted, earlier);
    if (earlier.kind !== 'fresh') turn.leave(); // it will change nothing: whoever stands behind it need not wait for its answer
    if (earlier.kind === 'open' && (await turn.changed(earlier.operation))) continue;
    if (earlier.kind !== 'fresh') {
      const answer = await answered(parts, permitted, earlier, progress, received);
      if (answer !== 'again') return answer;
      continue;
    }
    let entered = await turn.enter(0);
    if (!sighted && (entered === 'late' || earlier.call.guarded)) {
      const unseen = await outOfSight(parts, earlier.call, turn, progress);
      if (unseen) return refused(parts, progress, received, earlier.call, unseen);
      sighted = true;
    }
    if (entered === 'late') entered = await turn.enter();
    if (entered === 'late') return refused(parts, progress, received, permitted, busy());
    if (entered === 'waited') continue;

    // While another effect is open on the entity nothing is observed: it would be stale by the time it counts.
    const proposed = earlier.call.guarded ? 'again' : await proposal(parts, earlier.call, turn, options, progress, received);
    if (proposed !== 'again') return proposed;
    if (!(await turn.contend())) return refused(parts, progress, received, permitted, busy());
  }
}

/** Whoever may not see the entity is told so before it waits: neither the wait nor `IN_PROGRESS` may tell it that somebody else is at work there. */
async function outOfSight(parts: Parts, fresh: FreshCall, turn: Turn, progress: Progress): Promise<Refusal | undefined> {
  if (!fresh.tool.entity) return undefined;
  const observed = await observe(parts, fresh, turn.until);
  progress.pass('validate', isRefusal(observed) ? 'refuse' : 'pass');
  if (isRefusal(observed)) return observed;
  const authorized = authorizeResource(fresh.served.policy, observed);
  progress.pass('authorize', isRefusal(authorized) ? 'refuse' : 'pass');
  return isRefusal(authorized) ? authorized : undefined;
}

/** A new proposal, from the observation of the world to its answer; `again` when somebody else reserved first. */
async function proposal(parts: Parts, fresh: FreshCall, turn: Turn, options: CallOptions, progress: Progress, received: Received): Promise<Answer | 'again'> {
  const { catalogue, policy } = fresh.served;
  const legalActions = (state: string): string[] => usableActions(policy, catalogue.tools, fresh, state);

  if (fresh.tool.effect === 'none' && fresh.tool.observesEntity) return runRead(parts, fresh, turn.until, progress, legalActions);
  const observed = await observe(parts, fresh, turn.until);
  progress.pass('validate', isRefusal(observed) ? 'refuse' : 'pass');
  if (isRefusal(observed)) return refused(parts, progress, received, fresh, observed);

  const authorized = authorizeResource(policy, observed);
  progress.pass('authorize', isRefusal(authorized) ? 'refuse' : 'pass');
  if (isRefusal(authorized)) return refused(parts, progress, received, observed, authorized);

  const surveyed = await survey(parts, authorized, turn.until);
  const admitted = isRefusal(surveyed) ? surveyed : validateWorld(surveyed, legalActions);
  progress.pass('validate', isRefusal(admitted) ? 'refuse' : 'pass');
  if (isRefusal(admitted)) return refused(parts, progress, received, authorized as AuthorizedCall, admitted);
  if (admitted.tool.effect === 'none') return runRead(parts, admitted, turn.until, progress, legalActions);

  const reserved = await reserveOrRefuse(parts, admitted, progress, legalActions);
  if ('conflict' in reserved) return 'again';
  if (isRefusal(reserved)) return refused(parts, progress, received, admitted, reserved);

  const finished = finish(parts, reserved, turn.until, progress);
  const answer = options.respondAsync ? undefined : await within(finished, turn.until);
  if (answer) return answer;
  turn.handOver(finished);
  const standing = operationAnswer({ ...reserved.run.operation }, { progress, as: 'proposer' });
  return options.respondAsync ? { ...standing, disposition: 'pending', outcome: null } : standing;
}

/** A request that cannot be put together (an optional argument that its template needs) is refused like any rule that fails. */
async function reserveOrRefuse(...given: Parameters<typeof reserve>): ReturnType<typeof reserve> {
  try {
    return await reserve(...given);
  } catch (error) {
    if (error instanceof EvaluationError) return predicateError('http', error);
    throw error;
  }
}

/** A caller's patience ends its wait, never the work. */
async function within<T>(work: Promise<T>, until: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), Math.max(0, until - performance.now()) + graceMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** From the durable intent to the answer. Nothing in here may become an error of the caller's. */
async function finish(parts: Parts, reserved: Reserved, until: number, progress: Progress): Promise<Answer> {
  const { run } = reserved;
  try {
    const exchange = await send(reserved);
    progress.pass('execute');
    const finding = await reconcile(run, exchange, until);
    progress.pass('reconcile', run.operation.state === 'unknown' ? 'unknown' : 'pass');
    if ((await route(run, finding)) === 'lost') run.operation = (await parts.ledger.get(run.operation.tenant, run.operation.id)) ?? run.operation;
  } catch (error) {
    // The lease runs out and recovery reconciles; until then the honest answer is that it is not known.
    parts.log.error({ err: error, operation: run.operation.id }, 'the outcome of a sent call could not be recorded yet');
    run.operation = { ...run.operation, state: 'unknown', outcome: 'unknown', answer: null };
  } finally {
    reserved.release();
    parts.locks.announce(run.operation.id);
    for (const topic of reserved.topics) parts.locks.announce(topic);
  }
  progress.pass('route');
  return operationAnswer(run.operation, { progress, as: 'proposer' });
}

const neverSeen: FoundEarlier = { call: null, current: null, seenVersion: null, guardEpochs: [], guarded: false, readBefore: null };

async function lookUp(parts: Parts, permitted: PermittedCall): Promise<Earlier | Refusal> {
  const { identity, principal, envelope, tool } = permitted;
  const { tenant } = principal;
  if (tool.effect === 'none' && envelope.callIdMinted) return earlierAnswer(permitted, neverSeen); // an id minted just now has no past
  const [found, read] = await Promise.all([
    parts.ledger.find({
      tenant, callKey: identity.callKey ?? identity.operation, identity: identity.operation,
      seen: identity.entity && tool.effect !== 'none'
        ? { principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId, entity: identity.entity.key }
        : null,
      guardKeys: identity.guardKeys,
    }),
    identity.callKey && !envelope.callIdMinted ? parts.ledger.find({ tenant, callKey: null, identity: identity.callKey, seen: null, guardKeys: [] }) : null,
  ]);
  const earlier = earlierAnswer(permitted, { ...found, readBefore: read?.current ?? null });
  const before = identity.previousOccurrence;
  if (before === null || isRefusal(earlier) || earlier.kind !== 'fresh') return earlier;
  const { current } = await parts.ledger.find({ tenant, callKey: null, identity: before, seen: null, guardKeys: [] });
  if (current?.state === 'committed') return earlier;
  return refuse('OCCURRENCE_NOT_ALLOWED', `Occurrence ${envelope.occurrence - 1} of this call has not committed.`);
}

/** `again`: the call id was bound to the operation just now; whether by this call or by another in the same moment shows when it is looked up. */
async function answered(parts: Parts, permitted: PermittedCall, earlier: Standing, progress: Progress, received: Received): Promise<Answer | 'again'> {
  const { operation, as, unbound } = earlier;
  const refusal = replayRefusal(permitted.served.policy, permitted, operation);
  if (refusal) return refused(parts, progress, received, permitted, refusal);
  if (unbound && operation.state !== 'sending') {
    await parts.ledger.alias({ tenant: operation.tenant, ...unbound, fingerprint: permitted.identity.fingerprint, operationId: operation.id });
    return 'again';
  }
  progress.pass('route', 'replay');
  if (operation.state === 'sending') return refusalAnswer(busy(), progress, operation.id);
  return operationAnswer(operation, { progress, as });
}

function busy(): Refusal {
  return refuse('IN_PROGRESS', 'A call on the same resource has not settled yet. Send this call again with the same ids.');
}

/** What could not be parsed has no receipt, and what is only busy decided nothing. */
const withoutReceipt: ReadonlySet<ProblemCode> = new Set([
  'MALFORMED_JSON', 'DUPLICATE_KEY', 'NUMBER_NOT_FINITE', 'TOO_DEEP', 'INTEGER_PRECISION', 'BODY_TOO_LARGE', 'ARGUMENTS_TOO_LARGE', 'INVALID_ENVELOPE',
  'IN_PROGRESS', 'DRAINING',
]);

/** A refusal is answered once its receipt is durable. */
async function refused(parts: Parts, progress: Progress, received: Received, call: CallSoFar | null, refusal: Refusal): Promise<Answer> {
  const answer = refusalAnswer(refusal, progress);
  if (withoutReceipt.has(refusal.refused)) return answer;
  const receipt = decisionReceipt(parts, progress, received.principal.tenant, call, { disposition: answer.disposition, operationId: null, refusal });
  try {
    await parts.ledger.record({ receipts: [receipt] });
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return refusalAnswer(refuse('UNAVAILABLE', 'The ledger could not record the call. Nothing was sent.'), progress);
  }
  answer.receipts = { decision: receipt.id, effect: null };
  return answer;
}
