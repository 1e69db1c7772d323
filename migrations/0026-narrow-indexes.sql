-- Fewer bytes for each operation (docs/performance.md, "Millions of operations"): indexes hold what a look-up asks for, and no order that is cheaper made than kept.

-- A session has few receipts, and its name is kept once for all of them. The few are put in order when they are asked for.
drop index receipts_session;
create index receipts_session on receipts (tenant, session_id);

-- Ids that are hashes themselves, or begin with a time, and are only ever looked up: four bytes of each. A statement compares the tenant in a way
-- that no index serves (`is not distinct from`): over a table that nothing is known of yet the planner would go through all that a tenant has.
drop index receipts_operation;
create index receipts_operation on receipts using hash (operation_id) where operation_id is not null;
alter table receipt_chain drop constraint receipt_chain_tenant_receipt_id_key;
create index receipt_chain_receipt on receipt_chain using hash (receipt_id);

-- Operations of one instant are put in order when they are read. Upwards, so that what is new comes at the end, where pages are filled.
drop index operations_newest;
create index operations_newest on operations (tenant, created_at);

-- What a link has before it is the link of the place before. A replica of the version before needs both, so it is left out once an operator has said
-- that there are none (`callgate migrate --pack-receipts`), or where there was nothing before.
alter table receipt_chain alter column previous drop not null;
alter table receipt_packing add column links boolean not null default false;
update receipt_packing set links = true where not exists (select from receipts);

-- As in 0020; a notice is found in the chain by its id alone.
create or replace function erase_contents(of_tenant text, notice text) returns integer
language sql security definer set search_path from current as $$
  with span as materialized (
    select (s.span->>0)::bigint as first, (s.span->>1)::bigint as last, n.before
    from (
      select n.body, c.sequence as before
      from receipts n cross join lateral (
        select c.sequence from receipt_chain c where c.tenant is not distinct from n.tenant and c.receipt_id = n.id limit 1) c
      where n.tenant = of_tenant and n.id = notice and n.kind = 'erasure'
    ) n
    cross join lateral json_array_elements(n.body::json->'erased') as s (span)
  ),
  named as materialized (
    select r.id, r.operation_id
    from span s
    cross join lateral (
      select c.receipt_id from receipt_chain c
      where c.tenant = of_tenant and c.sequence between s.first and s.last and c.sequence < s.before
      order by c.sequence offset 0) c
    cross join lateral (
      select r.id, r.operation_id, r.kind, r.body is null and r.packed is null as erased from receipts r where r.tenant = of_tenant and r.id = c.receipt_id limit 1) r
    left join lateral (
      select o.operation_id, o.state, o.due_at from operations o where o.tenant = of_tenant and o.operation_id = r.operation_id limit 1) o on true
    where r.kind <> 'erasure' and not r.erased
      and (o.operation_id is null
        or o.state in ('committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned') and o.due_at is null)
  ),
  answers as (
    update operations o set sealed_answer = null
    where o.tenant = of_tenant and o.operation_id = any (array(select n.operation_id from named n)) and o.sealed_answer is not null
  ),
  summaries as (
    update approvals a set summary = '', ended_because = case when ended_because is not null then '' end
    where a.tenant = of_tenant and a.operation_id = any (array(select n.operation_id from named n))
  ),
  reasons as (
    update reviews v set decided_because = ''
    where v.tenant = of_tenant and v.decided_because is not null
      and v.id = any (array(
        select o.review_id from operations o where o.tenant = of_tenant and o.operation_id = any (array(select n.operation_id from named n)) and o.review_id is not null))
  ),
  erased as (
    update receipts r set body = null, packed = null, dictionary = null
    where r.tenant = of_tenant and r.id = any (array(select n.id from named n))
    returning r.id
  )
  select count(*)::integer from erased
$$;
