/**
 * Refusals, finished reads and what was cancelled before it was reserved: what needs no intent is recorded once, before its answer leaves. Of two equal reads that ran
 * at the same time the first stands; the second writes nothing and is answered from the first.
 */
import type { Entry } from '../gate/ports.js';
import { briefly } from './attempts.js';
import { type Dictionaries, dictionaryId } from './dictionaries.js';
import type { LaneStatement } from './pipeline.js';
import { answerPlace, hex } from './operation-row.js';
import type { Sealer } from './seal.js';
import { servedOf } from './served-contracts.js';

const recordText = `
with entry as materialized (
  select * from json_to_recordset($1::json) as e (
    n integer, has_operation boolean, tenant text, operation_id text, identity bytea, generation integer, upstream_key text, effect text, state text, write_id uuid,
    attempts_brief text, outcome text, reason text, tool text, contract_version text, contract_digest text, catalogue_digest text, principal text,
    subject text, purpose text, session_id text, turn_id text, intent_id text, call_id text, fingerprint bytea, decision_receipt text,
    effect_receipt text, sealed_answer bytea)
),
inserted as (
  insert into operations (
    tenant, operation_id, identity, generation, upstream_key, effect, state, write_id, attempts_brief, outcome, reason, tool, contract_version,
    served, contract_digest, catalogue_digest, principal, subject, purpose, session_id, turn_id, intent_id, call_id, fingerprint, decision_receipt,
    effect_receipt, sealed_answer, settled_at)
  select
    e.tenant, e.operation_id, e.identity, e.generation, e.upstream_key, e.effect, e.state, e.write_id, e.attempts_brief, e.outcome, e.reason, e.tool,
    e.contract_version, s.id, case when s.id is null then e.contract_digest end, case when s.id is null then e.catalogue_digest end, e.principal, e.subject, e.purpose, e.session_id, e.turn_id, e.intent_id, e.call_id,
    e.fingerprint, e.decision_receipt, e.effect_receipt, e.sealed_answer, now()
  from entry e
  left join lateral (select (${servedOf('e')}) as id) s on true
  where e.has_operation
  order by e.tenant, e.operation_id
  on conflict do nothing
  returning tenant, write_id
),
stood as materialized (
  select e.n from entry e
  where not e.has_operation or exists (select 1 from inserted i where i.write_id = e.write_id)
),
receipted as (
  insert into receipts (
    tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body, packed, dictionary)
  select r.tenant, r.id, r.kind, r.operation_id, r.session_id, r.intent_id, r.principal, r.tool, r.disposition, r.outcome, r.recorded_at, r.digest, r.body,
    r.packed, ${dictionaryId('r.dictionary')}
  from json_to_recordset($2::json) as r (
    n integer, tenant text, id text, kind text, operation_id text, session_id text, intent_id text, principal text, tool text, disposition text,
    outcome text, recorded_at timestamptz, digest bytea, body text, packed bytea, dictionary bytea)
  where r.n in (select s.n from stood s)
  on conflict do nothing
)
select
  e.n,
  s.n is not null or coalesce(present.write_id = e.write_id, false) as stood,
  case when $3::boolean then set_config('synchronous_commit', 'off', true) end as relaxed
from entry e
left join stood s on s.n = e.n
left join lateral (select o.write_id from operations o where o.tenant = e.tenant and o.operation_id = e.operation_id limit 1) present on true
order by e.n`;

export interface RecordResult { n: number; stood: boolean }

/** @param relaxed the transaction is committed without waiting for the disk: said within the statement, so that it needs no other beside it */
export function recordStatement(entries: Entry[], sealer: Sealer, dictionaries: Dictionaries, relaxed = false): LaneStatement {
  const receipts: object[] = [];
  const rows = entries.map((entry, n) => {
    for (const receipt of entry.receipts) receipts.push({ n, ...dictionaries.row(receipt) });
    const o = entry.operation;
    if (!o) return { n, has_operation: false };
    return {
      n, has_operation: true, tenant: o.tenant, operation_id: o.id, identity: hex(o.identity), generation: o.generation,
      upstream_key: o.effect === 'none' ? null : o.upstreamKey, effect: o.effect,
      state: o.state, write_id: o.writeId, attempts_brief: o.attempts.length > 0 ? briefly(o.attempts) : null, outcome: o.outcome, reason: o.reason, tool: o.tool,
      contract_version: o.contractVersion, contract_digest: o.contractDigest, catalogue_digest: o.catalogueDigest, principal: o.principal,
      subject: o.subject, purpose: o.purpose, session_id: o.sessionId, turn_id: o.turnId, intent_id: o.intentId, call_id: o.callId,
      fingerprint: hex(o.fingerprint), decision_receipt: o.decisionReceipt, effect_receipt: o.effectReceipt,
      sealed_answer: o.answer ? hex(sealer.pack(JSON.stringify(o.answer), answerPlace(o.tenant, o.id))) : null,
    };
  });
  return { name: 'record', text: recordText, values: [JSON.stringify(rows), JSON.stringify(receipts), relaxed] };
}
