-- Operations that no evidence settles, in a person's hands: why, since when, until when, and what was decided.

alter table operations add column review_id text;     -- the review it is in, or was in last

create table reviews (
  tenant           text        not null,
  id               text        not null,              -- rev_ + ULID
  operation_id     text        not null,
  tool             text        not null,
  reason           text        not null,              -- a code of docs/failure-modes.md
  opened_at        timestamptz not null default now(),
  deadline         timestamptz not null,              -- then it is escalated, and stays open
  escalated_at     timestamptz,
  decision         text        check (decision in ('committed', 'not_committed', 'resend', 'abandon')),
  decided_at       timestamptz,
  decided_by       text,
  decided_because  text,
  decision_receipt text,
  primary key (tenant, id)
);
create index reviews_open on reviews (tenant, opened_at, id) where decided_at is null;
create index reviews_decided on reviews (tenant, decided_at desc, id desc) where decided_at is not null;
create index reviews_waiting on reviews (deadline) where decided_at is null and escalated_at is null;

-- Those that are there already, and what a replica of the version before may still put there: recovery opens a review for each.
create index operations_unreviewed on operations (tenant, operation_id) where state = 'review' and review_id is null;
