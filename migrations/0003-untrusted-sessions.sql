-- Sessions that have been told a result of a tool that its contract marks as untrusted: policies and approvals may ask for more in them.
create table untrusted_sessions (
  tenant     text        not null,
  principal  text        not null,
  subject    text        not null,
  session_id text        not null,
  tool       text        not null,                    -- whose result was the first
  since      timestamptz not null default now(),
  primary key (tenant, principal, subject, session_id)
);
