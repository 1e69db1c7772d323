/** Has this call, or an equal one, been answered before (semantics.md section 1)? Pure: from what the ledger found to what follows. */
import { refuse, type Refusal } from '../errors.js';
import type { OperationState } from '../model.js';
import type { PolicyEngine } from '../policy/decision.js';
import type { Told } from './answer.js';
import { decideResource, hidden } from './authorize.js';
import { type FreshCall, passed, type PermittedCall } from './calls.js';
import { operationId } from './identity.js';
import type { Found, Operation } from './ports.js';

/** Ended without an effect: the identity is free for the next generation. */
const freed: ReadonlySet<OperationState> = new Set(['rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned']);

export type Earlier =
  | { kind: 'fresh'; call: FreshCall }
  /** Its answer is stored, or a person has it: told at once. */
  | { kind: 'answered'; operation: Operation; as: 'again' | 'duplicate' }
  /** It is running, or its outcome is open: worth waiting for. */
  | { kind: 'open'; operation: Operation; as: 'again' | 'duplicate' };

export function earlierAnswer(call: PermittedCall, found: Found): Earlier | Refusal {
  const { identity, envelope, tool } = call;
  const known = found.call;
  if (known?.operation && !freed.has(known.operation.state)) {
    if (!known.fingerprint.equals(identity.fingerprint)) return conflict(`The call id \`${envelope.callId}\` stands for another call.`);
    return standing(known.operation, 'again');
  }
  const { current } = found;
  if (current && (identity.ownKey || tool.effect === 'none') && !current.fingerprint.equals(identity.fingerprint)) {
    if (identity.ownKey) return conflict('The idempotency key stands for another call.');
    if (!freed.has(current.state)) return conflict(`The call id \`${envelope.callId}\` stands for another call.`);
  }
  if (current && !freed.has(current.state)) {
    const last = windowPassed(current, tool.identity.windowMs);
    if (!last) return standing(current, tool.effect === 'none' || current.callId === envelope.callId ? 'again' : 'duplicate');
  }
  return { kind: 'fresh', call: nextGeneration(call, found) };
}

function conflict(detail: string): Refusal {
  return refuse('ID_CONFLICT', detail);
}

function standing(operation: Operation, as: 'again' | 'duplicate'): Earlier {
  const kind = operation.state === 'committed' || operation.state === 'review' ? 'answered' : 'open';
  return { kind, operation, as };
}

/** A contract's dedupe window, for callers that cannot name an intent: only what is terminal and older gives way. */
function windowPassed(operation: Operation, windowMs: number | null): boolean {
  return windowMs !== null && operation.state === 'committed' && operation.clock.sinceCreated > windowMs;
}

/**
 * The upstream key stays over generations that had no effect, so that an honouring upstream can still recognise a lost attempt; after
 * a refusal it changes, or the upstream would replay its refusal; after a committed one it changes, or it would replay the effect.
 */
function nextGeneration(call: PermittedCall, found: Found): FreshCall {
  const { current } = found;
  const generation = (current?.generation ?? 0) + 1;
  const keepKey = current !== null && current.outcome === 'not_committed';
  return passed<PermittedCall, FreshCall>(call, {
    generation,
    upstreamKey: keepKey ? current.upstreamKey : operationId(call.identity.operation, generation),
    previousOperation: found.call?.operationId ?? null,
    seenVersion: found.seenVersion,
    guardEpochs: found.guardEpochs,
  });
}

/** A replay discloses what was answered; so the caller's right to the resource is asked about again, on the facts as they were stored. */
export function replayRefusal(policy: PolicyEngine, call: PermittedCall, operation: Operation): Refusal | undefined {
  const stored = operation.answer as unknown as Pick<Told, 'resource'> | null;
  const resource = stored?.resource ?? operation.dossier?.resource;
  if (!resource) return undefined;
  return decideResource(policy, call, call.tool.name, resource).allowed ? undefined : hidden(call);
}
