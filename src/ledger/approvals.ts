/**
 * Calls that wait for an approval. Everything locks the operation before its approval, and guard keys before operations, as everywhere.
 * The state of an approval is that of its operation: there is nothing to keep in step.
 */
import type pg from 'pg';
import type { ApprovalCase, Approve, Asked, Dispatch } from '../gate/ports.js';
import type { JsonObject } from '../model.js';
import type { ApprovalFilter, Page } from '../ports.js';
import type { Statement } from './connection.js';
import { receiptsOf } from './content.js';
import { readCursor } from './cursor.js';
import { operationColumns, type OperationRow, toOperation } from './operation-row.js';
import { instant, page, Where } from './pages.js';
import { receiptRow } from './receipt-row.js';
import type { Sealer } from './seal.js';

/**
 * One more name, and with the last one that is needed the operation is due: one statement, in which the deadline is looked at by the
 * database's clock. The lock on the operation lets two people who approve at once count each other.
 */
const approveText = `
with locked as materialized (
  select o.tenant, o.operation_id from operations o
  where o.tenant = $1 and o.operation_id = $2 and o.state = 'parked' and o.expires_at > clock_timestamp()
  for update
),
named as (
  update approvals a set approved_by = a.approved_by || $4::text
  from locked l
  where a.tenant = l.tenant and a.operation_id = l.operation_id and a.id = $3 and a.digest = $5 and not ($4::text = any (a.approved_by))
  returning a.tenant, a.operation_id, cardinality(a.approved_by) >= a.needed as enough
),
moved as (
  update operations o set
    state = case when n.enough then 'approved' else o.state end,
    due_at = case when n.enough then now() else o.due_at end
  from named n
  where o.tenant = n.tenant and o.operation_id = n.operation_id
  returning o.tenant, o.operation_id, o.session_id, o.intent_id, o.principal, o.tool, n.enough
),
receipted as (
  insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
  select m.tenant, $6, 'decision', m.operation_id, m.session_id, m.intent_id, m.principal, m.tool, $7, null, $8::timestamptz, $9::bytea, $10
  from moved m
)
select m.enough from moved m`;

export function approveStatement({ tenant, operationId, approval, by, digest, receipt }: Approve): Statement {
  const row = receiptRow(receipt);
  return { name: 'approve', text: approveText, values: [tenant, operationId, approval, by, digest, row.id, row.disposition, row.recorded_at, row.digest, row.body] };
}

/** As in the intent commit: a key is claimed only if it is free, and nobody has held it since it was looked up. */
const claimText = `
insert into guards as g (tenant, guard_key, operation_id, write_id)
select $1, k.guard_key, $2, $3::uuid
from unnest($4::text[]) as k (guard_key)
order by k.guard_key
on conflict (tenant, guard_key) do update
  set operation_id = excluded.operation_id, write_id = excluded.write_id, epoch = g.epoch + 1, claimed_at = now()
  where g.operation_id is null and exists (
    select 1 from unnest($4::text[], $5::bigint[]) as k (guard_key, epoch) where k.guard_key = g.guard_key and k.epoch = g.epoch)
returning g.guard_key`;

/** approved → sending(1), under the fence of whoever took it: a revocation, a cancellation or another replica leaves nothing to update. */
const sendText = `
with moved as (
  update operations o set
    state = 'sending', outcome = null, reason = null, write_id = $4::uuid, owner = $5, attempt_id = $6::uuid, first_sent_at = now(),
    send_by = now() + $7::float8 * interval '1 ms', due_at = now() + $8::float8 * interval '1 ms', reconcile_by = now() + $9::float8 * interval '1 ms',
    decision_receipt = $10
  where o.tenant = $1 and o.operation_id = $2 and o.fence = $3 and o.state = 'approved' and o.first_sent_at is null
    and clock_timestamp() < now() + $7::float8 * interval '1 ms'
  returning o.tenant, o.operation_id, o.session_id, o.intent_id, o.principal, o.tool
)
insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
select m.tenant, $10, 'decision', m.operation_id, m.session_id, m.intent_id, m.principal, m.tool, $11, null, $12::timestamptz, $13::bytea, $14
from moved m
returning id`;

/** Within a transaction, which is rolled back unless it gives `sending`: then no guard key was claimed in vain. */
export async function dispatchWith(client: pg.PoolClient, dispatch: Dispatch): Promise<'sending' | 'guarded' | 'lost'> {
  const { tenant, operationId, writeId, guardKeys, guardEpochs } = dispatch;
  const claimed = await client.query(claimText, [tenant, operationId, writeId, guardKeys, guardEpochs]);
  if (claimed.rowCount !== guardKeys.length) return 'guarded';
  const receipt = receiptRow(dispatch.receipt);
  const sent = await client.query(sendText, [
    tenant, operationId, dispatch.fence, writeId, dispatch.owner, dispatch.attemptId, dispatch.sendWindowMs, dispatch.leaseMs, dispatch.reconcileDeadlineMs,
    receipt.id, receipt.disposition, receipt.recorded_at, receipt.digest, receipt.body,
  ]);
  return sent.rowCount === 1 ? 'sending' : 'lost';
}

const state = `case
    when o.state = 'parked' then case when o.expires_at > now() then 'pending' else 'expired' end
    when o.state in ('approved', 'review') and o.first_sent_at is null then 'approved'
    when o.state in ('cancelled', 'failed') and o.first_sent_at is null then
      case o.reason when 'APPROVAL_REJECTED' then 'rejected' when 'APPROVAL_REVOKED' then 'revoked' when 'APPROVAL_EXPIRED' then 'expired'
        when 'STALE_APPROVAL' then 'stale' else 'cancelled' end
    when o.first_sent_at is null then 'abandoned'
    else 'used' end`;

const columns = `a.id, a.operation_id, a.tool, a.principal, a.session_id, a.rule, a.needed, a.digest, a.summary, a.approved_by,
  ${instant('a.asked_at')} as asked_at, ${instant('o.expires_at')} as expires_at, a.ended_by, ${instant('a.ended_at')} as ended_at, a.ended_because,
  ${state} as state, o.state = 'parked' and o.expires_at <= now() as expired`;

type Row = {
  id: string; operation_id: string; tool: string; principal: string; session_id: string; rule: Asked['by']; needed: number; digest: string; summary: string;
  approved_by: string[]; asked_at: string; expires_at: string; ended_by: string | null; ended_at: string; ended_because: string; state: ApprovalCase['state']; expired: boolean;
};

/** What has expired is not pending, whether or not recovery has come by to say so. Those that wait are few among those that have ended, and are looked up as such. */
const orders = {
  pending: { list: 'approvals_pending', is: `o.state = 'parked' and o.expires_at > now() and a.operation_id = any (array(
    select p.operation_id from operations p where p.tenant = $1 and p.state = 'parked'))`, after: '(a.asked_at, a.id) > (?::timestamptz, ?)', by: 'a.asked_at, a.id' },
  ended: { list: 'approvals_ended', is: `not (o.state = 'parked' and o.expires_at > now())`, after: '(a.asked_at, a.id) < (?::timestamptz, ?)', by: 'a.asked_at desc, a.id desc' },
} as const;

/** @throws BadCursor, before anything is asked. */
export function listApprovals(tenant: string, filter: ApprovalFilter): (client: pg.PoolClient) => Promise<Page<JsonObject>> {
  const order = orders[filter.state];
  const where = new Where(tenant, 'a');
  where.add(order.is);
  where.equal(filter, ['tool', 'session_id', 'principal']);
  if (filter.by !== undefined) where.add('a.rule = ?', filter.by);
  if (filter.cursor) where.add(order.after, ...readCursor(order.list, filter.cursor));
  return async (client) => {
    const { rows } = await client.query<Row>(
      `select ${columns} from approvals a join operations o on o.tenant = a.tenant and o.operation_id = a.operation_id
      where ${where.text} order by ${order.by} limit ${filter.limit + 1}`, where.values,
    );
    return page(order.list, rows, filter.limit, summary, (row) => [row.asked_at, row.id]);
  };
}

function summary(row: Row): JsonObject {
  return {
    id: row.id, state: row.state, operation_id: row.operation_id, tool: row.tool, principal: row.principal, session_id: row.session_id, by: row.rule,
    needed: row.needed, approved_by: row.approved_by, digest: row.digest, summary: row.summary, asked_at: row.asked_at, expires_at: row.expires_at,
    ended: endedOf(row),
  };
}

function endedOf(row: Row): ApprovalCase['ended'] {
  return row.ended_by === null ? null : { by: row.ended_by, at: row.ended_at, because: row.ended_because };
}

export async function findApproval(client: pg.PoolClient, sealer: Sealer, tenant: string, id: string): Promise<ApprovalCase | null> {
  const { rows: [row] } = await client.query<Row>(
    `select ${columns} from approvals a join operations o on o.tenant = a.tenant and o.operation_id = a.operation_id where a.tenant = $1 and a.id = $2`, [tenant, id],
  );
  if (!row) return null;
  const { rows: [operation] } = await client.query<OperationRow>(
    `select ${operationColumns} from operations o where o.tenant = $1 and o.operation_id = $2`, [tenant, row.operation_id],
  );
  if (!operation) return null;
  const receipts = await receiptsOf(client, tenant, row.operation_id);
  return {
    id: row.id, state: row.state, by: row.rule, needed: row.needed, digest: row.digest, summary: row.summary, operation: toOperation(operation, sealer),
    askedAt: row.asked_at, expired: row.expired, approvedBy: row.approved_by, ended: endedOf(row),
    receipts,
  };
}
