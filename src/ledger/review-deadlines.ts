/** Reviews that wait: those past their deadline, those that a replica of an earlier version left without a row, and how many there are. */
import type { Statement } from './connection.js';

export interface EscalatedReview { tenant: string; id: string; operationId: string; tool: string; reason: string }
export type EscalatedRow = { tenant: string; id: string; operation_id: string; tool: string; reason: string };

/** Once each, by whichever replica comes first; a decision that is under way in this moment is passed over. */
const escalateText = `
update reviews r set escalated_at = now()
where (r.tenant, r.id) in (
  select w.tenant, w.id from reviews w
  where w.decided_at is null and w.escalated_at is null and w.deadline < now()
  order by w.deadline
  limit 100
  for update skip locked)
returning r.tenant, r.id, r.operation_id, r.tool, r.reason`;

export function escalateStatement(): Statement {
  return { name: 'escalate', text: escalateText, values: [] };
}

export function toEscalated(rows: EscalatedRow[]): EscalatedReview[] {
  return rows.map(({ tenant, id, operation_id: operationId, tool, reason }) => ({ tenant, id, operationId, tool, reason }));
}

const adoptText = `
with adopted as (
  update operations o set review_id = 'rev_' || substr(o.operation_id, 4)
  where (o.tenant, o.operation_id) in (
    select u.tenant, u.operation_id from operations u
    where u.state = 'review' and u.review_id is null
    order by u.tenant, u.operation_id
    limit 100
    for update skip locked)
  returning o.tenant, o.review_id, o.operation_id, o.tool, o.reason
)
insert into reviews (tenant, id, operation_id, tool, reason, deadline)
select a.tenant, a.review_id, a.operation_id, a.tool, coalesce(a.reason, 'OUTCOME_UNPROVABLE'), now() + $1::float8 * interval '1 ms' from adopted a`;

export function adoptStatement(deadlineMs: number): Statement {
  return { name: 'adopt_reviews', text: adoptText, values: [deadlineMs] };
}

const countText = `
select count(*)::integer as open, (count(*) filter (where r.deadline < now()))::integer as overdue
from reviews r
where r.decided_at is null`;

export function countReviewsStatement(): Statement {
  return { name: 'count_reviews', text: countText, values: [] };
}
