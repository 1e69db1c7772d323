/**
 * What a session was last told of an entity. The last statement of a flush, its rows in the order of their keys: nothing is locked after it,
 * so that two replicas that serve one session never wait for each other.
 */
import type { SeenEntity } from '../gate/ports.js';
import type { LaneStatement } from './pipeline.js';

/** `written`: the write that told it; where that write did not come to pass, nothing was told. */
export interface Told { written: { operationId: string; writeId: string }; own: boolean; seen: SeenEntity }

/**
 * After a session's own write only what it had been told before moves on: a session that never read the entity rests on no version, and must
 * not come to rest on one by writing. Of several rows for one entity in a flush the last one stands.
 */
const toldText = `
insert into session_entities as e (tenant, principal, subject, session_id, entity, version, state)
select distinct on (t.tenant, t.principal, t.subject, t.session_id, t.entity)
  t.tenant, t.principal, t.subject, t.session_id, t.entity, t.version, t.state
from json_to_recordset($1::json) as t (
  n integer, operation_id text, write_id uuid, own boolean, tenant text, principal text, subject text, session_id text, entity text, version text, state text)
join lateral (select o.write_id from operations o where o.tenant = t.tenant and o.operation_id = t.operation_id limit 1) present
  on present.write_id = t.write_id
left join lateral (
  select 1 as told from session_entities b
  where b.tenant = t.tenant and b.principal = t.principal and b.subject = t.subject and b.session_id = t.session_id and b.entity = t.entity
  limit 1) before on true
where not t.own or before.told = 1
order by t.tenant, t.principal, t.subject, t.session_id, t.entity, t.n desc
on conflict (tenant, principal, subject, session_id, entity) do update
  set version = excluded.version, state = excluded.state, observed_at = now()`;

export function toldStatement(told: Told[]): LaneStatement {
  const rows = told.map(({ written, own, seen }, n) => ({
    n, operation_id: written.operationId, write_id: written.writeId, own, tenant: seen.tenant, principal: seen.principal, subject: seen.subject,
    session_id: seen.sessionId, entity: seen.entity, version: seen.version, state: seen.state,
  }));
  return { name: 'told', text: toldText, values: [JSON.stringify(rows)] };
}
