-- What services tell by themselves about what they were sent: kept before it is acknowledged, weighed when its operation is settled. An event
-- has no tenant of its own: it finds one by the key of its operation, which nobody can guess.

create table callbacks (
  service      text        not null,
  event_id     text        not null,                  -- as the service names it: unique, however often it is delivered
  upstream_key text        not null,                  -- of the operation that it is about; an event can be about several
  digest       bytea       not null,                  -- SHA-256 of its body
  sealed_event bytea,                                 -- headers and body; wiped once it is weighed
  received_at  timestamptz not null default now(),
  due_at       timestamptz,                           -- to be looked at then; null: weighed
  tries        integer     not null default 0,
  tenant       text,                                  -- once its operation was found
  operation_id text,
  weighed      text        check (weighed in ('agrees', 'contradicts', 'says_nothing', 'unmatched')),
  primary key (service, event_id, upstream_key)
);
create index callbacks_due on callbacks (due_at) where due_at is not null;
create index callbacks_key on callbacks (upstream_key) where sealed_event is not null;
create index callbacks_operation on callbacks (tenant, operation_id) where operation_id is not null;
create index callbacks_oldest on callbacks (received_at) where due_at is null;

create index operations_upstream_key on operations (upstream_key) where effect <> 'none';
