-- Calls that wait for an approval before they are sent. The state of an approval is that of its operation.

alter table operations add column approval_id text;
alter table operations add column expires_at timestamptz;   -- of the approval: nobody approves it after that

-- What waits for a person or for its turn to be sent holds no guard.
create index operations_unsent on operations (tenant, operation_id) where state in ('parked', 'approved');

create table approvals (
  tenant       text        not null,
  id           text        not null,                  -- apr_ + ULID
  operation_id text        not null,
  tool         text        not null,
  principal    text        not null,                  -- the proposer
  session_id   text        not null,
  rule         text        not null check (rule in ('client', 'application', 'reviewer')),
  needed       integer     not null check (needed >= 1),
  digest       text        not null,                  -- of what is approved: arguments, contract, subject, policy
  summary      text        not null,
  approved_by  text[]      not null default '{}',
  asked_at     timestamptz not null default now(),
  ended_by     text,                                  -- of a rejection or revocation
  ended_at     timestamptz,
  ended_because text,
  primary key (tenant, id)
);
create unique index approvals_operation on approvals (tenant, operation_id);
create index approvals_order on approvals (tenant, asked_at, id);
