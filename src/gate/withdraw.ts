/**
 * Takes back an intent that may or may not be durable and was never sent, because the ledger did not answer. Left alone it would hold its
 * entity for a lease and a settle window, and recovery might even execute what its caller was told had not been sent.
 */
import { LedgerUnavailable, problems } from '../errors.js';
import type { Told } from './answer.js';
import type { Intent, StoredAnswer } from './ports.js';
import { effectReceipt } from './receipts.js';
import { move, type Run } from './run.js';

const everyMs = 500;
const code = 'UPSTREAM_UNREACHABLE';

/** Until the end of the lease, after which it is recovery's. */
export async function withdraw(run: Run, { writeId, leaseMs }: Intent): Promise<void> {
  const until = performance.now() + leaseMs;
  while (performance.now() < until) {
    await new Promise((resolve) => { setTimeout(resolve, everyMs).unref(); });
    try {
      if (await takeBack(run, writeId)) return;
    } catch (error) {
      if (!(error instanceof LedgerUnavailable)) return run.parts.log.error({ err: error, operation: run.operation.id }, 'an unsent intent could not be taken back');
    }
  }
}

/**
 * Moves nothing where the intent is not there, or somebody has taken it over. Its caller may have proposed it again by now: what that wrote has the
 * same id, and is being sent.
 */
async function takeBack(run: Run, wroteBy: string): Promise<boolean> {
  const { operation, parts, tool } = run;
  const told: Told = { result: null, states: {}, legal_actions: [], problem: { code, detail: problems[code].why } };
  const receipt = effectReceipt(parts, operation, { tool, args: run.dossier.args }, {
    disposition: problems[code].disposition, outcome: 'not_committed', verified: false, attempts: [], result: null, reason: 'INTENT_NOT_ACKNOWLEDGED',
  });
  return move(run, {
    from: ['sending'], wroteBy, to: 'failed', outcome: 'not_committed', reason: 'INTENT_NOT_ACKNOWLEDGED', answer: told as unknown as StoredAnswer,
    settle: true, refund: true, receipt, effectReceipt: receipt.id,
  });
}
