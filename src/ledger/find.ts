/** Has this been answered? One statement for all look-ups that wait: the call identity, the newest generation, what the session saw. */
import type { Operation } from '../gate/ports.js';
import type { Statement } from './connection.js';
import { keptColumn } from './entity-states.js';
import { hex, operationColumns, type OperationRow, toOperation } from './operation-row.js';
import type { Sealer } from './seal.js';

export interface FindQuery {
  tenant: string;
  callKey: Buffer | null;
  identity: Buffer;
  seen: { principal: string; subject: string; sessionId: string; entity: string } | null;
  guardKeys: readonly string[];
  trust?: { principal: string; subject: string; sessionId: string } | null;
  kept?: readonly { service: string; entity: string }[];
}

export interface FoundRow {
  callFingerprint: Buffer | null;
  callOperation: string | null;
  current: Operation | null;
  seenVersion: string | null;
  untrusted: boolean;
  guardEpochs: number[];
  guarded: boolean;
  kept: (string | null)[];
}

const findText = `
select q.n, a.fingerprint as call_fingerprint, a.operation_id as call_operation, s.version as seen_version, coalesce(u.untrusted, false) as untrusted,
  (select json_build_object('epochs', json_agg(coalesce(g.epoch, 0) order by k.place), 'held', count(g.operation_id) > 0)
   from unnest(q.guard_keys) with ordinality as k (guard_key, place)
   left join lateral (select g.epoch, g.operation_id from guards g where g.tenant = q.tenant and g.guard_key = k.guard_key limit 1) g on true) as guards,${keptColumn},
  ${operationColumns}
from json_to_recordset($1::json) as q (
  n integer, tenant text, call_key bytea, identity bytea, principal text, subject text, session_id text, entity text, asks_trust boolean, guard_keys text[],
  kept_services text[], kept_entities text[])
left join calls a on a.tenant = q.tenant and a.call_key = q.call_key
left join session_entities s on s.tenant = q.tenant and s.principal = q.principal and s.subject = q.subject
  and s.session_id = q.session_id and s.entity = q.entity
left join lateral (
  select true as untrusted from untrusted_sessions m
  where q.asks_trust and m.tenant = q.tenant and m.principal = q.principal and m.subject = q.subject and m.session_id = q.session_id limit 1) u on true
left join lateral (
  select * from operations o where o.tenant = q.tenant and o.identity = q.identity order by o.generation desc limit 1) o on true`;

export function findStatement(queries: FindQuery[]): Statement {
  const rows = queries.map((query, n) => ({
    n, tenant: query.tenant, call_key: query.callKey ? hex(query.callKey) : null, identity: hex(query.identity),
    principal: (query.seen ?? query.trust)?.principal ?? null, subject: (query.seen ?? query.trust)?.subject ?? null,
    session_id: (query.seen ?? query.trust)?.sessionId ?? null, entity: query.seen?.entity ?? null, asks_trust: !!query.trust, guard_keys: query.guardKeys,
    kept_services: (query.kept ?? []).map(({ service }) => service), kept_entities: (query.kept ?? []).map(({ entity }) => entity),
  }));
  return { name: 'find', text: findText, values: [JSON.stringify(rows)] };
}

export function toFoundRows(count: number, rows: OperationRow[], sealer: Sealer): FoundRow[] {
  const found: FoundRow[] = Array.from({ length: count }, () => ({ callFingerprint: null, callOperation: null, current: null, seenVersion: null, untrusted: false, guardEpochs: [], guarded: false, kept: [] }));
  for (const row of rows) {
    found[row['n'] as number] = {
      callFingerprint: row['call_fingerprint'] as Buffer | null,
      callOperation: row['call_operation'] as string | null,
      current: row['operation_id'] === null ? null : toOperation(row, sealer),
      seenVersion: row['seen_version'] as string | null,
      untrusted: row['untrusted'] as boolean,
      guardEpochs: (row['guards'] as { epochs: number[] | null }).epochs ?? [],
      guarded: (row['guards'] as { held: boolean }).held,
      kept: (row['kept'] as (string | null)[] | null) ?? [],
    };
  }
  return found;
}
