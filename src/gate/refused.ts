/** A refusal, recorded and told. */
import { LedgerUnavailable, type ProblemCode, refuse, type Refusal } from '../errors.js';
import type { Answer } from '../model.js';
import { refusalAnswer } from './answer.js';
import type { Parts } from './parts.js';
import type { Progress } from './progress.js';
import { type CallSoFar, decisionReceipt } from './receipts.js';

/** What could not be parsed has no receipt, and what is only busy decided nothing. */
const withoutReceipt: ReadonlySet<ProblemCode> = new Set([
  'MALFORMED_JSON', 'DUPLICATE_KEY', 'NUMBER_NOT_FINITE', 'TOO_DEEP', 'INTEGER_PRECISION', 'BODY_TOO_LARGE', 'ARGUMENTS_TOO_LARGE', 'INVALID_ENVELOPE',
  'IN_PROGRESS', 'NOT_BEGUN', 'DRAINING', 'UNAVAILABLE', 'UNUSABLE_CALL', 'TOO_MANY_CALLS',
]);

/** A refusal is answered once its receipt is durable. */
export async function refused(parts: Parts, progress: Progress, tenant: string, call: CallSoFar | null, refusal: Refusal): Promise<Answer> {
  const answer = refusalAnswer(refusal, progress);
  if (withoutReceipt.has(refusal.refused)) return answer;
  const receipt = decisionReceipt(parts, progress, tenant, call, { disposition: answer.disposition, operationId: null, refusal });
  try {
    await parts.ledger.record({ receipts: [receipt] });
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return refusalAnswer(refuse('UNAVAILABLE', 'The ledger could not record the call. Nothing was sent.'), progress);
  }
  answer.receipts = { decision: receipt.id, effect: null };
  return answer;
}
