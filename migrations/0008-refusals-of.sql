-- Whose the last of those refusals was: `own` of that caller and session (0005-sessions.sql). Callers who share a session are not told of each other's.

alter table session_refusals add column own text;
