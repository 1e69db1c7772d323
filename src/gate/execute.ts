/**
 * Stage 4, execute: one durable commit, then one send. It decides nothing: what may be executed was admitted before.
 *
 * The send fence: the window begins before the commit is issued, so that however long the commit takes, no byte is written after the
 * `send_by` that the ledger holds, and whoever takes over knows from when a read-back can prove absence.
 */
import { randomUUID } from 'node:crypto';
import { EvaluationError, type RenderedRequest } from '../contract/plan.js';
import { LedgerUnavailable, refuse, type Refusal } from '../errors.js';
import type { Exchange } from '../upstream/exchange.js';
import { executionBudget, noExecutionsLeft } from './budgets.js';
import type { AdmittedCall } from './calls.js';
import { byName, outdated } from './observe.js';
import { operationOf } from './operation.js';
import type { Parts } from './parts.js';
import { closedRefusal, holding, writeTraffic } from './place.js';
import type { Dossier, Intent, Place, Reservation } from './ports.js';
import { predicateError } from './predicate-error.js';
import type { Progress } from './progress.js';
import { decisionReceipt } from './receipts.js';
import type { Run } from './run.js';
import { resourceOf } from './resource.js';
import { callScope } from './scope.js';
import { guardTopic } from './turn.js';
import type { WaitingCall } from './waiting.js';
import { type ProposedIntent, withdraw } from './withdraw.js';

export type Reserved = { run: Run; place: Place; attemptId: string; sendBefore: number; topics: string[]; release(): void };

/** Somebody else holds the operation or the entity, what was observed has grown old in the line, or it was cancelled: look again. */
export type Conflict = { conflict: 'exists' | 'guarded' | 'outdated' | 'given_up' };

/** The place comes first: whoever has written an intent sends at once, and waits for nobody. */
async function reserve(
  parts: Parts, call: AdmittedCall, until: number, progress: Progress, legalActions: (state: string) => string[], waiting: WaitingCall,
): Promise<Reserved | Conflict | Refusal> {
  const place = await parts.upstreamGate.enter(call.tool.upstream, { traffic: writeTraffic(call.tool), as: 'first', until, signal: waiting.signal });
  if ('closed' in place) return closedRefusal(place);
  let reserved: Reserved | Conflict | Refusal | undefined;
  try {
    reserved = place.waited && outdated(call) ? { conflict: 'outdated' } : await reserveAt(place, parts, call, progress, legalActions, waiting);
    return reserved;
  } finally {
    if (!reserved || !('run' in reserved)) place.leave();
  }
}

async function reserveAt(
  place: Place, parts: Parts, call: AdmittedCall, progress: Progress, legalActions: (state: string) => string[], waiting: WaitingCall,
): Promise<Reserved | Conflict | Refusal> {
  if (parts.draining()) return refuse('DRAINING', 'This replica takes no new calls.');
  if (!(await waiting.begin())) return { conflict: 'given_up' };
  try {
    return await reserveNow(place, parts, call, progress, legalActions, waiting);
  } finally {
    waiting.end();
  }
}

async function reserveNow(
  place: Place, parts: Parts, call: AdmittedCall, progress: Progress, legalActions: (state: string) => string[], waiting: WaitingCall,
): Promise<Reserved | Conflict | Refusal> {
  const { settings } = parts;
  const fenceFrom = performance.now();
  const intent = intentOf(parts, call, progress, call.tool.render(callScope(call)));
  const run = runOf(parts, call, intent, fenceFrom, legalActions);
  const reservation = await reserveOrWithdraw(run, intent);
  if (!reservation.reserved) {
    if (reservation.because !== 'budget') return { conflict: reservation.because };
    return noExecutionsLeft(call.session, { limit: reservation.quota, used: reservation.used });
  }
  waiting.leave();
  progress.decisionReceipt = intent.receipt.id;
  const { operation } = run;
  return { run, place, attemptId: intent.attemptId, sendBefore: fenceFrom + settings.sendWindowMs,
    topics: intent.guardKeys.map((key) => guardTopic(operation.tenant, key)), release: parts.hold({ tenant: operation.tenant, id: operation.id, fence: 1 }) };
}

/** A request that cannot be put together (an optional argument that its template needs) is refused like any rule that fails. */
export async function reserveOrRefuse(...given: Parameters<typeof reserve>): ReturnType<typeof reserve> {
  try {
    return await reserve(...given);
  } catch (error) {
    if (error instanceof EvaluationError) return predicateError('http', error);
    throw error;
  }
}

/** Of an intent whose acknowledgement never came nobody is told that it was sent, and it is not: should it be there after all, it is taken back. */
async function reserveOrWithdraw(run: Run, intent: ProposedIntent): Promise<Reservation> {
  try {
    return await run.parts.ledger.reserve(intent);
  } catch (error) {
    if (error instanceof LedgerUnavailable) void withdraw(run.parts, run.tool, intent);
    throw error;
  }
}

function runOf(parts: Parts, call: AdmittedCall, { operation }: ProposedIntent, fenceFrom: number, legalActions: (state: string) => string[]): Run {
  return {
    parts, tool: call.tool, operation, dossier: operation.dossier, absentFrom: null, firstSentAt: fenceFrom,
    reconcileBy: fenceFrom + parts.settings.reconcileDeadlineMs, takenOver: false, witnessed: false, known: null, legalActions,
  };
}

export function send({ run, place, attemptId, sendBefore }: Reserved): Promise<Exchange> {
  const { tool, dossier, parts } = run;
  return holding(place, parts.upstream.send(dossier.request as RenderedRequest, {
    upstream: tool.upstream, attempt: attemptId, deadlineMs: tool.upstream.deadlineMs, sendBefore,
  }));
}

/** Sorted, as they are locked on every replica. */
export function guardsOf({ guards }: AdmittedCall): AdmittedCall['guards'] {
  return [...guards].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** @param parked what it waits for before it is sent, which then claims its guard keys. */
export function intentOf(parts: Parts, call: AdmittedCall, progress: Progress, request: RenderedRequest, parked?: Intent['parked']): ProposedIntent {
  const { principal, envelope, identity, operationId } = call;
  const { sendWindowMs, leaseMs, reconcileDeadlineMs } = parts.settings;
  const receipt = decisionReceipt(parts, progress, principal.tenant, call, {
    disposition: parked ? 'approval_required' : 'executed', operationId, ...(parked ? { approval: { ...parked.asked } } : {}),
  });
  const dossier = dossierOf(call, request, parked ? { principal, envelope } : undefined);
  const operation = operationOf(call, {
    state: parked ? 'parked' : 'sending', owner: parts.replica, attempt: 1, attempts: [], reason: null, outcome: null, compensates: identity.undoes,
    decisionReceipt: receipt.id, dossier, answer: null, clock: { sinceFirstSent: 0, untilSendBy: sendWindowMs, untilReconcileBy: reconcileDeadlineMs, untilDue: leaseMs },
  });
  const guards = parked ? [] : guardsOf(call);
  return {
    operation: operation as ProposedIntent['operation'],
    afterCommitted: call.afterCommitted,
    attemptId: randomUUID(),
    writeId: randomUUID(),
    owner: parts.replica,
    sendWindowMs,
    leaseMs,
    reconcileDeadlineMs,
    guardKeys: guards.map(({ key }) => key),
    guardEpochs: guards.map(({ epoch }) => epoch),
    budget: executionBudget(principal, call.session, parts.settings),
    alias: identity.callKey && !envelope.callIdMinted
      ? { tenant: principal.tenant, callKey: identity.callKey, fingerprint: identity.fingerprint, operationId, previous: call.previousOperation }
      : null,
    receipt,
    ...(parked ? { parked } : {}),
  };
}

function dossierOf(call: AdmittedCall, request: RenderedRequest, proposal: Dossier['proposal']): Dossier {
  const scope = callScope(call);
  return {
    request, args: call.args, bound: call.bound, observed: byName(call.observations), resource: resourceOf(call), untrusted: call.untrusted,
    baseline: {
      entity: call.identity.entity?.key ?? null, state: call.entityState,
      kept: call.entities.flatMap(({ plan, key, governed }) => (plan.kept && governed ? [{ type: plan.name, key, state: call.kept[key] as string }] : [])),
      touched: call.entities.map(({ key }) => key).filter((key) => key !== call.identity.entity?.key),
      never: Object.fromEntries(call.tool.never.map((expression) => [expression.source, expression.evaluate(scope)])),
    },
    ...(call.identity.items.length > 0 ? { items: [...call.identity.items] } : {}),
    ...(proposal ? { proposal } : {}),
  };
}
