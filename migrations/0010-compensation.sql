-- What takes back what, and the call by which it is taken back: an effect is compensated once, whoever proposes it.

alter table operations add column undo_key bytea;     -- SHA-256 of the call that its contract names as its undo
alter table operations add column compensates text;   -- the operation that this one takes back

create index operations_undo on operations (tenant, undo_key) where undo_key is not null;
create index operations_compensates on operations (tenant, compensates) where compensates is not null;
