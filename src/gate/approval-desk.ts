/**
 * Calls that wait for a person, and the people who decide (semantics.md section 3). What is decided on is named by its digest, the deadline
 * is looked at inside the deciding statement, and the last approval that is needed makes the call due in that same statement.
 */
import { randomUUID } from 'node:crypto';
import { LedgerUnavailable, refuse, type Refusal } from '../errors.js';
import type { JsonObject, Principal } from '../model.js';
import type { ApprovalDesk, ApprovalVerdict } from '../ports.js';
import { notDistinct } from './distinct-person.js';
import { openRun } from './open-run.js';
import type { Parts } from './parts.js';
import type { ApprovalCase, Approvals, Receipt } from './ports.js';
import { personReceipt } from './receipts.js';
import { announceSettled, dueTopic } from './topics.js';
import { unsentEnding } from './unsent.js';

const noSuchApproval = refuse('APPROVAL_NOT_FOUND', 'No approval of this tenant has that id.');
/** Recovery may take the call up in the same moment, which moves its fence and decides nothing. */
const tries = 5;

export function openApprovalDesk(parts: Parts, approvals: Approvals): ApprovalDesk {
  return {
    list: (tenant, filter) => approvals.list(tenant, filter),
    async one(tenant, id) {
      const found = await approvals.find(tenant, id);
      return found && render(found);
    },
    async decide(principal, id, verdict) {
      for (let n = 0; n < tries; n++) {
        const found = await approvals.find(principal.tenant, id);
        if (!found) return noSuchApproval;
        const refusal = barred(found, principal, verdict);
        if (refusal) return refusal;
        const receipt = await receiptOf(parts, found, principal, verdict);
        // What is decided is told as decided, also where the ledger goes away before it can be read again: whoever is told 503 takes it for undone.
        const again = (): Promise<ApprovalCase | null> => approvals.find(principal.tenant, id).catch(unlessAway);
        try {
          if (!(await carryOut(parts, found, principal, verdict, receipt))) continue;
        } catch (error) {
          const after = error instanceof LedgerUnavailable ? await again() : null;
          if (!after?.receipts.some((kept) => kept['id'] === receipt.id)) throw error;
          return render(after);
        }
        return render((await again()) ?? decided(found, principal, verdict));
      }
      return refuse('IN_PROGRESS', 'It is being decided or sent in this moment. Look at it again.');
    },
  };
}

function render(of: ApprovalCase): JsonObject {
  const { operation } = of;
  const proposal = of.receipts.find(({ kind }) => kind === 'decision');
  return {
    id: of.id, state: of.state, tool: operation.tool, summary: of.summary, by: of.by, needed: of.needed, approved_by: of.approvedBy, digest: of.digest,
    asked_at: of.askedAt, expires_at: operation.approval?.expiresAt ?? null, ended: of.ended, operation_id: operation.id,
    principal: operation.principal, subject: operation.subject, purpose: operation.purpose, session_id: operation.sessionId,
    contract: { version: operation.contractVersion, digest: operation.contractDigest },
    arguments: proposal?.['arguments'] ?? null, entity: proposal?.['transition'] ?? null, observations: proposal?.['observations'] ?? [],
    decisions: of.receipts.filter((receipt) => receipt['kind'] === 'decision' && 'because' in receipt),
  };
}

function barred(of: ApprovalCase, person: Principal, { decision, expected_digest: digest }: ApprovalVerdict): Refusal | undefined {
  return unentitled(of, person) ?? closed(of, person, decision)
    ?? (digest === of.digest ? undefined : refuse('EVIDENCE_CHANGED', '`expected_digest` is not of what waits here. Nothing was decided.'));
}

/** An application answers for its users; what asks for a reviewer is not its to give. */
function unentitled({ by, operation }: ApprovalCase, person: Principal): Refusal | undefined {
  const { roles } = person;
  const may = roles.includes('reviewer') || (roles.includes('application') && by !== 'reviewer');
  if (!may) return refuse('NOT_AN_APPROVER', `It is to be approved by a ${by}.`);
  return notDistinct(person, by === 'reviewer' ? operation : { ...operation, subject: null });
}

function closed({ state, approvedBy, ended, operation }: ApprovalCase, { id }: Principal, decision: ApprovalVerdict['decision']): Refusal | undefined {
  if (ended) return refuse('ALREADY_DECIDED', `\`${ended.by}\` said no at ${ended.at}.`);
  if (state === 'expired') return refuse('APPROVAL_CLOSED', `It was open until ${operation.approval?.expiresAt ?? 'its deadline'}; the call is not sent.`, { code: 'APPROVAL_EXPIRED' });
  if (state === 'pending' && decision === 'approve' && approvedBy.includes(id)) return refuse('ALREADY_DECIDED', `\`${id}\` has approved it; another person is needed.`);
  if (state === 'pending' || (state === 'approved' && decision === 'revoke' && operation.state === 'approved')) return undefined;
  if (state === 'approved' || state === 'used') return refuse('ALREADY_DECIDED', `It was approved by ${approvedBy.map((one) => `\`${one}\``).join(', ')}${state === 'used' ? ' and has been sent' : ''}.`);
  return refuse('APPROVAL_CLOSED', `The call has ended: ${state}. It was not sent.`);
}

function unlessAway(error: unknown): null {
  if (error instanceof LedgerUnavailable) return null;
  throw error;
}

/** As it was found, with this verdict upon it. */
function decided(of: ApprovalCase, { id }: Principal, { decision, reason = '' }: ApprovalVerdict): ApprovalCase {
  if (decision !== 'approve') return { ...of, state: decision === 'reject' ? 'rejected' : 'revoked', ended: { by: id, at: new Date().toISOString(), because: reason } };
  const approvedBy = [...of.approvedBy, id];
  return { ...of, approvedBy, state: approvedBy.length >= of.needed ? 'approved' : 'pending' };
}

/** False: somebody moved it in this moment. */
async function carryOut(parts: Parts, of: ApprovalCase, person: Principal, verdict: ApprovalVerdict, receipt: Receipt): Promise<boolean> {
  const { operation } = of;
  if (verdict.decision !== 'approve') return end(parts, of, person, verdict, receipt);
  const approved = await parts.ledger.approve({ tenant: operation.tenant, operationId: operation.id, approval: of.id, digest: of.digest, by: person.id, receipt });
  if (approved?.enough) parts.locks.announce(dueTopic);
  if (approved) parts.locks.announce(operation.id);
  return approved !== null;
}

async function end(parts: Parts, { operation }: ApprovalCase, person: Principal, { decision }: ApprovalVerdict, receipt: Receipt): Promise<boolean> {
  const from = operation.state === 'approved' ? 'approved' : 'parked';
  const code = decision === 'reject' ? 'APPROVAL_REJECTED' : 'APPROVAL_REVOKED';
  const moved = await parts.ledger.transition({
    tenant: operation.tenant, operationId: operation.id, writeId: randomUUID(), fence: operation.fence, unexpired: from === 'parked',
    approvalEnded: { by: person.id, because: String(receipt.body['because']) },
    ...unsentEnding(parts, operation, { kind: 'unsent', from, code, detail: decision === 'reject' ? 'The approval was refused. The call was not sent.' : 'The approval was taken back. The call was not sent.', receipt }),
  });
  if (moved) announceSettled(parts, operation);
  return moved;
}

async function receiptOf(parts: Parts, of: ApprovalCase, person: Principal, { decision, reason, expected_digest: digest }: ApprovalVerdict): Promise<Receipt> {
  const { operation } = of;
  const run = await openRun(parts, operation);
  return personReceipt(parts, operation, person, { tool: run?.tool ?? null, args: operation.dossier?.args ?? {} }, {
    disposition: decision === 'approve' ? 'approval_required' : 'denied', outcome: null,
    about: { approval: { id: of.id, by: of.by, needed: of.needed, digest, summary: of.summary, approved_by: of.approvedBy }, decision, because: reason ?? '' },
  });
}
