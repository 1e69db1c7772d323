/** The columns of an operation as the gate reads them, and back. */
import type { Dossier, Operation, StoredAnswer } from '../gate/ports.js';
import { attemptsOf } from './attempts.js';
import { instant } from './pages.js';
import type { Sealer } from './seal.js';

/** Of an operation `o`, which names its contract itself or by `served` (migration 0022). */
export const digestOf = (column: 'contract_digest' | 'catalogue_digest'): string =>
  `coalesce(o.${column}, (select s.${column} from served_contracts s where s.id = o.served)) as ${column}`;

/** For a table alias `o`; times leave the database as milliseconds from its own now. */
export const operationColumns = `
  o.tenant, o.operation_id, o.identity, o.generation, coalesce(o.upstream_key, o.operation_id) as upstream_key, o.effect, o.state, o.fence, o.owner, o.attempt,
  o.attempts, o.attempts_brief, o.unknown_attempts, o.effect_seen, o.verified, o.reason, o.outcome, o.tool, o.contract_version, ${digestOf('contract_digest')}, ${digestOf('catalogue_digest')},
  o.principal, o.subject, o.purpose, o.session_id, o.turn_id, o.intent_id, o.call_id, o.fingerprint, o.decision_receipt,
  o.effect_receipt, o.review_id, o.compensates,
  case when o.undo_key is not null then (
    select c.operation_id from operations c where c.tenant = o.tenant and c.compensates = o.operation_id and c.state = 'committed' limit 1) end as compensated_by,
  o.approval_id, ${instant('o.expires_at')} as expires_at, o.sealed_request, o.sealed_answer,
  extract(epoch from clock_timestamp() - o.created_at) * 1000 as since_created,
  extract(epoch from clock_timestamp() - o.first_sent_at) * 1000 as since_first_sent,
  extract(epoch from o.send_by - clock_timestamp()) * 1000 as until_send_by,
  extract(epoch from o.absent_from - clock_timestamp()) * 1000 as until_absent,
  extract(epoch from o.reconcile_by - clock_timestamp()) * 1000 as until_reconcile_by,
  extract(epoch from o.due_at - clock_timestamp()) * 1000 as until_due`;

export type OperationRow = Record<string, unknown> & { sealed_request: Buffer | null; sealed_answer: Buffer | null };

export function requestPlace(tenant: string, id: string): string {
  return `request/${tenant}/${id}`;
}

export function answerPlace(tenant: string, id: string): string {
  return `answer/${tenant}/${id}`;
}

/**
 * A value that does not open (sealed under another key, or damaged) is as one that is gone: a replay tells the outcome without its result,
 * and recovery leaves an open operation open, loudly. An error here would fail every other row of the same flush.
 */
function opened<T>(sealed: Buffer | null, place: string, sealer: Sealer): T | null {
  if (!sealed) return null;
  try {
    return JSON.parse(sealer.open(sealed, place)) as T;
  } catch {
    return null;
  }
}

const number = (value: unknown): number | null => (value === null || value === undefined ? null : Number(value));

export function toOperation(row: OperationRow, sealer: Sealer): Operation {
  const tenant = row['tenant'] as string;
  const id = row['operation_id'] as string;
  return {
    tenant,
    id,
    identity: row['identity'] as Buffer,
    generation: row['generation'] as number,
    upstreamKey: row['upstream_key'] as string,
    effect: row['effect'] as Operation['effect'],
    state: row['state'] as Operation['state'],
    fence: row['fence'] as number,
    owner: row['owner'] as string | null,
    attempt: row['attempt'] as number,
    attempts: attemptsOf(row['attempts'] as Operation['attempts'], row['attempts_brief'] as string | null),
    unknownAttempts: row['unknown_attempts'] as number,
    effectSeen: row['effect_seen'] as boolean,
    verified: row['verified'] as boolean,
    reason: row['reason'] as string | null,
    outcome: row['outcome'] as Operation['outcome'],
    tool: row['tool'] as string,
    contractVersion: row['contract_version'] as string,
    contractDigest: row['contract_digest'] as string,
    catalogueDigest: row['catalogue_digest'] as string,
    principal: row['principal'] as string,
    subject: row['subject'] as string,
    purpose: row['purpose'] as string,
    sessionId: row['session_id'] as string,
    turnId: row['turn_id'] as string,
    intentId: row['intent_id'] as string,
    callId: row['call_id'] as string,
    fingerprint: row['fingerprint'] as Buffer,
    decisionReceipt: row['decision_receipt'] as string | null,
    effectReceipt: row['effect_receipt'] as string | null,
    reviewId: row['review_id'] as string | null,
    compensates: row['compensates'] as string | null,
    compensatedBy: row['compensated_by'] as string | null,
    approval: row['approval_id'] === null ? null : { id: row['approval_id'] as string, expiresAt: row['expires_at'] as string },
    dossier: opened<Dossier>(row.sealed_request, requestPlace(tenant, id), sealer),
    answer: opened<StoredAnswer>(row.sealed_answer, answerPlace(tenant, id), sealer),
    clock: {
      sinceCreated: Number(row['since_created']),
      sinceFirstSent: number(row['since_first_sent']),
      untilSendBy: number(row['until_send_by']),
      untilAbsent: number(row['until_absent']),
      untilReconcileBy: number(row['until_reconcile_by']),
      untilDue: number(row['until_due']),
    },
  };
}

/** A bytea as json_to_recordset takes it. */
export function hex(bytes: Buffer): string {
  return `\\x${bytes.toString('hex')}`;
}
