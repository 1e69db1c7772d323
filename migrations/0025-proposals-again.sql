-- Under which other call identities an operation was asked for again: few, and the story of an operation shows them. That of the proposal that began it needs
-- no entry, so a write that is proposed once is in no index but the key of this table.

alter table calls add column again boolean;            -- null: the proposal that began the operation
update calls c set again = true from operations o where o.tenant = c.tenant and o.operation_id = c.operation_id and o.created_at <> c.created_at;
create index calls_again on calls (tenant, operation_id) where again;
