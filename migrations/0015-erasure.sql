-- Erasure of contents: exactly what a sealed notice names. Headers, digests and links stay, and so does every proof.

alter table receipts alter column body drop not null;  -- null: erased
alter table receipts drop constraint receipts_kind_check;
alter table receipts add constraint receipts_kind_check check (kind in ('decision', 'effect', 'erasure')) not valid;

-- Notices: receipts that say what is going to be erased, carried out once they have their place in the chain.
create table erasures (
  tenant         text        not null,
  receipt_id     text        not null,                -- of the notice
  planned_at     timestamptz not null default now(),
  carried_out_at timestamptz,
  primary key (tenant, receipt_id)
);
create index erasures_planned on erasures (planned_at) where carried_out_at is null;

-- How far retention has come along the chain of a tenant, and what it passed because its operation had not ended by then.
create table retention_progress (
  tenant   text   primary key,
  sequence bigint not null
);
create table retention_waits (
  tenant   text   not null,
  sequence bigint not null,
  primary key (tenant, sequence)
);

-- With the rights of the owner, since the role of a gateway cannot update a receipt: but only what a notice in the chain says, nothing of an
-- operation that has not ended, and never a notice.
create function erase_contents(of_tenant text, notice text) returns integer
language sql security definer set search_path from current as $$
  with span as materialized (
    select (s.span->>0)::bigint as first, (s.span->>1)::bigint as last, nc.sequence as before
    from receipts n
    join receipt_chain nc on nc.tenant = n.tenant and nc.receipt_id = n.id
    cross join lateral json_array_elements(n.body::json->'erased') as s (span)
    where n.tenant = of_tenant and n.id = notice and n.kind = 'erasure'
  ),
  named as materialized (
    select r.id, r.operation_id
    from span s
    join receipt_chain c on c.tenant = of_tenant and c.sequence between s.first and s.last and c.sequence < s.before
    join receipts r on r.tenant = c.tenant and r.id = c.receipt_id
    left join operations o on o.tenant = r.tenant and o.operation_id = r.operation_id
    where r.kind <> 'erasure' and r.body is not null
      and (o.operation_id is null
        or o.state in ('committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned') and o.due_at is null)
  ),
  answers as (
    update operations o set sealed_answer = null
    where o.tenant = of_tenant and o.operation_id in (select n.operation_id from named n) and o.sealed_answer is not null
  ),
  summaries as (
    update approvals a set summary = ''
    where a.tenant = of_tenant and a.operation_id in (select n.operation_id from named n)
  ),
  erased as (
    update receipts r set body = null
    where r.tenant = of_tenant and r.id in (select n.id from named n)
    returning r.id
  )
  select count(*)::integer from erased
$$;
revoke execute on function erase_contents(text, text) from public;
