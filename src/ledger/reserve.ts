/**
 * The intent commit: one statement that gives each candidate its generation, its guard keys, its place in the budget, its call
 * identity and its decision receipt, or nothing of all that.
 *
 * What waits for an approval is parked by the same statement: all but the guard keys, which it names none of until it is dispatched.
 *
 * Every look at a table that grows is a lateral join with a limit: as an `exists` outside a plain condition it may be planned as a scan of the
 * whole table, once and for all where the plan was cached while the table was small, and `enable_seqscan = off` does not prevent that.
 *
 * Order within the statement, the same on every replica so that no two flushes wait for each other: purses, guard keys,
 * call identities, operations; each sorted by key. A budget grants ranks only from rows that it has locked, and is charged
 * only for rows that were really inserted.
 *
 * A session that the application created since the call was looked up pays for it: the call finds that when it is looked up again.
 *
 * A guard key is claimed only if it is free and nobody has held it since the call looked it up, before it observed anything: so no
 * precondition is decided on what another replica has changed in the meantime.
 *
 * A guard key can be claimed in vain: by an operation with several keys of which one was taken, or by one that settled between
 * our snapshot and our insert. Those are given back at once by `unclaimVain`; a crash in between leaves a guard without an
 * operation, which recovery removes. A call identity claimed in vain names an operation that is not there, and is read as absent; or one
 * that another replica has reserved in the same moment under the same application's key for a different call, and is given back too.
 */
import type { Intent, Reservation } from '../gate/ports.js';
import { type Dictionaries, dictionaryId } from './dictionaries.js';
import { type Has, inParts } from './parts.js';
import type { LaneStatement } from './pipeline.js';
import { answerPlace, hex, requestPlace } from './operation-row.js';
import type { Sealer } from './seal.js';
import { servedOf } from './served-contracts.js';

type Part = 'daily' | 'again' | 'called' | 'parked';

/** What a call identity stood for when it was looked up is over. */
const rebound = `update
    set fingerprint = excluded.fingerprint, operation_id = excluded.operation_id, created_at = now(), again = null
    where exists (
      select 1 from candidate c where c.tenant = a.tenant and c.call_key = a.call_key and c.previous_operation = a.operation_id)`;

const calledText = (again: boolean): string => `
called as (
  insert into calls as a (tenant, call_key, fingerprint, operation_id)
  select f.tenant, f.call_key, f.fingerprint, f.operation_id
  from fresh f
  where f.call_key is not null
  order by f.tenant, f.call_key
  on conflict (tenant, call_key) do ${again ? rebound : 'nothing'}
  returning a.operation_id
),`;

const askedText = `
asked as (
  insert into approvals (tenant, id, operation_id, tool, principal, session_id, rule, needed, digest, summary)
  select
    c.tenant, c.approval->>'id', c.operation_id, c.tool, c.principal, c.session_id, c.approval->>'by', (c.approval->>'needed')::integer, c.approval->>'digest',
    c.approval->>'summary'
  from candidate c
  where c.approval is not null and c.write_id = any (array(select i.write_id from inserted i))
),`;

/** Of what is parked. */
const expiresAt = `now() + (c.approval->>'expires_ms')::float8 * interval '1 ms'`;

function reserveText({ daily, again, called, parked }: Has<Part>): string {
  const sent = (value: string): string => (parked ? `case when c.approval is null then ${value} end` : value);
  return `
with candidate as materialized (
  select * from json_to_recordset($1::json) as c (
    n integer, tenant text, operation_id text, identity bytea, generation integer, after_committed boolean, upstream_key text, effect text, write_id uuid, owner text,
    attempt_id uuid, send_window_ms float8, lease_ms float8, reconcile_ms float8, tool text, contract_version text, contract_digest text,
    catalogue_digest text, principal text, subject text, purpose text, session_id text, turn_id text, intent_id text, call_id text,
    fingerprint bytea, compensates text, sealed_request bytea, guard_keys text[], guard_epochs bigint[], budget_scope text, call_key bytea, previous_operation text,
    receipt_id text, receipt_kind text, receipt_disposition text, receipt_outcome text, receipt_at timestamptz, receipt_digest bytea, receipt_body text, receipt_packed bytea, receipt_dictionary bytea${parked ? `,
    approval json, sealed_answer bytea` : ''})
),
purse as materialized (
  select b.tenant, b.scope, b.quota, b.used
  from budgets b
  where b.kind = 'executions'
    and (b.tenant, b.scope) in (select c.tenant, c.budget_scope from candidate c where c.budget_scope is not null)
  order by b.tenant, b.scope
  for update
),
fresh as materialized (
  select c.n, c.tenant, c.operation_id, c.write_id, c.send_window_ms, c.guard_keys, c.call_key, c.fingerprint, c.budget_scope
  from candidate c
  left join lateral (
    select 1 as there from operations o where o.tenant = c.tenant and o.identity = c.identity and o.generation = c.generation limit 1) same on true${again ? `
  left join lateral (
    select o.state from operations o where o.tenant = c.tenant and o.identity = c.identity and o.generation = c.generation - 1 limit 1) last on true` : ''}${daily ? `
  left join lateral (
    select 1 as there from sessions s where c.budget_scope like 'principal:%' and s.tenant = c.tenant and s.session_id = c.session_id limit 1) created on true` : ''}
  where (select count(*) from purse) >= 0 and clock_timestamp() < now() + c.send_window_ms * interval '1 ms'
    and same.there is null${daily ? ' and created.there is null' : ''}${again ? `
    and (c.generation = 1 or last.state in ('rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned') or last.state = 'committed' and c.after_committed)` : ''}
),
claimed as (
  insert into guards as g (tenant, guard_key, operation_id, write_id)
  select f.tenant, k.guard_key, f.operation_id, f.write_id
  from fresh f cross join lateral unnest(f.guard_keys) as k (guard_key)
  order by f.tenant, k.guard_key
  on conflict (tenant, guard_key) do update
    set operation_id = excluded.operation_id, write_id = excluded.write_id, epoch = case g.epoch when 0 then (1 + random() * 4503599627370494)::bigint else g.epoch + 1 end, claimed_at = now()
    where g.operation_id is null and exists (
      select 1 from candidate c cross join lateral unnest(c.guard_keys, c.guard_epochs) as k (guard_key, epoch)
      where c.write_id = excluded.write_id and k.guard_key = g.guard_key and k.epoch = g.epoch)
  returning g.write_id
),${called ? calledText(again) : ''}
whole as materialized (
  select f.n, f.write_id, f.send_window_ms, f.budget_scope, p.quota, p.used, row_number() over (partition by f.tenant, f.budget_scope order by f.n) as place
  from fresh f
  left join purse p on p.tenant = f.tenant and p.scope = f.budget_scope
  where cardinality(array_positions(array(select k.write_id from claimed k), f.write_id)) = cardinality(f.guard_keys)${called ? `
    and (f.call_key is null or f.operation_id = any (array(select d.operation_id from called d)))` : ''}
),
inserted as (
  insert into operations (
    tenant, operation_id, identity, generation, upstream_key, effect, state, write_id, owner, due_at, attempt_id, first_sent_at, send_by,
    reconcile_by, tool, contract_version, contract_digest, catalogue_digest, principal, subject, purpose, session_id, turn_id, intent_id,
    call_id, fingerprint, compensates, budget_scope, decision_receipt, sealed_request, served${parked ? ', approval_id, expires_at, sealed_answer' : ''})
  select
    c.tenant, c.operation_id, c.identity, c.generation, c.upstream_key, c.effect, ${parked ? `case when c.approval is null then 'sending' else 'parked' end` : `'sending'`}, c.write_id,
    ${sent('c.owner')}, ${parked ? `coalesce(${expiresAt}, now() + c.lease_ms * interval '1 ms')` : `now() + c.lease_ms * interval '1 ms'`},
    ${sent('c.attempt_id')}, ${sent('now()')}, ${sent(`now() + c.send_window_ms * interval '1 ms'`)}, ${sent(`now() + c.reconcile_ms * interval '1 ms'`)},
    c.tool, c.contract_version, c.contract_digest, c.catalogue_digest, c.principal, c.subject, c.purpose, c.session_id, c.turn_id, c.intent_id,
    c.call_id, c.fingerprint, c.compensates, c.budget_scope, c.receipt_id, c.sealed_request, ${servedOf('c')}${parked ? `, c.approval->>'id', ${expiresAt}, c.sealed_answer` : ''}
  from candidate c
  where c.n = any (array(
    select w.n from whole w where (w.budget_scope is null or w.used + w.place <= w.quota) and clock_timestamp() < now() + w.send_window_ms * interval '1 ms'))
  order by c.tenant, c.operation_id
  on conflict do nothing
  returning tenant, write_id, budget_scope
),
charged as (
  update budgets b set used = b.used + c.n
  from (
    select i.tenant, i.budget_scope, count(*)::integer as n
    from inserted i
    where i.budget_scope is not null
    group by i.tenant, i.budget_scope
  ) c
  where b.tenant = c.tenant and b.scope = c.budget_scope and b.kind = 'executions'
),
receipted as (
  insert into receipts (
    tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body, packed, dictionary)
  select
    c.tenant, c.receipt_id, c.receipt_kind, c.operation_id, c.session_id, c.intent_id, c.principal, c.tool, c.receipt_disposition,
    c.receipt_outcome, c.receipt_at, c.receipt_digest, c.receipt_body, c.receipt_packed, ${dictionaryId('c.receipt_dictionary')}
  from candidate c
  where c.write_id = any (array(select i.write_id from inserted i))
),${parked ? askedText : ''}
verdict as materialized (
  select
    c.n, c.tenant, c.operation_id, c.write_id, c.guard_keys, c.budget_scope,
    c.write_id = any (array(select i.write_id from inserted i)) as inserted,
    c.n = any (array(select f.n from fresh f)) as fresh,
    c.n = any (array(select w.n from whole w)) as whole,
    cardinality(array_positions(array(select k.write_id from claimed k), c.write_id)) as claims
  from candidate c
)
select
  v.n, v.inserted, not v.inserted and coalesce(mine.write_id = v.write_id, false) as ours_already,
  v.fresh, v.claims < cardinality(v.guard_keys) as guarded, v.claims, p.quota, p.used
from verdict v
left join purse p on v.whole and p.tenant = v.tenant and p.scope = v.budget_scope
left join lateral (select o.write_id from operations o where o.tenant = v.tenant and o.operation_id = v.operation_id limit 1) mine on not v.inserted
order by v.n`;
}

/**
 * `daily`: its session may have been created since, and pays then; `again`: a generation, or a call identity, that another operation had before;
 * `called`: its call identity was not minted here; `parked`: until somebody approves it.
 */
const reserve = inParts<Part, Intent>('reserve', {
  daily: ({ budget }) => budget?.scope.startsWith('principal:') ?? false,
  again: ({ operation, alias }) => operation.generation > 1 || (alias?.previous ?? null) !== null,
  called: ({ alias }) => alias !== null,
  parked: ({ parked }) => parked !== undefined,
}, reserveText);

export interface ReserveRow {
  n: number; inserted: boolean; ours_already: boolean; fresh: boolean; guarded: boolean; claims: number; quota: number | null; used: number | null;
}

export function reserveStatement(intents: Intent[], sealer: Sealer, dictionaries: Dictionaries): LaneStatement {
  const rows = intents.map((intent, n) => {
    const { operation } = intent;
    const receipt = dictionaries.row(intent.receipt);
    return {
      n,
      tenant: operation.tenant, operation_id: operation.id, identity: hex(operation.identity), generation: operation.generation,
      after_committed: intent.afterCommitted,
      upstream_key: operation.upstreamKey, effect: operation.effect, write_id: intent.writeId, owner: intent.owner, attempt_id: intent.attemptId,
      send_window_ms: intent.sendWindowMs, lease_ms: intent.leaseMs, reconcile_ms: intent.reconcileDeadlineMs,
      tool: operation.tool, contract_version: operation.contractVersion, contract_digest: operation.contractDigest,
      catalogue_digest: operation.catalogueDigest, principal: operation.principal, subject: operation.subject, purpose: operation.purpose,
      session_id: operation.sessionId, turn_id: operation.turnId, intent_id: operation.intentId, call_id: operation.callId,
      fingerprint: hex(operation.fingerprint), compensates: operation.compensates ?? null,
      sealed_request: hex(sealer.pack(JSON.stringify(operation.dossier), requestPlace(operation.tenant, operation.id))),
      guard_keys: intent.guardKeys, guard_epochs: intent.guardEpochs, budget_scope: intent.budget?.scope ?? null,
      call_key: intent.alias ? hex(intent.alias.callKey) : null, previous_operation: intent.alias?.previous ?? null,
      receipt_id: receipt.id, receipt_kind: receipt.kind, receipt_disposition: receipt.disposition, receipt_outcome: receipt.outcome,
      receipt_at: receipt.recorded_at, receipt_digest: receipt.digest, receipt_body: receipt.body,
      receipt_packed: receipt.packed, receipt_dictionary: receipt.dictionary,
      approval: intent.parked ? { ...intent.parked.asked, expires_ms: intent.parked.expiresMs } : null,
      sealed_answer: intent.parked ? hex(sealer.pack(JSON.stringify(intent.parked.answer), answerPlace(operation.tenant, operation.id))) : null,
    };
  });
  return { ...reserve(intents), values: [JSON.stringify(rows)] };
}

/** @returns in the order of the intents, as `rows` are. */
export function toReservations(intents: Intent[], rows: ReserveRow[]): Reservation[] {
  const purseOf = ({ operation, budget }: Intent): string => `${operation.tenant}\n${budget?.scope ?? ''}`;
  const started = new Map<string, number>();
  intents.forEach((intent, n) => {
    if (rows[n]?.inserted) started.set(purseOf(intent), (started.get(purseOf(intent)) ?? 0) + 1);
  });
  return intents.map((intent, n) => toReservation(rows[n] as ReserveRow, started.get(purseOf(intent)) ?? 0));
}

/** @param started of the same purse in the same flush: a budget that these used up is used up. */
function toReservation(row: ReserveRow, started: number): Reservation {
  if (row.inserted || row.ours_already) return { reserved: true };
  if (!row.fresh) return { reserved: false, because: 'exists' };
  if (row.guarded) return { reserved: false, because: 'guarded' };
  if (row.quota !== null && row.used !== null && row.used + started >= row.quota) {
    return { reserved: false, because: 'budget', quota: row.quota, used: row.used + started };
  }
  return { reserved: false, because: 'exists' };
}

const unclaimText = `
update guards g set operation_id = null
where (g.tenant, g.guard_key) in (
  select v.tenant, v.guard_key from guards v
  where (v.tenant, v.operation_id) in (select c.tenant, c.operation_id from json_to_recordset($1::json) as c (tenant text, operation_id text))
    and v.write_id = any ($2::uuid[])
    and not exists (select 1 from operations o where o.tenant = v.tenant and o.operation_id = v.operation_id and o.write_id = v.write_id)
  order by v.tenant, v.guard_key
  for update)`;

export function unclaimVain(intents: Intent[], rows: ReserveRow[]): LaneStatement | undefined {
  const vain = intents.filter((_, n) => {
    const row = rows[n];
    return row !== undefined && row.claims > 0 && !row.inserted;
  });
  if (vain.length === 0) return undefined;
  return {
    name: 'unclaim',
    text: unclaimText,
    values: [
      JSON.stringify(vain.map(({ operation }) => ({ tenant: operation.tenant, operation_id: operation.id }))),
      `{${vain.map((intent) => intent.writeId).join(',')}}`,
    ],
  };
}

const uncallText = `
delete from calls a
where (a.tenant, a.call_key) in (
  select d.tenant, d.call_key
  from json_to_recordset($1::json) as c (tenant text, call_key bytea, operation_id text, fingerprint bytea)
  join calls d on d.tenant = c.tenant and d.call_key = c.call_key and d.operation_id = c.operation_id and d.fingerprint = c.fingerprint
  join operations o on o.tenant = d.tenant and o.operation_id = d.operation_id and o.fingerprint <> d.fingerprint
  order by d.tenant, d.call_key
  for update of d)`;

/** What is only worded differently and is the same effect (arguments beyond the identity) is bound again when it is answered. */
export function uncallVain(intents: Intent[], rows: ReserveRow[]): LaneStatement | undefined {
  const vain = intents.flatMap(({ alias }, n) => (alias && rows[n]?.fresh && !rows[n].inserted && !rows[n].ours_already ? [alias] : []));
  if (vain.length === 0) return undefined;
  const claimed = vain.map(({ tenant, callKey, operationId, fingerprint }) => ({ tenant, call_key: hex(callKey), operation_id: operationId, fingerprint: hex(fingerprint) }));
  return { name: 'uncall', text: uncallText, values: [JSON.stringify(claimed)] };
}

const fundText = `
insert into budgets (tenant, scope, kind, quota)
select f.tenant, f.scope, 'executions', f.quota
from json_to_recordset($1::json) as f (tenant text, scope text, quota integer)
order by f.tenant, f.scope
on conflict do nothing`;

/** Purses must exist before they can be locked. */
export function fundStatement(purses: { tenant: string; scope: string; quota: number }[]): LaneStatement {
  return { name: 'fund', text: fundText, values: [JSON.stringify(purses)] };
}

/** Intents that share one of these must not be in one flush: the second would find the first only in the next snapshot. */
export function intentKeys(intent: Intent): string[] {
  const { tenant, identity } = intent.operation;
  return [
    `i/${tenant}/${identity.toString('base64')}`,
    ...intent.guardKeys.map((key) => `g/${tenant}/${key}`),
    ...(intent.alias ? [`c/${tenant}/${intent.alias.callKey.toString('base64')}`] : []),
  ];
}
