/**
 * Takes back an intent that may or may not be durable and was never sent, because the ledger did not answer. Left alone it would hold its
 * entity for a lease and a settle window, and recovery, or a person who approves it, might even have executed what its caller was told had not been
 * recorded.
 */
import { randomUUID } from 'node:crypto';
import type { ToolPlan } from '../contract/plan.js';
import { LedgerUnavailable, problems } from '../errors.js';
import type { Told } from './answer.js';
import type { Parts } from './parts.js';
import type { Intent, Operation, StoredAnswer } from './ports.js';
import { effectReceipt } from './receipts.js';

/** With the operation as the ledger has it once the intent is durable. */
export type ProposedIntent = Intent & { operation: Operation };

const everyMs = 500;
const code = 'UPSTREAM_UNREACHABLE';

/** Until the end of the lease, after which it is recovery's; what waits for a person is nobody's, so there the lease begins when the ledger is back. */
export async function withdraw(parts: Parts, tool: ToolPlan, intent: ProposedIntent): Promise<void> {
  for (let until = performance.now() + intent.leaseMs; performance.now() < until;) {
    await new Promise((resolve) => { setTimeout(resolve, everyMs).unref(); });
    try {
      if (await takeBack(parts, tool, intent)) return;
    } catch (error) {
      if (!(error instanceof LedgerUnavailable)) return parts.log.error({ err: error, operation: intent.operation.id }, 'an unsent intent could not be taken back');
      if (intent.parked) until = performance.now() + intent.leaseMs;
    }
  }
}

/**
 * Moves nothing where the intent is not there, or somebody has taken it over. Its caller may have proposed it again by now: what that wrote has the
 * same id, and is being sent or was told to wait for a person (`keep`).
 */
async function takeBack(parts: Parts, tool: ToolPlan, { operation, writeId, parked }: ProposedIntent): Promise<boolean> {
  const { tenant, id, fence, dossier } = operation;
  const told: Told = { result: null, states: {}, legal_actions: [], problem: { code, detail: problems[code].why } };
  const receipt = effectReceipt(parts, operation, { tool, args: dossier?.args ?? {} }, {
    disposition: problems[code].disposition, outcome: 'not_committed', verified: false, attempts: [], result: null, reason: 'INTENT_NOT_ACKNOWLEDGED',
  });
  return parts.ledger.transition({
    tenant, operationId: id, fence, writeId: randomUUID(), from: [parked ? 'parked' : 'sending'], wroteBy: writeId, to: 'failed', outcome: 'not_committed',
    reason: 'INTENT_NOT_ACKNOWLEDGED', answer: told as unknown as StoredAnswer, settle: true, refund: true, receipt, effectReceipt: receipt.id,
  });
}

/** Before a caller is told of a call that waits for a person: whoever wrote it may not have been acknowledged, and no longer takes it back. False: it has moved. */
export function keep({ ledger }: Parts, { tenant, id, fence }: Operation): Promise<boolean> {
  return ledger.transition({ tenant, operationId: id, fence, writeId: randomUUID(), from: ['parked'], to: 'parked' });
}
