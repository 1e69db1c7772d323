/** The latest committed result of a tool in a session, for those that bind it. The result itself stays in the operation's sealed answer. */
import type { LastQuery, Remembered } from '../gate/ports.js';
import type { Statement } from './connection.js';
import type { LaneStatement } from './pipeline.js';
import { operationColumns } from './operation-row.js';

export interface Remembering { tenant: string; operationId: string; writeId: string; remembered: Remembered }

/** After what sessions were told, the last rows that a flush locks; each sorted by key. Of several for one key in a flush the last stands. */
const rememberText = `
insert into session_results as r (tenant, principal, subject, session_id, tool, entity, operation_id)
select distinct on (c.tenant, c.principal, c.subject, c.session_id, c.tool, c.entity)
  c.tenant, c.principal, c.subject, c.session_id, c.tool, c.entity, c.operation_id
from json_to_recordset($1::json) as c (
  n integer, tenant text, operation_id text, write_id uuid, principal text, subject text, session_id text, tool text, entity text)
join lateral (
  select o.write_id, o.state from operations o where o.tenant = c.tenant and o.operation_id = c.operation_id limit 1) present
  on present.write_id = c.write_id and present.state = 'committed'
order by c.tenant, c.principal, c.subject, c.session_id, c.tool, c.entity, c.n desc
on conflict (tenant, principal, subject, session_id, tool, entity) do update
  set operation_id = excluded.operation_id, committed_at = now()`;

export function rememberStatement(remembering: Remembering[]): LaneStatement {
  const rows = remembering.map(({ tenant, operationId, writeId, remembered }, n) => ({
    n, tenant, operation_id: operationId, write_id: writeId, principal: remembered.principal, subject: remembered.subject,
    session_id: remembered.sessionId, tool: remembered.tool, entity: remembered.entity,
  }));
  return { name: 'session_results', text: rememberText, values: [JSON.stringify(rows)] };
}

/** Without an entity the latest of the session. */
const lastText = `
select ${operationColumns}
from session_results r
join operations o on o.tenant = r.tenant and o.operation_id = r.operation_id
where r.tenant = $1 and r.principal = $2 and r.subject = $3 and r.session_id = $4 and r.tool = $5
  and ($6::text is null or r.entity = $6::text)
order by r.committed_at desc
limit 1`;

export function lastStatement({ tenant, principal, subject, sessionId, tool, entity }: LastQuery): Statement {
  return { name: 'last_result', text: lastText, values: [tenant, principal, subject, sessionId, tool, entity] };
}
