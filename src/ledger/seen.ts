/** What a session was last told of an entity; part of the transition and record statements. */
import type { SeenEntity } from '../gate/ports.js';

export interface SeenRow { n: number; tenant: string; principal: string; subject: string; session_id: string; entity: string; version: string | null; state: string | null }

export const seenColumns = 'n integer, tenant text, principal text, subject text, session_id text, entity text, version text, state text';

export function seenRow(n: number, seen: SeenEntity): SeenRow {
  return {
    n, tenant: seen.tenant, principal: seen.principal, subject: seen.subject, session_id: seen.sessionId, entity: seen.entity,
    version: seen.version, state: seen.state,
  };
}

/** @param source a query with `seenColumns`; of several rows for one entity in a flush the last one stands. */
export function upsertSeen(source: string): string {
  return `insert into session_entities (tenant, principal, subject, session_id, entity, version, state)
  select distinct on (s.tenant, s.principal, s.subject, s.session_id, s.entity)
    s.tenant, s.principal, s.subject, s.session_id, s.entity, s.version, s.state
  from (${source}) s
  order by s.tenant, s.principal, s.subject, s.session_id, s.entity, s.n desc
  on conflict (tenant, principal, subject, session_id, entity) do update
    set version = excluded.version, state = excluded.state, observed_at = now()`;
}

/**
 * After a session's own write: only what it had been told before moves on. A session that never read the entity rests on no version, and
 * must not come to rest on one by writing.
 */
export function updateSeen(source: string): string {
  return `update session_entities t set version = s.version, state = s.state, observed_at = now()
  from (
    select distinct on (a.tenant, a.principal, a.subject, a.session_id, a.entity) a.*
    from (${source}) a
    order by a.tenant, a.principal, a.subject, a.session_id, a.entity, a.n desc
  ) s
  where t.tenant = s.tenant and t.principal = s.principal and t.subject = s.subject and t.session_id = s.session_id and t.entity = s.entity`;
}
