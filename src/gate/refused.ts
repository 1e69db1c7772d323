/** A refusal, recorded, charged and told. */
import { LedgerUnavailable, type ProblemCode, refuse, type Refusal } from '../errors.js';
import type { Answer, Json, Principal } from '../model.js';
import { refusalAnswer } from './answer.js';
import { countsAsProposal, noProposalsLeft, sessionScope } from './budgets.js';
import { drawTurn } from './draw-turn.js';
import type { Parts } from './parts.js';
import type { AttemptRecord, Mark, Receipt, Repetition } from './ports.js';
import type { Progress } from './progress.js';
import { type CallSoFar, decisionReceipt } from './receipts.js';

/** What could not be parsed has no receipt, and what is only busy decided nothing. */
const withoutReceipt: ReadonlySet<ProblemCode> = new Set([
  'MALFORMED_JSON', 'DUPLICATE_KEY', 'NUMBER_NOT_FINITE', 'TOO_DEEP', 'INTEGER_PRECISION', 'BODY_TOO_LARGE', 'ARGUMENTS_TOO_LARGE', 'INVALID_ENVELOPE',
  'IN_PROGRESS', 'NOT_BEGUN', 'DRAINING', 'OVERLOADED', 'UNAVAILABLE', 'UNUSABLE_CALL', 'TOO_MANY_CALLS',
]);

export interface Circumstances {
  /** What the call was about was answered before: refusing to tell it again is no verdict over a new proposal. */
  replay?: boolean;
  /** Of a read that was made. */
  attempts?: AttemptRecord[];
  /** Of a read that failed: the count of equal ones ends. */
  failedRead?: Repetition;
  /** What is shown of an error came from an untrusted source. */
  mark?: Mark;
}

/** A refusal is answered once its receipt is durable. */
export async function refused(
  parts: Parts, progress: Progress, principal: Principal, call: CallSoFar | null, refusal: Refusal, circumstances: Circumstances = {},
): Promise<Answer> {
  if (withoutReceipt.has(refusal.refused)) return refusalAnswer(refusal, progress);
  try {
    return await recorded(parts, progress, principal, call, refusal, circumstances);
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return refusalAnswer(refuse('UNAVAILABLE', 'The ledger could not record the call. Nothing was sent.'), progress);
  }
}

async function recorded(...[parts, progress, principal, call, refusal, circumstances]: Required<Parameters<typeof refused>>): Promise<Answer> {
  const counted = countsAsProposal(refusal) && !circumstances.replay;
  const noTurn = counted && call ? await drawTurn(parts, call) : undefined;
  if (noTurn) return recorded(parts, progress, principal, call, noTurn, {});
  const answer = refusalAnswer(refusal, progress);
  const receipt = decisionReceipt(parts, progress, principal.tenant, call, { disposition: answer.disposition, operationId: null, refusal });
  const { attempts, failedRead, mark } = circumstances;
  if (attempts) receipt.body['attempts'] = attempts as unknown as Json;
  const spent = counted ? await charge(parts, progress, principal, call, receipt) : undefined;
  if (spent) return recorded(parts, progress, principal, call, spent, {});
  if (!counted || mark || failedRead) {
    await parts.ledger.record({ receipts: counted ? [] : [receipt], ...(failedRead ? { repetition: failedRead } : {}), ...(mark ? { mark } : {}) });
  }
  answer.receipts = { decision: receipt.id, effect: null };
  return answer;
}

/** @param call null where the envelope was not read to its end: its subject is then the credential's own. */
async function charge(parts: Parts, progress: Progress, principal: Principal, call: CallSoFar | null, receipt: Receipt): Promise<Refusal | undefined> {
  const envelope = call?.envelope ?? { subject: principal.subject ?? '', sessionId: progress.sessionId, intentId: progress.intentId };
  const tool = progress.toolName ?? '';
  const spent = await parts.ledger.refuse({ receipt, charge: { session: sessionScope({ principal, envelope }), tool, limit: parts.settings.proposals } });
  return spent ? noProposalsLeft(tool, envelope, spent) : undefined;
}
