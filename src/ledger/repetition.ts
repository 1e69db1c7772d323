/**
 * How often a session has read the same (semantics.md section 5). Written with the read itself, its rows in the order of their keys. A read
 * that came after another write or verdict than the ones before it begins the count anew, and one that failed ends it.
 */
import type { Repetition } from '../gate/ports.js';
import type { Statement } from './connection.js';
import type { LaneStatement } from './pipeline.js';
import { hex } from './operation-row.js';

const readText = `
insert into session_reads as r (tenant, read_key, times, operation_id, after_write)
select distinct on (c.tenant, c.read_key) c.tenant, c.read_key, case when c.operation_id is null then 0 else 1 end, c.operation_id, c.after_write
from json_to_recordset($1::json) as c (n integer, tenant text, read_key bytea, operation_id text, write_id uuid, after_write text)
left join lateral (select o.write_id from operations o where o.tenant = c.tenant and o.operation_id = c.operation_id limit 1) present on true
where c.operation_id is null or present.write_id = c.write_id
order by c.tenant, c.read_key, c.n desc
on conflict (tenant, read_key) do update set
  times = case
    when excluded.times = 0 then 0
    when r.operation_id = excluded.operation_id then r.times
    when r.after_write is not distinct from excluded.after_write then r.times + 1
    else 1 end,
  operation_id = excluded.operation_id, after_write = excluded.after_write, read_at = now()`;

/** \`operation\`: the read as it was recorded; null: it failed. */
export interface ReadMade { repetition: Repetition; operation: { id: string; writeId: string } | null }

export function repetitionStatement(reads: ReadMade[]): LaneStatement {
  const rows = reads.map(({ repetition, operation }, n) => ({
    n, tenant: repetition.tenant, read_key: hex(repetition.key), operation_id: operation?.id ?? null, write_id: operation?.writeId ?? null, after_write: repetition.since,
  }));
  return { name: 'reads', text: readText, values: [JSON.stringify(rows)] };
}

export const forgottenAtOnce = 1_000;

/** A pause of a day is no loop. In slices, so that no sweep holds many rows. */
const forgetText = `
with gone as (
  delete from session_reads r
  where (r.tenant, r.read_key) in (
    select f.tenant, f.read_key from session_reads f where f.read_at < now() - interval '1 day' order by f.read_at limit ${forgottenAtOnce} for update skip locked)
  returning 1
)
select count(*)::integer as gone from gone`;

export const forgetReads: Statement = { name: 'forget_reads', text: forgetText, values: [] };
