-- The ledger: what was meant (operations), who asked (calls), what may not overlap (guards), what was decided and seen (receipts).
-- Every key is led by the tenant. Times are database time. Payloads of a person are sealed or redacted before they arrive here.

create table operations (
  tenant            text        not null,
  operation_id      text        not null,             -- op_ + hash(identity, generation): survives the loss of this table
  identity          bytea       not null,             -- SHA-256 of the operation identity, semantics.md section 1
  generation        integer     not null check (generation >= 1),
  upstream_key      text        not null,             -- the idempotency key on every attempt; kept over generations unless the upstream refused
  effect            text        not null check (effect in ('none', 'write', 'irreversible')),
  state             text        not null check (state in ('parked', 'approved', 'sending', 'accepted', 'unknown', 'review',
                                                          'committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned')),
  fence             integer     not null default 1,   -- grows with every take-over; every transition names the one it holds
  write_id          uuid        not null,             -- of the last transition: tells our own write when its acknowledgement was lost
  owner             text,                             -- replica that holds the lease
  due_at            timestamptz,                      -- lease expiry while owned, else when recovery should look; null: nobody need look
  attempt           integer     not null default 1,
  attempt_id        uuid,                             -- unique per attempt, travels to the upstream
  attempts          jsonb       not null default '[]',-- finished attempts: number, sent, status or reason, outcome, ms
  unknown_attempts  integer     not null default 0,
  effect_seen       boolean     not null default false, -- monotone: positive evidence of any attempt, whatever its fence
  verified          boolean     not null default false,
  first_sent_at     timestamptz,
  send_by           timestamptz,                      -- the send fence of the newest attempt
  absent_from       timestamptz,                      -- a read-back that began before this proves no absence
  reconcile_by      timestamptz,                      -- then a person decides
  reason            text,                             -- why it is in review, or how it ended: a code
  outcome           text        check (outcome in ('committed', 'accepted', 'rejected', 'not_committed', 'unknown')),
  tool              text        not null,
  contract_version  text        not null,
  contract_digest   text        not null,
  catalogue_digest  text        not null,
  principal         text        not null,
  subject           text        not null,             -- '' where there is none
  purpose           text        not null,
  session_id        text        not null,
  turn_id           text        not null,
  intent_id         text        not null,
  call_id           text        not null,             -- of the proposal that began it, verbatim
  fingerprint       bytea       not null,
  budget_scope      text,                             -- the purse that paid for it; paid back only when no byte ever left
  decision_receipt  text,
  effect_receipt    text,
  sealed_request    bytea,                            -- rendered request and what read-back needs; wiped when terminal
  sealed_answer     bytea,                            -- wiped at retention
  created_at        timestamptz not null default now(),
  settled_at        timestamptz,
  primary key (tenant, operation_id)
) with (fillfactor = 80);

create unique index operations_identity on operations (tenant, identity, generation);
create index operations_due on operations (due_at) where due_at is not null;
create index operations_newest on operations (tenant, created_at desc, operation_id desc);

-- Call identity → the operation that answered it. Reads need none: a read's operation identity is its call identity.
create table calls (
  tenant       text        not null,
  call_key     bytea       not null,                  -- SHA-256 of the call identity
  fingerprint  bytea       not null,
  operation_id text        not null,
  created_at   timestamptz not null default now(),
  primary key (tenant, call_key)
);

-- One open effect at a time per guard key, over all replicas. A free key of an entity keeps its row: `epoch` counts its holders, so that
-- a claim can be refused whose observations were made before another holder came and went.
create table guards (
  tenant       text        not null,
  guard_key    text        not null,
  operation_id text,                                  -- the holder; null: free
  write_id     uuid        not null,                  -- of the claim
  epoch        bigint      not null default (1 + random() * 4503599627370494)::bigint,
  claimed_at   timestamptz not null default now(),
  primary key (tenant, guard_key)
) with (fillfactor = 80);
create index guards_holder on guards (tenant, operation_id) where operation_id is not null;
create index guards_free on guards (claimed_at) where operation_id is null;

-- Append-only. `body` is the canonical text whose SHA-256 is `digest`; a sealer gives sequence and chain link afterwards, in a table of its own.
create table receipts (
  tenant       text        not null,
  id           text        not null,                  -- rcp_ + ULID: its time is recorded_at
  kind         text        not null check (kind in ('decision', 'effect')),
  operation_id text,
  session_id   text        not null,
  intent_id    text        not null,
  principal    text        not null,
  tool         text        not null,
  disposition  text        not null,
  outcome      text,
  recorded_at  timestamptz not null,
  digest       bytea       not null,
  body         text        not null,
  primary key (tenant, id)
);
create index receipts_operation on receipts (tenant, operation_id) where operation_id is not null;
create index receipts_session on receipts (tenant, session_id, id);

create table receipt_chain (
  tenant     text   not null,
  sequence   bigint not null,
  receipt_id text   not null,
  previous   bytea  not null,
  link       bytea  not null,
  primary key (tenant, sequence),
  unique (tenant, receipt_id)
);

create table sessions (
  tenant            text        not null,
  session_id        text        not null,
  parent_session_id text,
  created_by        text        not null,
  created_at        timestamptz not null default now(),
  primary key (tenant, session_id)
);

-- What a session was last told of an entity: the version that its next proposal rests on.
create table session_entities (
  tenant      text        not null,
  principal   text        not null,
  subject     text        not null,
  session_id  text        not null,
  entity      text        not null,                   -- type:id
  version     text,
  state       text,
  observed_at timestamptz not null default now(),
  primary key (tenant, principal, subject, session_id, entity)
);

create table budgets (
  tenant text    not null,
  scope  text    not null,                            -- session:<id>, or principal:<id>:<day>
  kind   text    not null check (kind in ('executions', 'proposals', 'turns')),
  quota  integer not null,
  used   integer not null default 0 check (used >= 0),
  primary key (tenant, scope, kind)
);

-- Compiled sources that receipts and open operations refer to.
create table catalogues (
  digest     text        primary key,
  source     text        not null,
  created_at timestamptz not null default now()
);

create table api_keys (
  prefix      text        primary key,                -- the public part of the key: a look-up by it finds the tenant
  tenant      text        not null,
  digest      bytea       not null,                   -- HMAC under the pepper
  principal   text        not null,
  roles       text[]      not null,
  subject     text,
  purposes    text[]      not null default '{}',
  tools       text[]      not null,                   -- {*} for every published tool
  grants      jsonb       not null default '{}',
  created_at  timestamptz not null default now(),
  expires_at  timestamptz,
  revoked_at  timestamptz
);
create index api_keys_tenant on api_keys (tenant, prefix);
