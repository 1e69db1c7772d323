-- Sessions that the application created, and what is counted of a session. `scope` is whose it is: `session:<root>` where the application
-- created it, else `own:<hash of principal, subject and session>`, so that callers who happen to name equal sessions never meet.

alter table sessions add column root_session_id text not null default '';   -- of itself or its topmost parent: whose budgets it draws on

-- Turns that were charged, so that one that is sent again draws nothing.
create table session_turns (
  tenant     text        not null,
  scope      text        not null,
  session_id text        not null,
  turn_id    text        not null,
  created_at timestamptz not null default now(),
  primary key (tenant, scope, session_id, turn_id)
);

-- Refused proposals of one tool for one task: an intent, or without one the session.
create table session_refusals (
  tenant  text    not null,
  scope   text    not null,
  tool    text    not null,
  task    text    not null,
  refused integer not null,
  before  integer not null default 0,                 -- as it was when the last charge was made: tells a flush how much was granted
  primary key (tenant, scope, tool, task)
) with (fillfactor = 80);

-- Equal reads of one session, told from the third on. `after_write` is the committed write that they came after: another one begins the count anew.
create table session_reads (
  tenant       text        not null,
  read_key     bytea       not null,                  -- SHA-256 of caller, session, tool and arguments
  times        integer     not null,
  operation_id text,                                  -- of the last one: its answer is what is told; null after one that failed
  after_write  text,
  read_at      timestamptz not null default now(),
  primary key (tenant, read_key)
) with (fillfactor = 80);
create index session_reads_oldest on session_reads (read_at);

-- The newest committed write of a session.
create index operations_session_writes on operations (tenant, session_id, settled_at desc) where effect <> 'none' and state = 'committed';
