/**
 * Items that were done, each by what it means. They are written in the transaction that settles their operation as committed, on the
 * condition that this settlement stood; who asks holds no lock, and claims the guard keys of the items under the epochs of before.
 */
import type { Statement } from './connection.js';
import type { LaneStatement } from './pipeline.js';

/** `written`: the write that settles; where it did not come to pass, nothing is noted. */
export interface ItemsDone { tenant: string; operationId: string; writeId: string; items: { identity: string; done: boolean }[] }

/** What a later look shows as not done is given back, by the operation that had it. */
const doneText = `
with item as materialized (
  select i.tenant, i.operation_id, decode(i.item, 'hex') as item, i.done
  from json_to_recordset($1::json) as i (tenant text, operation_id text, write_id uuid, item text, done boolean)
  join lateral (
    select o.write_id, o.state from operations o where o.tenant = i.tenant and o.operation_id = i.operation_id limit 1) present
    on present.write_id = i.write_id and present.state = 'committed'
),
undone as (
  delete from operation_items d using item i
  where not i.done and d.tenant = i.tenant and d.item = i.item and d.operation_id = i.operation_id
)
insert into operation_items as d (tenant, item, operation_id)
select distinct on (i.tenant, i.item) i.tenant, i.item, i.operation_id
from item i
where i.done
order by i.tenant, i.item
on conflict (tenant, item) do update set operation_id = excluded.operation_id, done_at = now()
  where d.operation_id <> excluded.operation_id`;

export function itemsStatement(settled: ItemsDone[]): LaneStatement {
  const rows = settled.flatMap(({ tenant, operationId, writeId, items }) => items.map(({ identity, done }) => ({ tenant, operation_id: operationId, write_id: writeId, item: identity, done })));
  return { name: 'items', text: doneText, values: [JSON.stringify(rows)] };
}

const findText = `
select encode(d.item, 'hex') as item
from unnest($2::text[]) as k (item)
join operation_items d on d.tenant = $1 and d.item = decode(k.item, 'hex')
where $3::float8 is null or d.done_at > now() - $3::float8 * interval '1 ms'`;

export function doneItemsStatement(tenant: string, items: readonly string[], windowMs: number | null): Statement {
  return { name: 'done_items', text: findText, values: [tenant, items, windowMs] };
}
