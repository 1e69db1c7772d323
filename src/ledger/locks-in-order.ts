/**
 * The order of locks in a flush that both settles and reserves, the same on every replica so that no two flushes wait for each other:
 * purses of executions, guard keys, operations, call identities, counters of refusals, purses of turns and their turns, and last what
 * sessions have read and were told; each sorted by key. A flush that settles releases guard keys before it claims others, so it takes
 * all of both beforehand, here, in one pass: a key that nobody has held yet is put there, since its claim would else come out of order, and
 * counts 0 as one that is absent does. A row that is there is locked by its conflict, and not written.
 */
import type { Intent, Transition } from '../gate/ports.js';
import type { LaneStatement } from './pipeline.js';

const lockText = `
with settling as materialized (
  select o.tenant, o.operation_id, o.budget_scope, s.refund, s.late_keys
  from json_to_recordset($1::json) as s (tenant text, operation_id text, refund boolean, late_keys text[])
  join operations o on o.tenant = s.tenant and o.operation_id = s.operation_id
),
reserving as materialized (
  select * from json_to_recordset($2::json) as r (tenant text, budget_scope text, guard_keys text[])
),
purse as materialized (
  select b.scope from budgets b
  where b.kind = 'executions' and (b.tenant, b.scope) in (
    select r.tenant, r.budget_scope from reserving r union select s.tenant, s.budget_scope from settling s where s.refund)
  order by b.tenant, b.scope
  for update
)
insert into guards as g (tenant, guard_key, operation_id, write_id, epoch)
select k.tenant, k.guard_key, null, gen_random_uuid(), 0
from (
  select r.tenant, k.guard_key from reserving r cross join lateral unnest(r.guard_keys) as k (guard_key)
  union
  select s.tenant, k.guard_key from settling s cross join lateral unnest(s.late_keys) as k (guard_key)
  union
  select h.tenant, h.guard_key from settling s join guards h on h.tenant = s.tenant and h.operation_id = s.operation_id) k
where (select count(*) from purse) >= 0
order by k.tenant, k.guard_key
on conflict (tenant, guard_key) do update set epoch = g.epoch where false`;

/**
 * Undefined where a single statement takes its locks in that order by itself: intents without anything that settles, and transitions without
 * intents or refunds, which release keys in their order and hold nothing else that a holder of a key waits for. Who moves a kept state holds the
 * entity's key before.
 */
export function lockStatement(transitions: Transition[], intents: Intent[]): LaneStatement | undefined {
  const settling = transitions.filter(({ settle, refund }) => settle || refund);
  if (settling.length === 0 || (intents.length === 0 && !settling.some(({ refund, moves }) => refund || moves?.length))) return undefined;
  return {
    name: 'lock',
    text: lockText,
    values: [
      JSON.stringify(settling.map(({ tenant, operationId, refund, late, moves = [] }) => ({
        tenant, operation_id: operationId, refund: refund ?? false, late_keys: late ? moves.map(({ entity }) => entity) : [],
      }))),
      JSON.stringify(intents.map(({ operation, budget, guardKeys }) => ({ tenant: operation.tenant, budget_scope: budget?.scope ?? null, guard_keys: guardKeys }))),
    ],
  };
}
