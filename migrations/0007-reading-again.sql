-- Whether a read is a repeat: while a write of its session may take effect none is, and after a refusal over the state of the world the count
-- begins anew.

create index operations_session_open on operations (tenant, session_id)
  where effect <> 'none' and state in ('approved', 'sending', 'accepted', 'unknown', 'review');
create index receipts_session_verdicts on receipts (tenant, session_id, id desc)
  where kind = 'decision' and disposition in ('version_conflict', 'version_required', 'transition_error', 'precondition_failed');
