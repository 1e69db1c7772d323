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
import { isRefusal, LedgerUnavailable, refuse, type Refusal } from '../errors.js';
import type { Answer, StageName, StepName } from '../model.js';
import { operationAnswer, refusalAnswer, repeatedReadAnswer, type Told } from './answer.js';
import { authorizeResource, authorizeTool, usableActions } from './authorize.js';
import type { AdmittedCall, FreshCall, PermittedCall } from './calls.js';
import { replayRefusal, type Standing } from './earlier.js';
import { reserveOrRefuse } from './execute.js';
import { finish, within } from './finish.js';
import { identifyLate } from './late-entities.js';
import { lookUp } from './look-up.js';
import { observe, survey } from './observe.js';
import { park } from './park.js';
import { parse, type Received } from './parse.js';
import type { Parts } from './parts.js';
import { Progress } from './progress.js';
import { runRead } from './read-call.js';
import type { CallSoFar } from './receipts.js';
import { type Circumstances, refused } from './refused.js';
import type { Signal } from '../signal.js';
import { Turn } from './turn.js';
import { identifyAll, waitingAs } from './cancel-waiting.js';
import type { Given, WaitingCall } from './waiting.js';
import { keep } from './withdraw.js';
import { type LegalActions, validateShape, validateWorld } from './validate.js';

export interface CallOptions {
  /** When the caller stops waiting, on the clock of `performance.now()`. */
  until: number;
  /** Answer as soon as the intent is durable. */
  respondAsync: boolean;
  /**
   * Asked by the guard keys of a call that has no answer yet, again when more of them are known: a refusal where its turn does not let it run
   * (semantics.md section 7, predecessors).
   */
  forbids?(keys: readonly string[]): Refusal | undefined;
  /** By which a turn of calls has entered it already, before its own turn came; whoever entered it leaves it. */
  waiting?: WaitingCall | undefined;
  /** Its caller has hung up. */
  gone?: Signal | undefined;
}

/** Not legal in the present state, and nothing was answered or recorded: the turn may have another call that comes first. */
export interface Deferred { deferredIn: Record<string, string> }

/** One caller's walk through the stages. */
interface Walk {
  parts: Parts;
  progress: Progress;
  options: CallOptions;
  /** Give back what is not legal in the present state, instead of refusing it. */
  defers: boolean;
  /** Null for a read: it has no effect that could be kept from happening. */
  waiting: WaitingCall | null;
  refuse(call: CallSoFar | null, refusal: Refusal, circumstances?: Circumstances): Promise<Answer>;
}

export async function call(parts: Parts, received: Received, options: CallOptions): Promise<Answer> {
  return (await walk(parts, received, options, false)) as Answer;
}

/** As `call`, except where only the present state forbids the call. */
export function callIfLegal(parts: Parts, received: Received, options: CallOptions): Promise<Answer | Deferred> {
  return walk(parts, received, options, true);
}

async function walk(parts: Parts, received: Received, options: CallOptions, defers: boolean): Promise<Answer | Deferred> {
  const progress = new Progress(parts.metrics.stage);
  const walking: Walk = {
    parts, progress, options, defers, waiting: null,
    // What was given up has its answer; what its walk comes to afterwards is no verdict.
    refuse: async (sofar, refusal, circumstances) => (walking.waiting?.over
      ? refusalAnswer(refusal, progress)
      : refused(parts, progress, received.principal, sofar, refusal, circumstances)),
  };
  const answer = await guarded(walking, received);
  if ('disposition' in answer) parts.metrics.call(progress.tool?.name ?? '', answer.disposition);
  return answer;
}

/** Ends a step with what it gave, and says whether it was a refusal. */
function passed<T extends object>(progress: Progress, stage: StageName, step: StepName, given: T): given is Exclude<T, Refusal> {
  const ok = !isRefusal(given);
  progress.pass(stage, step, ok ? 'pass' : 'refuse');
  return ok;
}

async function guarded(walk: Walk, received: Received): Promise<Answer | Deferred> {
  const { parts, progress } = walk;
  const parsed = parse(parts, received, progress);
  if (!passed(progress, 'parse', 'parse', parsed)) return walk.refuse(null, parsed);
  const shaped = validateShape(parsed, progress);
  if (!passed(progress, 'validate', 'shape', shaped)) return walk.refuse(parsed, shaped);
  const permitted = authorizeTool(shaped.served.policy, shaped);
  if (!passed(progress, 'authorize', 'tool', permitted)) return walk.refuse(shaped, permitted);

  if (permitted.tool.effect === 'none') return turnOf(walk, permitted);
  const waiting = walk.options.waiting ?? parts.waiting.enter(permitted.principal, () => permitted);
  walk.waiting = waiting;
  const hangUp = (): void => void waiting.hangUp();
  walk.options.gone?.addEventListener('abort', hangUp);
  if (walk.options.gone?.aborted) hangUp();
  try {
    const answer = waiting.over ?? (await waiting.unless(turnOf(walk, permitted)));
    return 'up' in answer ? await givenUp(walk, permitted, answer) : answer;
  } finally {
    walk.options.gone?.removeEventListener('abort', hangUp);
    if (!walk.options.waiting) waiting.leave();
  }
}

/** Told at once; its walk ends by itself, without a place in any line and without an intent. */
async function givenUp(walk: Walk, permitted: PermittedCall, given: Given): Promise<Answer> {
  const { parts, progress } = walk;
  progress.pass('execute', 'turn', 'refuse');
  if (given.up === 'cancelled') return operationAnswer(given.operation, { progress, as: 'proposer' });
  if (given.up === 'draining') return refusalAnswer(refuse('DRAINING', 'This replica takes no new calls.'), progress);
  return refused(parts, progress, permitted.principal, permitted, refuse('CANCELLED', 'Its caller hung up before it was sent. Nothing was sent.'));
}

async function turnOf(walk: Walk, permitted: PermittedCall): Promise<Answer | Deferred> {
  const { parts, progress } = walk;
  const turn = new Turn(parts.locks, permitted, walk.options.until, walk.waiting?.signal);
  walk.waiting?.signal.addEventListener('abort', () => turn.leave()); // whoever stands behind it need not wait until its walk has ended
  try {
    return await inTurn(walk, permitted, turn);
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    parts.log.warn({ err: error }, 'the ledger could not be reached; nothing was sent');
    return refusalAnswer(refuse('UNAVAILABLE', 'The ledger could not record the call. Nothing was sent.'), progress);
  } finally {
    turn.leave();
  }
}

/** Looks, and if nothing answers the call yet, goes on; whenever somebody else was faster, looks again. */
async function inTurn(walk: Walk, permitted: PermittedCall, turn: Turn): Promise<Answer | Deferred> {
  const { progress } = walk;
  const forbidden = walk.options.forbids?.(permitted.identity.guardKeys);
  let sighted = false;
  for (;;) {
    const earlier = await lookUp(walk.parts, permitted);
    if (walk.waiting?.over) return refusalAnswer(busy(), progress);
    if (!passed(progress, 'validate', 'look_up', earlier)) return walk.refuse(permitted, earlier);
    if (earlier.kind !== 'fresh') {
      turn.leave(); // it will change nothing: whoever stands behind it need not wait for its answer
      if (earlier.kind === 'open' && !forbidden && (await turn.changed(earlier.operation))) {
        progress.pass('validate', 'turn');
        continue;
      }
      const answer = await answered(walk, permitted, earlier);
      if (answer !== 'again') return answer;
      continue;
    }
    const cancelled = await cancelledMeanwhile(walk, earlier.call);
    if (cancelled) return cancelled;
    if (forbidden) return walk.refuse(permitted, forbidden);
    const distrusted = whereUntrusted(walk, earlier.call);
    if (distrusted) return walk.refuse(earlier.call, distrusted);
    let entered = await turn.enter(0);
    if (!sighted && (entered === 'late' || earlier.call.guarded)) {
      const unseen = await outOfSight(walk, earlier.call, turn.until);
      if (unseen) return walk.refuse(earlier.call, unseen);
      sighted = true;
    }
    if (entered === 'late') entered = await turn.enter();
    progress.pass('validate', 'turn');
    if (entered === 'late') return stillBusy(walk, earlier.call);
    if (entered === 'waited') continue;

    // While another effect is open on the entity nothing is observed: it would be stale by the time it counts.
    const proposed = earlier.call.guarded ? 'again' : await proposal(walk, earlier.call, turn);
    if (proposed !== 'again') return proposed;
    const contended = await turn.contend();
    progress.pass('validate', 'turn');
    if (!contended) return stillBusy(walk, earlier.call);
  }
}

/** Its wait is over, and where an equal call still waits the operation that both would become is named: that one can be asked for, and cancelled. */
async function stillBusy({ parts, progress, waiting }: Walk, fresh: FreshCall): Promise<Answer> {
  const id = fresh.operationId;
  await identifyAll(parts, fresh.principal);
  const { tenant, id: principal } = fresh.principal;
  const others = waitingAs(parts, { tenant, id, principal, subject: fresh.envelope.subject }).some((other) => other !== waiting);
  return refusalAnswer(busy(), progress, others ? id : null);
}

/** The operation that it waited to become was cancelled, on another replica: it does not become the next one of its own accord. */
async function cancelledMeanwhile({ parts, progress, waiting }: Walk, fresh: FreshCall): Promise<Answer | undefined> {
  const before = waiting?.known?.id;
  const id = fresh.operationId;
  if (waiting) waiting.known = { fresh, id };
  if (before === undefined || before === id) return undefined;
  const ended = await parts.ledger.get(fresh.principal.tenant, before);
  return ended?.reason === 'CANCELLED' ? operationAnswer(ended, { progress, as: 'again' }) : undefined;
}

/** That the session is marked is known only now, so policy is asked again about the tool itself: no other question may follow for one without an entity. */
function whereUntrusted({ progress }: Walk, fresh: FreshCall): Refusal | undefined {
  if (!fresh.untrusted) return undefined;
  const permitted = authorizeTool(fresh.served.policy, fresh);
  return passed(progress, 'authorize', 'tool', permitted) ? undefined : permitted;
}

/** Whoever may not see the entity is told so before it waits: neither the wait nor `IN_PROGRESS` may tell it that somebody else is at work there. */
async function outOfSight({ parts, progress }: Walk, fresh: FreshCall, until: number): Promise<Refusal | undefined> {
  if (!fresh.tool.entity) return undefined;
  const observed = await observe(parts, fresh, until);
  if (observed === 'guarded') return undefined;
  if (!passed(progress, 'validate', 'observe', observed)) return observed;
  const authorized = authorizeResource(fresh.served.policy, observed);
  return passed(progress, 'authorize', 'resource', authorized) ? undefined : authorized;
}

/** A new proposal, from the observation of the world to its answer; `again` when somebody else reserved first. */
async function proposal(walk: Walk, fresh: FreshCall, turn: Turn): Promise<Answer | Deferred | 'again'> {
  const { parts, progress } = walk;
  const { catalogue, policy } = fresh.served;
  const legalActions: LegalActions = (state, entity) => usableActions(policy, catalogue.tools, fresh, state, entity);
  const { tool } = fresh;
  if (tool.effect === 'none' && tool.observesEntity) {
    const identified = await identifyLate(parts, fresh);
    const refusal = typeof identified === 'object' ? identified : fresh.unbound;
    if (refusal) return walk.refuse(fresh, refusal);
    return runRead(parts, fresh, turn.until, progress, legalActions);
  }

  const observed = await observe(parts, fresh, turn.until);
  if (observed === 'guarded') return 'again';
  if (!passed(progress, 'validate', 'observe', observed)) return walk.refuse(fresh, observed);
  const authorized = authorizeResource(policy, observed);
  if (!passed(progress, 'authorize', 'resource', authorized)) return walk.refuse(observed, authorized);
  const surveyed = await survey(parts, authorized, turn.until);
  if (surveyed === 'guarded') return 'again';
  progress.pass('validate', 'survey', isRefusal(surveyed) ? 'refuse' : 'pass');
  const forbidden = walk.options.forbids?.(fresh.guards.map(({ key }) => key));
  const admitted = isRefusal(surveyed) ? surveyed : (forbidden ?? validateWorld(surveyed, legalActions));
  if (!passed(progress, 'validate', 'world', admitted)) {
    if (await overtaken(parts, fresh)) return 'again';
    return walk.defers && tooEarly.has(admitted.refused) ? { deferredIn: admitted.states ?? {} } : walk.refuse(authorized, admitted);
  }
  if (tool.effect === 'none') return runRead(parts, admitted, turn.until, progress, legalActions);

  if (admitted.approval) return parkedAnswer(walk, admitted);
  const reserved = await reserveOrRefuse(parts, admitted, turn.until, progress, legalActions, walk.waiting as WaitingCall);
  if ('conflict' in reserved) return 'again';
  if (!passed(progress, 'execute', 'intent', reserved)) return walk.refuse(admitted, reserved);

  const finished = finish(parts, reserved, turn.until, progress);
  const answer = walk.options.respondAsync ? undefined : await within(finished, turn.until);
  if (answer) return answer;
  turn.handOver(finished);
  const standing = operationAnswer({ ...reserved.run.operation }, { progress, as: 'proposer' });
  return walk.options.respondAsync ? { ...standing, disposition: 'pending', outcome: null } : standing;
}

/** A call that stands behind it in its turn may make it right. */
const tooEarly: ReadonlySet<Refusal['refused']> = new Set(['TRANSITION_ERROR', 'EARLIER_RESULT_MISSING']);

/** A write went through since the look-up, on another replica: the verdict is about what that one left, and that one may have been this very call. */
async function overtaken(parts: Parts, fresh: FreshCall): Promise<boolean> {
  if (fresh.tool.effect === 'none') return false;
  const { principal, identity, guards } = fresh;
  const now = await parts.ledger.find({ tenant: principal.tenant, callKey: null, identity: identity.operation, seen: null, guardKeys: guards.map(({ key }) => key) });
  return now.guarded || now.guardEpochs.some((epoch, n) => epoch !== guards[n]?.epoch);
}

/** It needs an approval: durable, and not sent. */
async function parkedAnswer(walk: Walk, admitted: AdmittedCall): Promise<Answer | 'again'> {
  const { parts, progress } = walk;
  const parked = await park(parts, admitted, progress, walk.waiting as WaitingCall);
  if ('conflict' in parked) return 'again';
  if (isRefusal(parked)) return walk.refuse(admitted, parked);
  progress.pass('execute', 'intent');
  return operationAnswer(parked, { progress, as: 'proposer' });
}

/** `again`: the call id was bound to the operation just now, whether by this call or by another in the same moment shows when it is looked up; or what waited has moved. */
async function answered(walk: Walk, permitted: PermittedCall, { operation, as, unbound, repeatedRead }: Standing): Promise<Answer | 'again'> {
  const { parts, progress } = walk;
  const refusal = replayRefusal(permitted.served.policy, permitted, operation);
  if (refusal) return walk.refuse(permitted, refusal, { replay: true });
  const told = operation.answer as unknown as Told | null;
  if (told?.untrusted && operation.sessionId !== permitted.envelope.sessionId) {
    const { principal, envelope, tool } = permitted;
    await parts.ledger.record({ receipts: [], mark: { tenant: principal.tenant, principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId, tool: tool.name } });
  }
  if (unbound && operation.state !== 'sending') {
    await parts.ledger.alias({ tenant: operation.tenant, ...unbound, fingerprint: permitted.identity.fingerprint, operationId: operation.id });
    return 'again';
  }
  if (operation.state === 'parked' && !(await keep(parts, operation))) return 'again';
  progress.pass('route', 'route', 'replay');
  if (operation.state === 'sending') return refusalAnswer(busy(), progress, operation.id);
  return repeatedRead ? repeatedReadAnswer(operation, progress) : operationAnswer(operation, { progress, as });
}

function busy(): Refusal {
  return refuse('IN_PROGRESS', 'A call on the same resource has not settled yet. Send this call again with the same ids.');
}
