-- What a person looks for among receipts is rare: what is not known, not committed or refused. Nothing is written here for the many that went well.
create index receipts_outcome on receipts (tenant, outcome, id desc) where outcome <> 'committed';
