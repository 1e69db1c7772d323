/**
 * A refusal of the guard, in one statement with its charge: the receipt is written only if the budget of re-proposals had room for it. The
 * counter grants from the row that it locks and remembers what it was before, so that several refusals in one flush know their places.
 */
import type { ChargedRefusal, Purse } from '../gate/ports.js';
import { type Dictionaries, dictionaryId } from './dictionaries.js';
import type { LaneStatement } from './pipeline.js';

const refuseText = `
with asked as materialized (
  select
    c.*, coalesce('session:' || s.root_session_id, c.own) as scope, coalesce(b.quota, c.quota_default) as quota, r.id is not null as already
  from json_to_recordset($1::json) as c (
    n integer, tenant text, session_id text, own text, charged_tool text, task text, quota_default integer, id text, kind text, operation_id text,
    receipt_session text, intent_id text, principal text, tool text, disposition text, outcome text, recorded_at timestamptz, digest bytea, body text,
    packed bytea, dictionary bytea)
  left join sessions s on s.tenant = c.tenant and s.session_id = c.session_id
  left join budgets b on b.tenant = c.tenant and b.scope = 'session:' || s.root_session_id and b.kind = 'proposals'
  left join lateral (select e.id from receipts e where e.tenant = c.tenant and e.id = c.id limit 1) r on true
),
placed as materialized (
  select a.*, row_number() over (partition by a.tenant, a.scope, a.charged_tool, a.task order by a.n)::integer as place
  from asked a
  where not a.already
),
counted as (
  insert into session_refusals as f (tenant, scope, tool, task, refused, own)
  select p.tenant, p.scope, p.charged_tool, p.task, least(max(p.place), max(p.quota)), max(p.own)
  from placed p
  group by p.tenant, p.scope, p.charged_tool, p.task
  order by p.tenant, p.scope, p.charged_tool, p.task
  on conflict (tenant, scope, tool, task) do update set
    own = excluded.own,
    before = f.refused,
    refused = greatest(f.refused, least(
      f.refused + (select max(p.place) from placed p where p.tenant = f.tenant and p.scope = f.scope and p.charged_tool = f.tool and p.task = f.task),
      (select max(p.quota) from placed p where p.tenant = f.tenant and p.scope = f.scope and p.charged_tool = f.tool and p.task = f.task)))
  returning f.tenant, f.scope, f.tool, f.task, f.refused, f.before
),
granted as materialized (
  select p.n, p.quota, c.refused, p.place <= c.refused - c.before as stands
  from placed p
  join counted c on c.tenant = p.tenant and c.scope = p.scope and c.tool = p.charged_tool and c.task = p.task
),
receipted as (
  insert into receipts (
    tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body, packed, dictionary)
  select
    p.tenant, p.id, p.kind, p.operation_id, p.receipt_session, p.intent_id, p.principal, p.tool, p.disposition, p.outcome, p.recorded_at, p.digest, p.body,
    p.packed, ${dictionaryId('p.dictionary')}
  from placed p
  where p.n in (select g.n from granted g where g.stands)
  on conflict do nothing
)
select a.n, coalesce(g.stands, true) as stands, a.quota, coalesce(g.refused, 0) as refused
from asked a
left join granted g on g.n = a.n
order by a.n`;

export interface RefusalRow { n: number; stands: boolean; quota: number; refused: number }

export function refuseStatement(refusals: ChargedRefusal[], dictionaries: Dictionaries): LaneStatement {
  const rows = refusals.map(({ receipt, charge }, n) => {
    const { session_id, ...row } = dictionaries.row(receipt);
    return {
      n, ...row, receipt_session: session_id, session_id: charge.session.id, own: charge.session.own, charged_tool: charge.tool, task: charge.session.task,
      quota_default: charge.limit,
    };
  });
  return { name: 'refuse', text: refuseText, values: [JSON.stringify(rows)] };
}

/** Null: the refusal stands, recorded and charged; else the budget as it is, and nothing was recorded. */
export function toSpent(row: RefusalRow): Purse | null {
  return row.stands ? null : { limit: row.quota, used: row.refused };
}
