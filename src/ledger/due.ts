/** What nobody is looking after: leases that expired and outcomes that are due to be looked at again. Any replica may take them. */
import type { EntityMove, OpenedReview, Operation, Receipt } from '../gate/ports.js';
import type { Statement } from './connection.js';
import { operationColumns, type OperationRow, toOperation } from './operation-row.js';
import { receiptRow } from './receipt-row.js';
import type { Sealer } from './seal.js';

/** A take-over: the fence grows, so that the earlier owner's transitions find nothing. `skip locked` keeps replicas apart. */
const takeText = `
update operations o set owner = $1, fence = o.fence + 1, due_at = now() + $2::float8 * interval '1 ms'
where (o.tenant, o.operation_id) in (
  select d.tenant, d.operation_id from operations d
  where d.due_at < now()
  order by d.due_at
  limit $3
  for update skip locked)
returning ${operationColumns}`;

export function takeStatement(owner: string, leaseMs: number, limit: number): Statement {
  return { name: 'take', text: takeText, values: [owner, leaseMs, limit] };
}

export function toTaken(rows: OperationRow[], sealer: Sealer): Operation[] {
  return rows.map((row) => toOperation(row, sealer));
}

/**
 * Only while still owned under the fence that the owner knows; a lease that was taken over is not won back. What a flush is moving right
 * now is passed over: it needs no renewal this time, and waiting for it in another order than the flush's would be a deadlock.
 */
const renewText = `
update operations o set due_at = now() + $2::float8 * interval '1 ms'
where (o.tenant, o.operation_id) in (
  select h.tenant, h.operation_id
  from unnest($3::text[], $4::text[], $5::integer[]) as held (tenant, operation_id, fence)
  join operations h on h.tenant = held.tenant and h.operation_id = held.operation_id and h.fence = held.fence and h.owner = $1
  for update of h skip locked)`;

export function renewStatement(owner: string, leaseMs: number, held: { tenant: string; id: string; fence: number }[]): Statement {
  return {
    name: 'renew', text: renewText,
    values: [owner, leaseMs, held.map((one) => one.tenant), held.map((one) => one.id), held.map((one) => one.fence)],
  };
}

/** At shutdown: what this replica still holds is due at once for the others. */
const handOverText = `
update operations o set owner = null, due_at = now()
where (o.tenant, o.operation_id) in (
  select h.tenant, h.operation_id from operations h
  where h.owner = $1 and h.due_at is not null
  order by h.tenant, h.operation_id
  for update)`;

export function handOverStatement(owner: string): Statement {
  return { name: 'hand_over', text: handOverText, values: [owner] };
}

/**
 * Guards that a crash left between a vain claim and its return, and keys that nobody has asked for in a long while: a call that looked
 * one of those up before it went away only begins its count anew.
 */
const orphanText = `
delete from guards g
where (g.tenant, g.guard_key) in (
  select v.tenant, v.guard_key from guards v
  where v.operation_id is not null and v.claimed_at < now() - $1::float8 * interval '1 ms'
      and not exists (select 1 from operations o where o.tenant = v.tenant and o.operation_id = v.operation_id)
    or v.operation_id is null and v.claimed_at < now() - interval '1 hour'
  for update skip locked)`;

export function orphanGuardsStatement(olderThanMs: number): Statement {
  return { name: 'orphan_guards', text: orphanText, values: [olderThanMs] };
}

/**
 * Late positive evidence, in one write: what had ended without an effect, waits to be sent again, or has been sent again since, is
 * contradicted and goes to review with the receipt that corrects the one before; what is in review gets it as further evidence, under a new
 * fence, so that a decision that was made without it finds nothing; what is open is due in a second, which leaves the witness the time to
 * settle it itself. A crash leaves nothing in between, and no freed identity.
 *
 * What had ended has let its entities go, so a state that the gateway keeps moves here if it is still where the effect found it. The guard
 * keys count on as if somebody had held them, before the operation is locked: who decides on the state of before may not claim them.
 */
const witnessText = `
with effect as materialized (
  select * from json_to_recordset($10::json) as e (service text, entity text, from_state text, to_state text)
),
stirred as (
  insert into guards as g (tenant, guard_key, operation_id, write_id)
  select $1, e.entity, null, gen_random_uuid()
  from effect e
  order by e.entity
  on conflict (tenant, guard_key) do update set epoch = g.epoch + 1
  returning g.guard_key
),
before as (
  select o.tenant, o.operation_id, o.state = 'review' as reviewed,
    o.state in ('rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned') as ended,
    o.state in ('approved', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned') or o.state = 'sending' and o.attempt > $3 as contradicted
  from operations o
  where o.tenant = $1 and o.operation_id = $2 and (select count(*) from stirred) >= 0
  for update
),
witnessed as (
  update operations o set
    effect_seen = true,
    state = case when b.contradicted then 'review' else o.state end,
    outcome = case when b.contradicted or b.reviewed then 'committed' else o.outcome end,
    reason = case when b.contradicted then 'CONTRADICTED' else o.reason end,
    fence = case when b.contradicted or b.reviewed then o.fence + 1 else o.fence end,
    owner = case when b.contradicted then null else o.owner end,
    review_id = case when b.contradicted then $8 else o.review_id end,
    effect_receipt = case when b.contradicted or b.reviewed then $4 else o.effect_receipt end,
    due_at = case when b.contradicted then null when o.state in ('sending', 'accepted', 'unknown') then now() + interval '1 s' else o.due_at end
  from before b
  where o.tenant = b.tenant and o.operation_id = b.operation_id
  returning o.tenant, o.operation_id, o.session_id, o.intent_id, o.principal, o.tool, o.state, o.reason, b.contradicted, b.reviewed, b.ended
),
noted as (
  insert into entity_moves (tenant, operation_id, service, entity, from_state, to_state)
  select w.tenant, w.operation_id, e.service, e.entity, e.from_state, e.to_state
  from witnessed w cross join effect e
  where w.ended
  on conflict do nothing
  returning tenant, service, entity, to_state
),
moved as (
  insert into entity_states as s (tenant, service, entity, state)
  select n.tenant, n.service, n.entity, n.to_state from noted n
  on conflict (tenant, service, entity) do update set state = excluded.state, moved_at = now()
    where exists (select 1 from effect e where e.service = s.service and e.entity = s.entity and e.from_state = s.state)
),
done as (
  insert into operation_items (tenant, item, operation_id)
  select w.tenant, decode(i.item, 'hex'), w.operation_id
  from witnessed w cross join unnest($11::text[]) as i (item)
  where w.ended
  order by i.item
  on conflict do nothing
),
receipted as (
  insert into receipts (
    tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
  select w.tenant, $4, 'effect', w.operation_id, w.session_id, w.intent_id, w.principal, w.tool, 'review', 'committed', $5::timestamptz, $6::bytea, $7
  from witnessed w
  where w.contradicted or w.reviewed
),
opened as (
  insert into reviews (tenant, id, operation_id, tool, reason, deadline)
  select w.tenant, $8, w.operation_id, w.tool, w.reason, now() + $9::float8 * interval '1 ms'
  from witnessed w
  where w.contradicted
)
select state, contradicted from witnessed`;

export function witnessStatement(attempt: number, receipt: Receipt, review: OpenedReview, { moves, items }: { moves: readonly EntityMove[]; items: readonly string[] } = { moves: [], items: [] }): Statement {
  const effect = moves.map(({ service, entity, from, to }) => ({ service, entity, from_state: from, to_state: to }));
  const { tenant, id, operation_id, recorded_at, digest, body } = receiptRow(receipt);
  return {
    name: 'witness', text: witnessText,
    values: [tenant, operation_id, attempt, id, recorded_at, digest, body, review.id, review.deadlineMs, JSON.stringify(effect), items],
  };
}
