-- What somebody wants cancelled that waits, unsent and unknown to the ledger, in another replica. A row lives for about a second.
create table cancel_requests (
  tenant text not null,
  operation_id text not null,
  principal text not null,
  subject text,
  asked_at timestamptz not null default now(),
  primary key (tenant, operation_id, principal)
);
