/** A read tool's own work: nothing is reserved before it, and its answer is recorded before it leaves. */
import { randomUUID } from 'node:crypto';
import { EvaluationError } from '../contract/plan.js';
import { isRefusal, problems, refuse, type Refusal } from '../errors.js';
import type { Answer } from '../model.js';
import { operationAnswer, type Told } from './answer.js';
import { authorizeResource, hidden } from './authorize.js';
import type { FreshCall, Observation, ObservedCall } from './calls.js';
import { withKeptState } from './observe.js';
import { operationOf } from './operation.js';
import type { Parts } from './parts.js';
import type { SeenEntity, StoredAnswer } from './ports.js';
import { closedRefusal } from './place.js';
import { predicateError } from './predicate-error.js';
import type { Progress } from './progress.js';
import { versionOf, withVersion } from './observe-wave.js';
import { asObject, type Read, readUpstream, type ReadOutcome } from './read.js';
import { decisionReceipt, effectReceipt } from './receipts.js';
import { refused } from './refused.js';
import { repetition } from './repetition.js';
import { resourceOf } from './resource.js';
import { callScope } from './scope.js';
import { shownOf } from './shown.js';
import { marking, tellsUntrusted } from './trust.js';

export async function runRead(
  parts: Parts, call: FreshCall, until: number, progress: Progress, legalActions: (state: string) => string[],
): Promise<Answer> {
  const read = await readOrRefuse(parts, call, until);
  progress.pass('execute', 'exchange', isRefusal(read) ? 'refuse' : 'pass');
  if (isRefusal(read)) return refused(parts, progress, call.principal, call, read);
  const { outcome, attempts } = read;
  const observed = observation(parts, call, outcome);
  const refusal = isRefusal(observed) ? observed : disclosure(call, observed);
  progress.pass('reconcile', 'reconcile', refusal ? 'refuse' : 'pass');
  if (refusal) {
    const { principal: { tenant, id: principal }, envelope: { subject, sessionId } } = call;
    return refused(parts, progress, call.principal, call, refusal, {
      attempts, ...(isRefusal(observed) ? { failedRead: repetition(call) } : {}),
      ...(refusal.untrusted ? marking(call.tool, { tenant, principal, subject, sessionId }) : {}),
    });
  }
  const { told, seen } = tell(call, outcome as Extract<ReadOutcome, { kind: 'read' }>, observed as ObservedCall, legalActions);
  const operation = operationOf(call, {
    state: 'committed', owner: null, attempt: attempts.length, attempts, reason: null, outcome: 'committed', decisionReceipt: progress.decisionReceipt, dossier: null,
    answer: told as unknown as StoredAnswer,
  });
  const decision = decisionReceipt(parts, progress, operation.tenant, observed as ObservedCall, { disposition: 'executed', operationId: operation.id });
  const effect = effectReceipt(parts, operation, call, {
    disposition: 'executed', outcome: 'committed', verified: false, attempts, result: told.result, states: told.states,
  });
  operation.decisionReceipt = decision.id;
  operation.effectReceipt = effect.id;
  progress.decisionReceipt = decision.id;
  const stood = await parts.ledger.record({
    operation: Object.assign(operation, { writeId: randomUUID() }), receipts: [decision, effect], seen, ...marking(call.tool, operation), relaxed: call.tool.durability === 'relaxed',
    repetition: repetition(call),
  });
  progress.pass('route', 'route');
  if (stood) return operationAnswer(operation, { progress, as: 'proposer' });
  // A read under the same call id came first: where it was an equal one, its answer is the one answer of this call.
  const first = await parts.ledger.get(operation.tenant, operation.id);
  if (first && !first.fingerprint.equals(operation.fingerprint)) {
    const conflict = refuse('ID_CONFLICT', `The call id \`${operation.callId}\` stands for another call.`);
    return refused(parts, progress, call.principal, call, conflict, { attempts });
  }
  return operationAnswer(first ?? operation, { progress, as: first ? 'again' : 'proposer' });
}

async function readOrRefuse(parts: Parts, call: FreshCall, until: number): Promise<Read | Refusal> {
  try {
    return await readUpstream(parts, call.tool, callScope(call), until);
  } catch (error) {
    if (error instanceof EvaluationError) return predicateError('http', error);
    throw error;
  }
}

/**
 * The read tool of an entity has observed it by doing its own work; any other has been observed for before. A copy: a refusal is recorded
 * with what was seen before.
 */
function observation(parts: Parts, call: FreshCall, outcome: ReadOutcome): ObservedCall | Refusal {
  if (outcome.kind === 'closed') return closedRefusal(outcome.because);
  if (outcome.kind === 'failed') {
    const { rule } = outcome;
    return refuse('READ_FAILED', rule?.message ?? 'The service gave no usable answer. A read changes nothing.', { ...(rule?.code ? { code: rule.code } : {}), ...(rule ? { next: rule.next } : {}) });
  }
  if (outcome.kind === 'refused') {
    const { rule } = outcome;
    const upstream = rule ? shownOf(parts, call.tool, call.args, outcome.body) : undefined;
    return refuse('UPSTREAM_REJECTED', rule?.message ?? problems.UPSTREAM_REJECTED.why, {
      ...(rule?.code ? { code: rule.code } : {}), ...(rule ? { next: rule.next } : {}),
      ...(upstream ? { upstream, ...(tellsUntrusted(call.tool) ? { untrusted: true } : {}) } : {}),
    });
  }
  const absent = outcome.kind === 'not_found';
  const { tool } = call;
  if (!tool.observesEntity || !tool.entity?.observation) return { ...call, entityState: (call as Partial<ObservedCall>).entityState ?? null, absent };
  const plan = tool.entity.observation;
  const version = outcome.kind === 'read' && plan.version ? versionOf(plan, callScope(call), outcome) : null;
  const value = outcome.kind === 'read' ? withVersion(plan, asObject(outcome.result), version) : {};
  const own: Observation = { name: tool.entity.name, tool: tool.name, value, version, at: performance.now(), ms: 0 };
  const observations = absent ? [] : [withKeptState(call, own)];
  return { ...call, observations, entityState: null, absent };
}

function disclosure(call: FreshCall, observed: ObservedCall): Refusal | undefined {
  if (!call.tool.observesEntity) return observed.absent ? hidden(call) : undefined;
  const authorized = authorizeResource(call.served.policy, observed);
  return isRefusal(authorized) ? authorized : undefined;
}

function tell(
  call: FreshCall, read: Extract<ReadOutcome, { kind: 'read' }>, observed: ObservedCall, legalActions: (state: string) => string[],
): { told: Told; seen: SeenEntity[] } {
  const resource = resourceOf(observed);
  const told: Told = { result: read.result, states: {}, legal_actions: [], ...(tellsUntrusted(call.tool) ? { untrusted: true } : {}), decided: resource ? { resource, args: call.args } : null };
  const { entity } = call.identity;
  const plan = call.tool.entity;
  if (!entity || !plan || !(call.tool.observesEntity || plan.kept)) return { told, seen: [] };
  const scope = callScope({ ...call, observations: observed.observations });
  const orNull = <T>(evaluate: () => T): T | null => {
    try {
      return evaluate();
    } catch (error) {
      if (error instanceof EvaluationError) return null;
      throw error;
    }
  };
  const version = observed.observations.find(({ name }) => name === plan.name)?.version ?? null;
  const state = plan.kept ? (call.kept[entity.key] ?? null) : orNull(() => plan.state?.evaluate(scope) ?? null);
  if (state !== null) {
    told.states = { [entity.key]: state };
    told.legal_actions = legalActions(state);
  }
  // A read that does not show the entity has shown no version of it either, and must not take back the one that was shown.
  if (!call.tool.observesEntity && plan.observation) return { told, seen: [] };
  const { principal, envelope } = call;
  return { told, seen: [{ tenant: principal.tenant, principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId, entity: entity.key, version, state }] };
}
