/** Has this call, or an equal one, been answered before (semantics.md section 1)? Pure: from what the ledger found to what follows. */
import { refuse, type Refusal } from '../errors.js';
import type { OperationState } from '../model.js';
import type { PolicyEngine } from '../policy/decision.js';
import type { Decided, Told } from './answer.js';
import { decideResource, hidden } from './authorize.js';
import { type ActedEntity, type FreshCall, passed, type PermittedCall } from './calls.js';
import { ownEntity } from './entities.js';
import { operationId } from './identity.js';
import { keptStates } from './late-entities.js';
import type { Found, Operation } from './ports.js';

/** Ended without an effect: the identity is free for the next generation. */
const freed: ReadonlySet<OperationState> = new Set(['rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned']);

export type Earlier = { kind: 'fresh'; call: FreshCall } | Standing;

/** `answered`: its answer is stored, or it is up to a person: told at once. `open`: running, or its outcome is open: worth waiting for. */
export interface Standing {
  kind: 'answered' | 'open';
  operation: Operation;
  as: 'again' | 'duplicate';
  /** The call identity does not stand for this operation yet, but for `previous`; null where it does, or where there is none to bind. */
  unbound: { callKey: Buffer; previous: string | null } | null;
  /** It is told in the place of a read that was made too often. Nothing is bound by it: after a write of the session the same call is made. */
  repeatedRead?: boolean;
}

/** What the ledger found. `repeated`: for a read the last equal one of its session, where there were too many. */
export type FoundEarlier = Found & { repeated: Operation | null };

export function earlierAnswer(call: PermittedCall, found: FoundEarlier): Earlier | Refusal {
  const { identity, envelope, tool } = call;
  const known = found.call;
  const callConflict = (): Refusal => refuse('ID_CONFLICT', `The call id \`${envelope.callId}\` stands for another call.`);
  if (found.readBefore && !freed.has(found.readBefore)) return callConflict();
  if (known?.operation && !freed.has(known.operation.state)) {
    const same = known.fingerprint.equals(identity.fingerprint) && !keyMeansAnother(call, known.operation);
    return same ? standing(call, known.operation, null) : callConflict();
  }
  const { current } = found;
  if (current && !current.fingerprint.equals(identity.fingerprint)) {
    // A key is the application's word for one call, whatever became of it; an answered call id is taken, one whose call ended without effect is free.
    if (identity.ownKey) return refuse('ID_CONFLICT', 'The idempotency key stands for another call.');
    if (tool.effect === 'none' && !freed.has(current.state)) return callConflict();
  }
  if (current && !freed.has(current.state) && !windowPassed(current, tool.identity.windowMs) && !nothingDone(current)) {
    const { callKey } = identity;
    return standing(call, current, callKey && !envelope.callIdMinted ? { callKey, previous: known?.operationId ?? null } : null);
  }
  if (found.repeated) return { kind: 'answered', operation: found.repeated, as: 'duplicate', unbound: null, repeatedRead: true };
  return { kind: 'fresh', call: nextGeneration(call, found) };
}

/** The call id was claimed for the key in the very moment in which another replica reserved a different call under it. */
function keyMeansAnother({ identity }: PermittedCall, operation: Operation): boolean {
  return identity.ownKey && operation.identity.equals(identity.operation) && !operation.fingerprint.equals(identity.fingerprint);
}

function standing({ envelope }: PermittedCall, operation: Operation, unbound: Standing['unbound']): Standing {
  const kind = ['committed', 'review', 'parked'].includes(operation.state) ? 'answered' : 'open';
  return { kind, operation, as: operation.callId === envelope.callId ? 'again' : 'duplicate', unbound };
}

/** Of what the ledger said of the very same call a moment ago, and which is `final`. */
export function replayed(call: PermittedCall, operation: Operation): Standing {
  return standing(call, operation, null);
}

/**
 * Whether the same call will be told this for as long as its answer is kept: the effect is known and nothing is owed, no undo is offered that would
 * be told of, no event of its service can contradict it, and it is this call id that stands for it.
 */
export function isFinal({ tool, envelope }: PermittedCall, { operation, unbound, repeatedRead }: Standing): boolean {
  const told = operation.answer as unknown as Told | null;
  return told !== null && operation.state === 'committed' && operation.clock.untilDue === null && (operation.verified || told.verifyWith === undefined)
    && told.compensate === undefined && !tool.async?.callback && unbound === null && !envelope.callIdMinted && !repeatedRead;
}

/** A contract's dedupe window, for callers that cannot name an intent: only what is terminal and older gives way. */
function windowPassed(operation: Operation, windowMs: number | null): boolean {
  return windowMs !== null && operation.state === 'committed' && operation.clock.sinceCreated > windowMs;
}

/** Every item of it failed, and no read-back is owed that could show otherwise: another call may try again. */
function nothingDone({ state, verified, answer }: Operation): boolean {
  const told = answer as unknown as Told | null;
  return state === 'committed' && (verified || told?.verifyWith === undefined) && told?.partial !== undefined && told.partial.counts.failed === told.partial.counts.total && told.partial.counts.total > 0;
}

/**
 * The upstream key stays over generations that had no effect, so that an honouring upstream can still recognise a lost attempt; after
 * a refusal it changes, or the upstream would replay its refusal; after a committed one it changes, or it would replay the effect.
 */
function nextGeneration(call: PermittedCall, found: FoundEarlier): FreshCall {
  const { current } = found;
  const generation = (current?.generation ?? 0) + 1;
  const id = operationId(call.identity.operation, generation);
  const keepKey = current !== null && current.outcome === 'not_committed';
  return asFresh(call, found, {
    generation,
    operationId: id,
    upstreamKey: keepKey ? current.upstreamKey : id,
    afterCommitted: current?.state === 'committed',
    previousOperation: found.call?.operationId ?? null,
  });
}

/** With what the look-up found, and nothing observed yet. */
export function asFresh(
  call: PermittedCall, found: Found, as: Pick<FreshCall, 'generation' | 'operationId' | 'upstreamKey' | 'afterCommitted' | 'previousOperation'>,
): FreshCall {
  const { identity, tool } = call;
  identity.entity = ownEntity(tool, identity.entities);
  const { generation, operationId: id, upstreamKey, afterCommitted, previousOperation } = as;
  return passed<PermittedCall, FreshCall>(call, {
    generation, operationId: id, upstreamKey, afterCommitted, previousOperation,
    seenVersion: found.seenVersion,
    untrusted: found.untrusted,
    guarded: found.guarded,
    entities: identity.entities,
    guards: identity.guardKeys.map((key, n) => ({ key, epoch: found.guardEpochs[n] as number })),
    kept: tool.effect === 'none' ? {} : keptStates(keptOf(identity.entities), found.kept),
    resultsBound: tool.lasts.length === 0,
    unbound: null,
    observations: [],
    session: found.session,
    unchangedSince: found.reading?.since ?? '',
  });
}

export function keptOf(entities: readonly ActedEntity[]): ActedEntity[] {
  return entities.filter(({ plan }) => plan.kept);
}

/** What policy was asked when the call was decided, and is asked again whenever its answer is told. */
export function decidedOn({ answer, dossier }: Operation): Decided | null {
  const stored = (answer as unknown as Pick<Told, 'decided'> | null)?.decided;
  if (stored) return stored;
  return dossier?.resource ? { resource: dossier.resource, args: dossier.args } : null;
}

/** A replay discloses what was answered; so the caller's right to the resource is asked about again, on the facts as they were stored. */
export function replayRefusal(policy: PolicyEngine, call: PermittedCall, operation: Operation): Refusal | undefined {
  const decided = decidedOn(operation);
  if (!decided || decideResource(policy, call, call.tool.name, decided.resource).allowed) return undefined;
  return hidden(call);
}
