/**
 * Has this been answered? One statement for all look-ups that wait: the call identity, the newest generation, what the session saw.
 *
 * It says itself whether the server still writes. A primary that was left behind by a failover goes on answering, and what it shows is history: a verdict
 * on that (not legal in this state) would be recorded at the new primary, where the call may have been answered otherwise.
 */
import type { OperationState } from '../model.js';
import type { Found, Ledger, Reading, SessionStanding } from '../gate/ports.js';
import { inParts } from './parts.js';
import type { LaneStatement } from './pipeline.js';
import { keptColumn } from './entity-states.js';
import { hex, operationColumns, type OperationRow, toOperation } from './operation-row.js';
import type { Sealer } from './seal.js';

export type FindQuery = Parameters<Ledger['find']>[0];

/** `Found`, before the operation that the call identity stands for is fetched, where it is another one. */
export type FoundRow = Omit<Found, 'call'> & { callFingerprint: Buffer | null; callOperation: string | null };

/** What only some look-ups ask for, with whom the others share a flush. */
interface Part { columns: string; joins?: string; isAskedBy(query: FindQuery): boolean }

const parts: Readonly<Record<string, Part>> = {
  kept: { columns: keptColumn, isAskedBy: ({ kept }) => kept !== undefined && kept.length > 0 },
  seen: {
    columns: 's.version as seen_version',
    joins: `
left join session_entities s on s.tenant = q.tenant and s.principal = q.principal and s.subject = q.subject
  and s.session_id = q.session_id and s.entity = q.entity`,
    isAskedBy: ({ seen }) => seen !== null,
  },
  trust: {
    columns: 'coalesce(u.untrusted, false) as untrusted',
    joins: `
left join lateral (
  select true as untrusted from untrusted_sessions m
  where q.asks_trust and m.tenant = q.tenant and m.principal = q.principal and m.subject in (q.subject, '') and m.session_id = q.session_id limit 1) u on true`,
    isAskedBy: ({ trust }) => !!trust,
  },
  reading: {
    columns: `r.times as read_times, r.operation_id as last_read, r.after_write as read_after, concat_ws('/', w.operation_id, v.id) as newest, e.there is not null as may_change`,
    joins: `
left join session_reads r on r.tenant = q.tenant and r.read_key = q.read_key
left join lateral (
  select n.operation_id from operations n
  where q.read_key is not null and n.tenant = q.tenant and n.session_id = q.session_id and n.effect <> 'none' and n.state = 'committed'
  order by n.settled_at desc limit 1) w on true
left join lateral (
  select 1 as there from operations n
  where q.read_key is not null and n.tenant = q.tenant and n.session_id = q.session_id and n.effect <> 'none'
    and n.state in ('approved', 'sending', 'accepted', 'unknown', 'review')
  limit 1) e on true
left join lateral (
  select v.id from receipts v
  where q.read_key is not null and v.tenant = q.tenant and v.session_id = q.session_id and v.kind = 'decision'
    and v.disposition in ('version_conflict', 'version_required', 'transition_error', 'precondition_failed')
  order by v.id desc limit 1) v on true`,
    isAskedBy: ({ readKey }) => readKey !== undefined,
  },
  before: {
    columns: 'o_read.state as read_before',
    joins: `
left join lateral (
  select o.state from operations o where o.tenant = q.tenant and o.identity = q.read_identity order by o.generation desc limit 1) o_read on true`,
    isAskedBy: ({ readIdentity }) => !!readIdentity,
  },
};

const findText = (asked: readonly Part[]): string => `
select q.n, current_setting('transaction_read_only') = 'on' as left_behind, a.fingerprint as call_fingerprint, a.operation_id as call_operation,
  (select json_build_object('epochs', json_agg(coalesce(g.epoch, 0) order by k.place), 'held', count(g.operation_id) > 0)
   from unnest(q.guard_keys) with ordinality as k (guard_key, place)
   left join lateral (select g.epoch, g.operation_id from guards g where g.tenant = q.tenant and g.guard_key = k.guard_key limit 1) g on true) as guards,
  ss.root_session_id as root, b.quota as purse_quota, b.used as purse_used, p.quota as proposal_quota, f.refused,
  ${[...asked.map(({ columns }) => columns), operationColumns].join(',\n  ')}
from json_to_recordset($1::json) as q (
  n integer, tenant text, call_key bytea, identity bytea, read_identity bytea, principal text, subject text, session_id text, entity text, asks_trust boolean, guard_keys text[],
  kept_services text[], kept_entities text[],
  own text, task text, purse text, tool text, read_key bytea)
left join calls a on a.tenant = q.tenant and a.call_key = q.call_key
left join sessions ss on ss.tenant = q.tenant and ss.session_id = q.session_id
left join budgets b on b.tenant = q.tenant and b.scope = coalesce('session:' || ss.root_session_id, q.purse) and b.kind = 'executions'
left join budgets p on p.tenant = q.tenant and p.scope = 'session:' || ss.root_session_id and p.kind = 'proposals'
left join session_refusals f on f.tenant = q.tenant and f.scope = coalesce('session:' || ss.root_session_id, q.own) and f.tool = q.tool and f.task = q.task${asked.map(({ joins }) => joins ?? '').join('')}
left join lateral (
  select * from operations o where o.tenant = q.tenant and o.identity = q.identity order by o.generation desc limit 1) o on true`;

const find = inParts<string, FindQuery>(
  'find', Object.fromEntries(Object.entries(parts).map(([part, { isAskedBy }]) => [part, isAskedBy])),
  (has) => findText(Object.entries(parts).flatMap(([name, part]) => (has[name] ? [part] : []))),
);

export function findStatement(queries: FindQuery[]): LaneStatement {
  const rows = queries.map((query, n) => ({
    n, tenant: query.tenant, call_key: query.callKey ? hex(query.callKey) : null, identity: query.identity ? hex(query.identity) : null,
    read_identity: query.readIdentity ? hex(query.readIdentity) : null,
    principal: (query.seen ?? query.trust)?.principal ?? null, subject: (query.seen ?? query.trust)?.subject ?? null, asks_trust: !!query.trust,
    session_id: query.session?.id ?? (query.seen ?? query.trust)?.sessionId ?? null,
    entity: query.seen?.entity ?? null, guard_keys: query.guardKeys, own: query.session?.own ?? null, task: query.session?.task ?? null,
    purse: query.session?.purse ?? null, tool: query.session?.tool ?? null, read_key: query.readKey ? hex(query.readKey) : null,
    kept_services: (query.kept ?? []).map(({ service }) => service), kept_entities: (query.kept ?? []).map(({ entity }) => entity),
  }));
  return { ...find(queries), values: [JSON.stringify(rows)] };
}

/** @throws Error as of a write there: the connection is of no use, and another one may be */
function mustWrite(rows: readonly OperationRow[]): void {
  if (rows.some((row) => row['left_behind'] === true)) throw Object.assign(new Error('the server only reads: another may be the primary by now'), { code: '25006' });
}

export function toFoundRows(queries: FindQuery[], rows: OperationRow[], sealer: Sealer): FoundRow[] {
  mustWrite(rows);
  const byPlace = new Map(rows.map((row) => [row['n'], row]));
  return queries.map((query, n) => toFound(query, byPlace.get(n) as OperationRow, sealer));
}

function toFound(query: FindQuery, row: OperationRow, sealer: Sealer): FoundRow {
  return {
    callFingerprint: row['call_fingerprint'] as Buffer | null,
    callOperation: row['call_operation'] as string | null,
    current: row['operation_id'] === null ? null : toOperation(row, sealer),
    readBefore: (row['read_before'] as OperationState | null | undefined) ?? null,
    seenVersion: (row['seen_version'] as string | null | undefined) ?? null,
    untrusted: row['untrusted'] === true,
    guardEpochs: (row['guards'] as { epochs: number[] | null }).epochs ?? [],
    guarded: (row['guards'] as { held: boolean }).held,
    kept: (row['kept'] as (string | null)[] | null | undefined) ?? [],
    session: query.session ? toStanding(row) : null,
    reading: query.readKey ? toReading(row) : null,
  };
}

function toStanding(row: OperationRow): SessionStanding {
  const quota = row['purse_quota'] as number | null;
  return {
    root: row['root'] as string | null,
    executions: quota === null ? null : { limit: quota, used: row['purse_used'] as number },
    proposals: { limit: row['proposal_quota'] as number | null, used: (row['refused'] as number | null) ?? 0 },
  };
}

/** What was read before another write or verdict of the session is no repeat, and while a write may take effect nothing is. */
function toReading(row: OperationRow): Reading {
  const since = row['newest'] as string;
  const same = row['read_times'] !== null && row['read_after'] === since && row['may_change'] === false;
  return { since, times: same ? (row['read_times'] as number) : 0, last: same ? (row['last_read'] as string | null) : null };
}
