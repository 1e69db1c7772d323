-- Lists that stay quick over millions of rows (docs/decisions/0008-lists-and-retention-at-scale.md). What is indexed is rare: a write that simply goes well
-- has an entry in none of these, but for the intent that it was made for.

create index receipts_disposition on receipts (tenant, disposition, id) where disposition <> 'executed';
create index receipts_intent on receipts (tenant, intent_id) where intent_id <> '';
create index operations_state on operations (tenant, state, created_at, operation_id) where state not in ('sending', 'committed');
create index operations_outcome on operations (tenant, outcome, created_at, operation_id) where outcome <> 'committed';

-- In one direction, so that a page can begin within it.
drop index receipts_outcome;
create index receipts_outcome on receipts (tenant, outcome, id) where outcome <> 'committed';

-- Turns are forgotten after a month, oldest first.
create index session_turns_oldest on session_turns (created_at);
