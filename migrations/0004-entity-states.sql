-- States that the gateway keeps of entities, and where a session finds the last result of a tool. Both are written with the transition
-- that settles an operation as committed.

-- An entity without a row is in the initial state of its contract. A row is changed by whoever holds the entity's guard key.
create table entity_states (
  tenant    text        not null,
  service   text        not null,
  entity    text        not null,                     -- type:id, as the guard key
  state     text        not null,
  moved_at  timestamptz not null default now(),
  primary key (tenant, service, entity)
) with (fillfactor = 80);

-- Which operation moved what: an operation moves an entity once, however often its effect is found.
create table entity_moves (
  tenant       text        not null,
  operation_id text        not null,
  service      text        not null,
  entity       text        not null,
  from_state   text        not null,
  to_state     text        not null,
  moved_at     timestamptz not null default now(),
  primary key (tenant, operation_id, service, entity)
);

-- The latest committed operation of a tool whose results others bind; the result itself is the operation's sealed answer.
create table session_results (
  tenant       text        not null,
  principal    text        not null,
  subject      text        not null,
  session_id   text        not null,
  tool         text        not null,
  entity       text        not null,                  -- type:id of the tool's own entity; '' where it has none
  operation_id text        not null,
  committed_at timestamptz not null default now(),
  primary key (tenant, principal, subject, session_id, tool, entity)
);
