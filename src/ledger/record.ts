/**
 * Refusals, finished reads and what was cancelled before it was reserved: what needs no intent is recorded once, before its answer leaves. Of two equal reads that ran
 * at the same time the first stands; the second writes nothing and is answered from the first.
 */
import type { Entry } from '../gate/ports.js';
import { briefly } from './attempts.js';
import { type Dictionaries, dictionaryId } from './dictionaries.js';
import { type Has, inParts } from './parts.js';
import type { LaneStatement } from './pipeline.js';
import { answerPlace, hex } from './operation-row.js';
import type { Sealer } from './seal.js';
import { servedOf } from './served-contracts.js';

type Part = 'made';

const madeText = `entry as materialized (
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
  returning write_id
),
stood as materialized (
  select e.n, e.tenant, e.operation_id, e.write_id, not e.has_operation or e.write_id = any (array(select i.write_id from inserted i)) as stood
  from entry e
),
`;

const recordText = ({ made }: Has<Part>): string => `
with ${made ? madeText : ''}receipted as (
  insert into receipts (
    tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body, packed, dictionary)
  select r.tenant, r.id, r.kind, r.operation_id, r.session_id, r.intent_id, r.principal, r.tool, r.disposition, r.outcome, r.recorded_at, r.digest, r.body,
    r.packed, ${dictionaryId('r.dictionary')}
  from json_to_recordset($2::json) as r (
    n integer, tenant text, id text, kind text, operation_id text, session_id text, intent_id text, principal text, tool text, disposition text,
    outcome text, recorded_at timestamptz, digest bytea, body text, packed bytea, dictionary bytea)${made ? `
  where r.n = any (array(select s.n from stood s where s.stood))` : ''}
  on conflict do nothing
)
select
  s.n, ${made ? 's.stood or coalesce(present.write_id = s.write_id, false)' : 'true'} as stood,
  case when $3::boolean then set_config('synchronous_commit', 'off', true) end as relaxed
from ${made ? `stood s
left join lateral (select o.write_id from operations o where o.tenant = s.tenant and o.operation_id = s.operation_id limit 1) present on not s.stood` : `json_to_recordset($1::json) as s (n integer)`}
order by s.n`;

/** Refusals alone make no operation. */
const record = inParts<Part, Entry>('record', { made: ({ operation }) => operation !== undefined }, recordText);

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
  return { ...record(entries), values: [JSON.stringify(rows), JSON.stringify(receipts), relaxed] };
}
