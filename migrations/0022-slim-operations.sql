-- An operation that has ended keeps what is still asked of it, and that in a short form (docs/performance.md, "What was learnt"). While it is open it is
-- stored as by the version before, so that a replica of that one can finish it. Nothing here rewrites a row.

-- No update of an operation stays within its page (due_at and state are indexed): room left for one is never used.
alter table operations set (fillfactor = 100);

-- Under which contract of which catalogue something was decided: two digests in four bytes. A row is never changed, and one that is lost with the
-- operations that name it (a standby without the last commits) is written again.
create table served_contracts (
  id               integer generated always as identity primary key,
  contract_digest  text    not null,
  catalogue_digest text    not null,
  unique (contract_digest, catalogue_digest)
);

alter table operations add column served integer;           -- served_contracts.id; null: written by the version before
alter table operations add column attempts_brief text;      -- of an operation that has ended: `attempts`, each an array in the order of its members
alter table operations alter column contract_digest drop not null;   -- null: as `served` says
alter table operations alter column catalogue_digest drop not null;
alter table operations alter column upstream_key drop not null;      -- null: the operation id, and no service calls back about it by its key
