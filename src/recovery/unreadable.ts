/**
 * An open operation whose contract is not at hand, or whose sealed request does not open. Nothing may be guessed of it, and another replica may be
 * able to read it: it stays due. But what has a deadline keeps it, and comes to a person then, or its entity would be held for ever.
 */
import type { Parts } from '../gate/parts.js';
import type { Operation, Transition } from '../gate/ports.js';
import { effectReceipt } from '../gate/receipts.js';
import { expired, unsentEnding } from '../gate/unsent.js';
import { newReviewId } from '../receipt-id.js';

type Change = Omit<Transition, 'tenant' | 'operationId' | 'writeId' | 'fence'>;

const againMs = 10_000;

export async function passOver(parts: Parts, operation: Operation): Promise<void> {
  parts.log.error({ operation: operation.id, tool: operation.tool, catalogue: operation.catalogueDigest }, 'an open operation has no contract here, or its sealed request does not open');
  await parts.ledger.transition({ tenant: operation.tenant, operationId: operation.id, writeId: crypto.randomUUID(), fence: operation.fence, ...changeOf(parts, operation) });
}

function changeOf(parts: Parts, operation: Operation): Change {
  const { state, clock } = operation;
  if (state === 'parked') return unsentEnding(parts, operation, expired);
  if (state === 'approved' && clock.sinceFirstSent === null) return unsentYet(parts, operation);
  const leftMs = clock.untilReconcileBy ?? Infinity;
  return leftMs <= 0 ? toPerson(parts, operation, 'DEADLINE_PASSED') : { from: [state], to: state, release: true, dueInMs: Math.min(againMs, leftMs) };
}

/** As an approved call that cannot be sent for another reason: some tries, then a person. */
function unsentYet(parts: Parts, operation: Operation): Change {
  const { dispatchTries, backoffFirstMs, backoffMaxMs } = parts.settings;
  const attempts: Operation['attempts'] = [...operation.attempts, { number: 0, sent: false, status: null, reason: 'unreadable', outcome: 'not_committed', ms: 0 }];
  if (attempts.length >= dispatchTries) return toPerson(parts, { ...operation, attempts }, 'NOT_DISPATCHED');
  return { from: ['approved'], to: 'approved', attempts, release: true, dueInMs: Math.min(backoffMaxMs, backoffFirstMs * 2 ** (attempts.length - 1)) };
}

function toPerson(parts: Parts, operation: Operation, reason: 'NOT_DISPATCHED' | 'DEADLINE_PASSED'): Change {
  const { state, attempts, effectSeen } = operation;
  const outcome = reason === 'NOT_DISPATCHED' ? 'not_committed' : effectSeen ? 'committed' : 'unknown';
  const receipt = effectReceipt(parts, operation, { tool: null, args: {} }, { disposition: 'review', outcome, verified: false, attempts, result: null, reason });
  return {
    from: [state], to: 'review', outcome, reason, attempts, dueInMs: null, release: true, receipt, effectReceipt: receipt.id,
    review: { id: newReviewId(), deadlineMs: parts.settings.reviewDeadlineMs },
  };
}
