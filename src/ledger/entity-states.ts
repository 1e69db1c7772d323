/**
 * States that the gateway keeps. They are moved in the transaction that settles the operation as committed, on the condition that this
 * settlement stood, and read in the statement that reads the guard epochs: who claims a key under an epoch has decided on the state that
 * belongs to it.
 *
 * Whoever moves a state holds the row of the entity's guard key, which a flush locks before anything else (locks-in-order.ts). What had ended
 * without an effect and is committed by a person after all has let its keys go: they count on as if somebody had held them, so that nobody claims
 * them who has decided on the state of before, and a state that has moved on since stays.
 */
import type { EntityMove } from '../gate/ports.js';
import type { LaneStatement } from './pipeline.js';

/** `written`: the write that settles; where it did not come to pass, nothing is moved. */
export interface Moving { tenant: string; operationId: string; writeId: string; late: boolean; move: EntityMove }

const moveText = `
with move as materialized (
  select m.*
  from json_to_recordset($1::json) as m (tenant text, operation_id text, write_id uuid, service text, entity text, from_state text, to_state text, late boolean)
  join lateral (
    select o.write_id, o.state from operations o where o.tenant = m.tenant and o.operation_id = m.operation_id limit 1) present
    on present.write_id = m.write_id and present.state = 'committed'
),
stirred as (
  insert into guards as g (tenant, guard_key, operation_id, write_id)
  select m.tenant, m.entity, null, gen_random_uuid()
  from move m
  where m.late
  order by m.tenant, m.entity
  on conflict (tenant, guard_key) do update set epoch = g.epoch + 1
),
noted as (
  insert into entity_moves (tenant, operation_id, service, entity, from_state, to_state)
  select m.tenant, m.operation_id, m.service, m.entity, m.from_state, m.to_state
  from move m
  order by m.tenant, m.operation_id, m.service, m.entity
  on conflict do nothing
  returning tenant, service, entity, to_state
)
insert into entity_states as s (tenant, service, entity, state)
select n.tenant, n.service, n.entity, n.to_state
from noted n
order by n.tenant, n.service, n.entity
on conflict (tenant, service, entity) do update set state = excluded.state, moved_at = now()
  where not exists (
    select 1 from move m where m.late and m.tenant = s.tenant and m.service = s.service and m.entity = s.entity and m.from_state <> s.state)`;

export function moveStatement(moving: Moving[]): LaneStatement {
  const rows = moving.map(({ tenant, operationId, writeId, late, move }) => ({
    tenant, operation_id: operationId, write_id: writeId, service: move.service, entity: move.entity, from_state: move.from, to_state: move.to, late,
  }));
  return { name: 'entity_moves', text: moveText, values: [JSON.stringify(rows)] };
}

/** For the look-up, whose alias is `q`: of each kept entity its state, null while it has never been moved. */
export const keptColumn = `
  (select json_agg(s.state order by k.place)
   from unnest(q.kept_services, q.kept_entities) with ordinality as k (service, entity, place)
   left join lateral (
     select s.state from entity_states s where s.tenant = q.tenant and s.service = k.service and s.entity = k.entity limit 1) s on true) as kept`;
