/** The end of a call that waited for an approval and was never sent: its place in the budget is given back, and its identity is free. */
import type { StoredAnswer, Operation, Transition } from './ports.js';
import type { Told } from './answer.js';
import type { Unsent } from './finding.js';
import type { Parts } from './parts.js';
import { effectReceipt } from './receipts.js';
import { problems } from '../errors.js';

export type UnsentEnding = Omit<Transition, 'tenant' | 'operationId' | 'writeId' | 'fence'>;

export const expired: Unsent = { kind: 'unsent', from: 'parked', code: 'APPROVAL_EXPIRED', detail: 'Nobody approved the call until its deadline. It was not sent.' };

export function unsentEnding(parts: Parts, operation: Operation, { from, code, detail, receipt: decision }: Unsent): UnsentEnding {
  const told: Told = { result: null, states: {}, legal_actions: [], problem: { code, detail } };
  const receipt = decision ?? effectReceipt(parts, operation, { tool: null, args: operation.dossier?.args ?? {} }, {
    disposition: problems[code].disposition, outcome: 'not_committed', verified: false, attempts: operation.attempts, result: null, reason: code,
  });
  return {
    from: [from], to: 'cancelled', outcome: 'not_committed', reason: code, attempts: operation.attempts, answer: told as unknown as StoredAnswer, settle: true,
    refund: true, receipt, ...(receipt.kind === 'effect' ? { effectReceipt: receipt.id } : {}),
  };
}
