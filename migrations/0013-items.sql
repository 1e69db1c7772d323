-- Items of a list that a call was about: what was done is done, however the list around it is put together the next time.

create table operation_items (
  tenant text not null,
  item bytea not null,                                  -- SHA-256 of what the item means
  operation_id text not null,
  done_at timestamptz not null default now(),
  primary key (tenant, item)
);
