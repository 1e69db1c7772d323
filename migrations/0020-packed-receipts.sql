-- Contents of receipts without what their columns and their contract say anyway (docs/receipts.md, "How contents are kept").

-- Over which they were packed: content-addressed, and never changed or removed, since whatever was packed over one cannot be read without it.
-- Made of contracts, so that nothing is in it that an erasure would have to reach.
create table receipt_dictionaries (
  id         integer     generated always as identity primary key,
  digest     bytea       not null unique check (digest = sha256(dictionary)),
  dictionary bytea       not null,
  created_at timestamptz not null default now()
);

-- Either `body` or both of these; all null: erased.
alter table receipts add column packed bytea, add column dictionary integer;
alter table receipts alter column packed set storage external; -- it does not get any smaller
alter table receipts add constraint receipts_whole check ((packed is null) = (dictionary is null) and (packed is null or body is null)) not valid;

-- A row: every replica can read what is packed. A gateway of the version before takes it for erased, and retention would pass it over, so where
-- there are receipts already an operator says so once all are replaced (`callgate migrate --pack-receipts`).
create table receipt_packing (
  one   boolean     primary key default true check (one),
  since timestamptz not null default now()
);
insert into receipt_packing (one) select true where not exists (select from receipts);

-- As in 0019, and what is packed is erased as what is not.
create or replace function erase_contents(of_tenant text, notice text) returns integer
language sql security definer set search_path from current as $$
  with span as materialized (
    select (s.span->>0)::bigint as first, (s.span->>1)::bigint as last, n.before
    from (
      select n.body, c.sequence as before
      from receipts n cross join lateral (select c.sequence from receipt_chain c where c.tenant = n.tenant and c.receipt_id = n.id limit 1) c
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
