/**
 * Cancels an operation that still waits to be sent: it is written into the ledger as cancelled, under the id that its intent would have had, so of
 * the two one is too late, on whichever replica. Whoever proposed it is told at once.
 */
import { randomUUID } from 'node:crypto';
import { isRefusal, refuse } from '../errors.js';
import type { Principal } from '../model.js';
import type { Told } from './answer.js';
import type { FreshCall } from './calls.js';
import { lookUp } from './look-up.js';
import { operationOf } from './operation.js';
import type { Parts } from './parts.js';
import type { CancelRequest, Operation, StoredAnswer } from './ports.js';
import { Progress } from './progress.js';
import { decisionReceipt } from './receipts.js';
import { cancelTopic } from './topics.js';
import type { WaitingCall } from './waiting.js';

const detail = 'It was cancelled before it was sent.';

/** Those of this caller that would become the operation, as far as they have been looked up. */
export function waitingAs(parts: Parts, { tenant, id, principal, subject }: CancelRequest): WaitingCall[] {
  return parts.waiting.of({ tenant, id: principal }).filter(({ known }) => known?.id === id && (subject === null || known.fresh.envelope.subject === subject));
}

export function asking({ tenant, id: principal, subject, grants }: Principal, id: string): CancelRequest {
  return { tenant, id, principal, subject: grants.assertSubject ? null : (subject ?? '') };
}

/**
 * Of the same caller, in whichever replica. Null: it waits in none, or none said so in time.
 * @param own what the caller may know of it. That somebody else's operation has that id must not end the wait.
 */
export async function cancelAnywhere(parts: Parts, request: CancelRequest, own: () => Promise<Operation | null>): Promise<Operation | 'moved' | null> {
  const here = await carryOut(parts, request);
  if (here) return here;
  const { ledger, locks } = parts;
  await ledger.cancelRequests.ask(request);
  locks.announce(cancelTopic);
  try {
    for (const until = performance.now() + answeredWithinMs; performance.now() < until;) {
      await locks.heard(request.id, lookMs);
      if (await own()) return 'moved';
    }
    return null;
  } finally {
    await ledger.cancelRequests.forget(request);
  }
}

const answeredWithinMs = 1_000;
const lookMs = 100;

/** `moved`: one of them was being reserved, or the ledger has the operation by now; look there. Null: nothing waits that would become it. */
export async function carryOut(parts: Parts, request: CancelRequest): Promise<Operation | 'moved' | null> {
  await identifyAll(parts, { tenant: request.tenant, id: request.principal });
  const waiting = waitingAs(parts, request);
  const [first] = waiting;
  if (!first?.known) return null;
  const underWay = waiting.find((call) => call.underWay)?.underWay;
  if (underWay) {
    await underWay;
    return 'moved';
  }
  const written = writeCancelled(parts, first.known.fresh);
  const settled = written.then((operation) => {
    if (operation) for (const call of waiting) call.giveUp({ up: 'cancelled', operation });
  });
  for (const call of waiting) call.hold(settled.catch(() => undefined));
  await settled;
  const operation = await written;
  if (operation) parts.locks.announce(operation.id);
  return operation ?? 'moved';
}

/** Also those whose own turn of calls has not come to them. */
export async function identifyAll(parts: Parts, principal: Pick<Principal, 'tenant' | 'id'>): Promise<void> {
  await Promise.all(parts.waiting.of(principal).map((call) => identifyUnbegun(parts, call)));
}

/** One that stands behind others in its own turn of calls has not been looked up yet. */
async function identifyUnbegun(parts: Parts, call: WaitingCall): Promise<void> {
  if (call.known) return;
  const permitted = call.look();
  if (!permitted) return;
  const earlier = await lookUp(parts, permitted);
  if (!isRefusal(earlier) && earlier.kind === 'fresh') call.known ??= { fresh: earlier.call, id: earlier.call.operationId };
}

/** Null: the ledger has an operation under that id. */
async function writeCancelled(parts: Parts, call: FreshCall): Promise<Operation | null> {
  const told: Told = { result: null, states: {}, legal_actions: [], problem: { code: 'CANCELLED', detail } };
  const { principal, envelope, tool, operationId } = call;
  const progress = new Progress(() => undefined);
  Object.assign(progress, {
    callId: envelope.callId, sessionId: envelope.sessionId, intentId: envelope.intentId, principal: principal.id, toolName: tool.name, tool, repaired: call.repaired,
  });
  const receipt = decisionReceipt(parts, progress, principal.tenant, call, { disposition: 'cancelled', operationId, refusal: refuse('CANCELLED', detail) });
  const operation = operationOf(call, {
    state: 'cancelled', owner: null, attempt: 0, attempts: [], reason: 'CANCELLED', outcome: 'not_committed', decisionReceipt: receipt.id, dossier: null,
    answer: told as unknown as StoredAnswer,
  });
  return (await parts.ledger.record({ operation: Object.assign(operation, { writeId: randomUUID() }), receipts: [receipt] })) ? operation : null;
}
