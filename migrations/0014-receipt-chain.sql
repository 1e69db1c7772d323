-- The chain over receipts: who seals, up to where, and what was signed. A receipt is sealed after its commit and never holds one up.

-- The transaction that wrote a receipt. A snapshot says exactly which transactions a look could see, so that the next look takes those that it
-- could not: whatever their clocks said, and however late they committed. Null: written before this column was there.
alter table receipts add column xact xid8;
alter table receipts alter column xact set default pg_current_xact_id();
create index receipts_xact on receipts (xact) where xact is not null;

-- One row. `fence` grows with every take-over, and every write of a sealer names the one that it holds.
create table receipt_sealer (
  one        boolean     primary key default true check (one),
  owner      text        not null,
  fence      bigint      not null,
  expires_at timestamptz not null,
  sealed     pg_snapshot                              -- what this could see is sealed; null: nobody knows, and everything is looked at
);

-- Signed statements that the chain of a tenant had this link at this sequence.
create table receipt_checkpoints (
  tenant    text        not null,
  sequence  bigint      not null,
  link      bytea       not null,
  key_id    text        not null,
  signed_at timestamptz not null,
  signature bytea       not null,
  primary key (tenant, sequence)
);
