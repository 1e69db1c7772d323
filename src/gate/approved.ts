/**
 * An approved call on its way: everything is asked again over fresh observations, then one commit claims its guard keys and makes it an
 * intent like any other, and the bytes that were approved are sent. What a person approved an hour ago may not be what is true now.
 *
 * What fails before the send leaves it approved, to be tried again; after some tries it is put before a person, who sees why.
 */
import { randomUUID } from 'node:crypto';
import { canonicalText } from '../canonical.js';
import { EvaluationError, type RenderedRequest } from '../contract/plan.js';
import { isRefusal, type ProblemCode, refuse, type Refusal } from '../errors.js';
import type { JsonObject } from '../model.js';
import type { Exchange } from '../upstream/exchange.js';
import { approvalDigest } from './approval.js';
import { authorizeResource, authorizeTool } from './authorize.js';
import { dailyPurse, sessionScope } from './budgets.js';
import { type AdmittedCall, begun, type Envelope, type FreshCall, type PermittedCall } from './calls.js';
import { asFresh, keptOf } from './earlier.js';
import { guardsOf } from './execute.js';
import type { Finding, Unsent } from './finding.js';
import { observe, outdated, survey } from './observe.js';
import { closedRefusal, holding, writeTraffic } from './place.js';
import { alreadyDone } from './items.js';
import type { Asked, Place } from './ports.js';
import { predicateError } from './predicate-error.js';
import { Progress } from './progress.js';
import { type CallSoFar, decisionReceipt } from './receipts.js';
import { reconcile } from './reconcile.js';
import type { Run } from './run.js';
import { callScope } from './scope.js';
import { bindUndo } from './undo.js';
import { validateShape, validateWorld } from './validate.js';

/** Not the world's verdict, but this moment's. */
const passing: ReadonlySet<ProblemCode> = new Set(['OBSERVATION_FAILED', 'RATE_LIMITED', 'UPSTREAM_BUSY', 'UPSTREAM_SUSPENDED', 'IN_PROGRESS', 'DRAINING', 'UNAVAILABLE']);

export async function executeApproved(run: Run, until: number): Promise<Finding> {
  if (run.parts.draining()) return { kind: 'later', dueInMs: 0 };
  const progress = progressOf(run);
  const call = await askAgain(run, progress, until).catch((error: unknown): Asking => {
    if (!(error instanceof EvaluationError)) throw error;
    return { refusal: predicateError('effects', error), sofar: null };
  });
  if ('refusal' in call) return passing.has(call.refusal.refused) ? tryAgain(run, call.refusal) : stale(run, progress, call);
  return dispatch(run, progress, call, until);
}

interface Asking { refusal: Refusal; sofar: CallSoFar | null }

function progressOf({ operation, tool }: Run): Progress {
  const progress = new Progress(() => undefined);
  Object.assign(progress, {
    callId: operation.callId, sessionId: operation.sessionId, intentId: operation.intentId, principal: operation.principal, toolName: operation.tool, tool,
  });
  return progress;
}

/** The path of the call once more, from its arguments on, as the one who proposed it. */
async function askAgain(run: Run, progress: Progress, until: number): Promise<AdmittedCall | Asking> {
  const { parts, operation, dossier } = run;
  const changed = (what: string, sofar: CallSoFar | null = null): Asking => ({ refusal: refuse('STALE_APPROVAL', what), sofar });
  const served = parts.served();
  const tool = served.catalogue.tools.get(operation.tool);
  if (!dossier.proposal || !tool || tool.digest !== operation.contractDigest) return changed('The contract of the tool has changed since.');
  const { principal, envelope } = dossier.proposal;
  const parsed = begun({ served, principal, envelope: envelope as Envelope, tool, given: dossier.args });

  const shaped = validateShape(parsed, progress);
  if (isRefusal(shaped)) return { refusal: shaped, sofar: parsed };
  await bindUndo(parts, shaped);
  if (!shaped.identity.operation.equals(operation.identity) || !shaped.identity.fingerprint.equals(operation.fingerprint)) {
    return changed('It is not the call that was approved.', shaped);
  }
  const permitted = authorizeTool(served.policy, shaped);
  if (isRefusal(permitted)) return { refusal: permitted, sofar: shaped };
  const fresh = await lookUpAgain(run, permitted);
  const trusted = authorizeTool(served.policy, fresh); // what the session has been told since may speak against it
  if (isRefusal(trusted)) return { refusal: trusted, sofar: fresh };
  if (fresh.guarded) return { refusal: busy, sofar: fresh };
  const done = await alreadyDone(parts, fresh);
  if (done) return { refusal: done, sofar: fresh };

  const observed = await observe(parts, fresh, until);
  if (observed === 'guarded') return { refusal: busy, sofar: fresh };
  if (isRefusal(observed)) return { refusal: observed, sofar: fresh };
  const authorized = authorizeResource(served.policy, observed);
  if (isRefusal(authorized)) return { refusal: authorized, sofar: observed };
  const surveyed = await survey(parts, authorized, until);
  if (surveyed === 'guarded') return { refusal: busy, sofar: authorized };
  if (isRefusal(surveyed)) return { refusal: surveyed, sofar: authorized };
  surveyed.seenVersion = versionOf(run);
  const admitted = validateWorld(surveyed, () => []);
  if (isRefusal(admitted)) return { refusal: admitted, sofar: surveyed };
  const moved = whatMoved(run, admitted);
  return moved ? changed(moved, admitted) : admitted;
}

const busy = refuse('IN_PROGRESS', 'A call on the same resource has not settled yet.');

async function lookUpAgain({ parts, operation }: Run, permitted: PermittedCall): Promise<FreshCall> {
  const { identity, envelope, principal } = permitted;
  const found = await parts.ledger.find({
    tenant: operation.tenant, callKey: null, identity: operation.identity, seen: null, guardKeys: identity.guardKeys,
    trust: permitted.served.catalogue.tracksTrust ? { principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId } : null,
    kept: keptOf(identity.entities).map(({ plan, key }) => ({ service: plan.service, entity: key })),
    session: { ...sessionScope(permitted), purse: dailyPurse(principal), tool: operation.tool },
  });
  return asFresh(permitted, found, { generation: operation.generation, operationId: operation.id, upstreamKey: operation.upstreamKey, afterCommitted: false, previousOperation: null });
}

/** The one that was observed when it was proposed: that is what the approver was told about, and what is sent rests on. */
function versionOf({ dossier, tool }: Run): string | null {
  if (!tool.entity?.observation?.version) return null;
  const version = (dossier.observed[tool.entity.name] as JsonObject | undefined)?.['version'];
  return typeof version === 'string' ? version : null;
}

/** Legal still, but not what it was: what is sent was rendered from the world as it was then, and is held against that world afterwards. */
function whatMoved({ operation, dossier }: Run, call: AdmittedCall): string | undefined {
  const asked = askedOf(operation.answer);
  if (!asked || !call.approval || approvalDigest({ ...operation, dossier }, call.served.policy.version, call.approval) !== asked.digest) {
    return 'The policies, or the rule that asked for the approval, have changed since.';
  }
  if (canonicalText(call.bound) !== canonicalText(dossier.bound)) return 'A value that it takes from an earlier result is another one now.';
  const { entity, state, kept = [], never } = dossier.baseline;
  const elsewhere = call.entityState === state ? kept.find(({ key, state: then }) => call.kept[key] !== then)?.key : (entity ?? 'The entity');
  if (elsewhere !== undefined) return `\`${elsewhere}\` is in another state than when it was proposed.`;
  const scope = callScope(call);
  const other = call.tool.never.find((expression) => canonicalText(expression.evaluate(scope)) !== canonicalText(never[expression.source] ?? null));
  return other ? `\`${other.source}\` has changed since it was proposed.` : undefined;
}

function askedOf(answer: JsonObject | null): Pick<Asked, 'id' | 'by' | 'digest'> | null {
  return (answer?.['approval'] as unknown as Asked | undefined) ?? null;
}

function stale({ parts, operation }: Run, progress: Progress, { refusal, sofar }: Asking): Unsent {
  const own = refusal.refused === 'STALE_APPROVAL';
  const detail = own ? refusal.detail : `It does not hold any more: ${refusal.detail}`;
  const receipt = decisionReceipt(parts, progress, operation.tenant, sofar, {
    disposition: 'precondition_failed', operationId: operation.id, refusal: own ? refusal : { ...refusal, detail },
    ...(operation.approval ? { approval: { id: operation.approval.id } } : {}),
  });
  return { kind: 'unsent', from: 'approved', code: 'STALE_APPROVAL', detail, receipt };
}

function tryAgain({ operation, parts }: Run, { refused, retryAfterMs = 0 }: Pick<Refusal, 'refused' | 'retryAfterMs'>): Finding {
  const { backoffFirstMs, backoffMaxMs, dispatchTries } = parts.settings;
  const tries = operation.attempts.length + 1;
  operation.attempts = [...operation.attempts, { number: 0, sent: false, status: null, reason: refused, outcome: 'not_committed', ms: 0 }];
  if (tries >= dispatchTries) return { kind: 'review', reason: 'NOT_DISPATCHED' };
  return { kind: 'later', dueInMs: Math.max(retryAfterMs, Math.min(backoffMaxMs, backoffFirstMs * 2 ** (tries - 1)) * (0.75 + Math.random() / 2)) };
}

async function dispatch(run: Run, progress: Progress, call: AdmittedCall, until: number): Promise<Finding> {
  const { parts, tool } = run;
  const place = await parts.upstreamGate.enter(tool.upstream, { traffic: writeTraffic(tool), as: 'first', until });
  if ('closed' in place) return tryAgain(run, closedRefusal(place));
  const sent = await sendAt(place, run, progress, call).finally(() => place.leave());
  return sent.kind === 'response' || sent.kind === 'failure' ? reconcile(run, sent, until) : sent;
}

/** What was observed may have grown old in the line: then it is asked again at the next try. */
async function sendAt(place: Place, run: Run, progress: Progress, call: AdmittedCall): Promise<Exchange | Finding> {
  const { parts, operation, dossier, tool } = run;
  if (place.waited && outdated(call)) return tryAgain(run, { refused: 'UPSTREAM_BUSY' });
  const { leaseMs, sendWindowMs, reconcileDeadlineMs } = parts.settings;
  const attemptId = randomUUID();
  const receipt = decisionReceipt(parts, progress, operation.tenant, call, {
    disposition: 'executed', operationId: operation.id, ...(operation.approval ? { approval: { id: operation.approval.id } } : {}),
  });
  const guards = guardsOf(call);
  const fenceFrom = performance.now();
  const given = await parts.ledger.dispatch({
    tenant: operation.tenant, operationId: operation.id, fence: operation.fence, writeId: randomUUID(), owner: parts.replica, attemptId, sendWindowMs, leaseMs,
    reconcileDeadlineMs, guardKeys: guards.map(({ key }) => key), guardEpochs: guards.map(({ epoch }) => epoch), receipt,
  });
  if (given === 'guarded') return tryAgain(run, { refused: 'IN_PROGRESS' });
  if (given === 'lost') return { kind: 'lost' };
  Object.assign(operation, { state: 'sending', outcome: null, reason: null, decisionReceipt: receipt.id });
  run.firstSentAt = fenceFrom;
  run.reconcileBy = fenceFrom + reconcileDeadlineMs;
  return holding(place, parts.upstream.send(dossier.request as RenderedRequest, {
    upstream: tool.upstream, attempt: attemptId, deadlineMs: tool.upstream.deadlineMs, sendBefore: fenceFrom + sendWindowMs,
  }));
}
