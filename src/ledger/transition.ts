/**
 * One conditional update per transition, state and fence in its WHERE, with its receipts, its released guard keys and the review that it
 * opens or closes, in one statement. A row that somebody else moved is simply not there, and nothing else of it is written.
 *
 * A repeat after a lost acknowledgement finds its own `write_id` and counts as moved. Once an effect was seen, by whomever, no transition
 * denies it or sends again: a late witness does not raise the fence, so this condition is what stops who is deciding at that moment.
 *
 * What `ends` is looked at no more by anybody but those who ask what became of it, and lets go of the rest: the sealed request, its purse, the
 * clocks of its attempts, and what another column says. Not so the key of what had no effect, under which the version before would send its
 * next generation.
 */
import type { Transition } from '../gate/ports.js';
import { briefly } from './attempts.js';
import { type Dictionaries, dictionaryId } from './dictionaries.js';
import { type Has, inParts } from './parts.js';
import type { LaneStatement } from './pipeline.js';
import { answerPlace, hex } from './operation-row.js';
import type { Sealer } from './seal.js';

type Part = 'reviewed' | 'unsent';

const reviewedText = `,
opened as (
  insert into reviews (tenant, id, operation_id, tool, reason, deadline)
  select d.tenant, d.review_id, d.operation_id, d.tool, d.reason, now() + d.review_ms * interval '1 ms'
  from moved d
  where d.review_id is not null
),
closed as (
  update reviews r set
    decision = d.decided->>'decision', decided_at = now(), decided_by = d.decided->>'by', decided_because = d.decided->>'because',
    decision_receipt = d.decided->>'receipt'
  from moved d
  where d.decided is not null and r.tenant = d.tenant and r.id = d.decided->>'review'
)`;

const unsentText = `,
unapproved as (
  update approvals a set ended_by = d.approval_ended->>'by', ended_because = d.approval_ended->>'because', ended_at = now()
  from moved d
  where d.approval_ended is not null and a.tenant = d.tenant and a.operation_id = d.operation_id
),
refunded as (
  update budgets b set used = greatest(0, b.used - c.n)
  from (
    select d.tenant, d.budget_scope, count(*)::integer as n
    from moved d
    where d.refund and d.budget_scope is not null
    group by d.tenant, d.budget_scope
  ) c
  where b.tenant = c.tenant and b.scope = c.budget_scope and b.kind = 'executions'
)`;

const transitionText = ({ reviewed, unsent }: Has<Part>): string => `
with move as materialized (
  select * from json_to_recordset($1::json) as m (
    n integer, tenant text, operation_id text, write_id uuid, wrote_by uuid, from_states text[], fence integer, to_state text,
    outcome text, outcome_set boolean, reason text, reason_set boolean, verified boolean, effect_seen boolean, attempts jsonb, attempts_brief text,
    unknown_attempts integer, send_attempt integer, send_attempt_id uuid, send_window_ms float8, due_ms float8, due_set boolean,
    absent_ms float8, absent_set boolean, reconcile_ms float8, release boolean, sealed_answer bytea, settle boolean, ends boolean, forgets_key boolean, refund boolean, effect_receipt text,
    review_id text, review_ms float8, undo_key bytea, decided json, unexpired boolean, approval_ended json, resumes boolean, receipts json)
),
moved as materialized (
  update operations o set
    state = m.to_state,
    write_id = m.write_id,
    outcome = case when m.outcome_set then m.outcome else o.outcome end,
    reason = case when m.reason_set then m.reason else o.reason end,
    verified = coalesce(m.verified, o.verified),
    effect_seen = o.effect_seen or coalesce(m.effect_seen, false),
    attempts = coalesce(m.attempts, o.attempts),
    attempts_brief = case when m.attempts is null then o.attempts_brief else m.attempts_brief end,
    unknown_attempts = coalesce(m.unknown_attempts, o.unknown_attempts),
    attempt = coalesce(m.send_attempt, o.attempt),
    attempt_id = case when not m.ends then coalesce(m.send_attempt_id, o.attempt_id) end,
    send_by = case when m.ends then null when m.send_attempt is not null then now() + m.send_window_ms * interval '1 ms' else o.send_by end,
    due_at = case when m.due_set then now() + m.due_ms * interval '1 ms' when m.settle then null else o.due_at end,
    absent_from = case when m.ends then null when m.absent_set then now() + m.absent_ms * interval '1 ms' else o.absent_from end,
    reconcile_by = case when m.ends then null when m.reconcile_ms is not null then now() + m.reconcile_ms * interval '1 ms' else o.reconcile_by end,
    review_id = coalesce(m.review_id, o.review_id),
    undo_key = coalesce(m.undo_key, o.undo_key),
    owner = case when m.release or m.settle then null else o.owner end,
    sealed_answer = coalesce(m.sealed_answer, o.sealed_answer),
    sealed_request = case when not m.ends then o.sealed_request end,
    budget_scope = case when not m.ends or m.refund then o.budget_scope end,
    upstream_key = case when m.forgets_key then nullif(o.upstream_key, o.operation_id) else o.upstream_key end,
    contract_digest = case when not m.ends or o.served is null then o.contract_digest end,
    catalogue_digest = case when not m.ends or o.served is null then o.catalogue_digest end,
    effect_receipt = coalesce(m.effect_receipt, o.effect_receipt),
    settled_at = case when m.settle then now() else o.settled_at end
  from move m
  where o.tenant = m.tenant and o.operation_id = m.operation_id and o.fence = m.fence and o.state = any (m.from_states)
    and o.write_id <> m.write_id and (m.wrote_by is null or o.write_id = m.wrote_by) and (not m.unexpired or o.expires_at > clock_timestamp())
    and not (o.effect_seen and (m.send_attempt is not null and not m.resumes or m.to_state in ('rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned')))
  returning o.tenant, o.operation_id, o.session_id, o.intent_id, o.principal, o.tool, m.n, m.settle, m.receipts${reviewed ? `,
    o.reason, m.review_id, m.review_ms, m.decided` : ''}${unsent ? `,
    o.budget_scope, m.refund, m.approval_ended` : ''}
),
receipted as (
  insert into receipts (
    tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body, packed, dictionary)
  select d.tenant, r.id, r.kind, d.operation_id, d.session_id, d.intent_id, d.principal, d.tool, r.disposition, r.outcome, r.recorded_at, r.digest, r.body,
    r.packed, ${dictionaryId('r.dictionary')}
  from moved d cross join lateral json_to_recordset(d.receipts) as r (
    id text, kind text, disposition text, outcome text, recorded_at timestamptz, digest bytea, body text, packed bytea, dictionary bytea)
)${reviewed ? reviewedText : ''}${unsent ? unsentText : ''},
released as (
  update guards g set operation_id = null
  from (
    select h.tenant, h.guard_key
    from moved d join guards h on h.tenant = d.tenant and h.operation_id = d.operation_id
    where d.settle
    order by h.tenant, h.guard_key
    for update of h
  ) k
  where g.tenant = k.tenant and g.guard_key = k.guard_key
),
verdict as materialized (
  select m.n, m.tenant, m.operation_id, m.write_id, m.n = any (array(select d.n from moved d)) as moved
  from move m
)
select v.n, v.moved or coalesce(present.write_id = v.write_id, false) as moved
from verdict v
left join lateral (select o.write_id from operations o where o.tenant = v.tenant and o.operation_id = v.operation_id limit 1) present on not v.moved
order by v.n`;

/** `reviewed`: a review is opened or closed; `unsent`: what was reserved, or asked of a person, for what is never sent. */
const transition = inParts<Part, Transition>('transition', {
  reviewed: ({ review, decided }) => review !== undefined || decided !== undefined,
  unsent: ({ refund, approvalEnded }) => (refund ?? false) || approvalEnded !== undefined,
}, transitionText);

export interface TransitionResult { n: number; moved: boolean }

export function transitionStatement(transitions: Transition[], sealer: Sealer, dictionaries: Dictionaries): LaneStatement {
  const rows = transitions.map((transition, n) => {
    const { tenant, operationId, review, decided, attempts } = transition;
    const ends = (transition.settle ?? false) && (transition.dueInMs ?? null) === null;
    return {
      n, tenant, operation_id: operationId, write_id: transition.writeId, wrote_by: transition.wroteBy ?? null, from_states: transition.from, fence: transition.fence, to_state: transition.to,
      outcome: transition.outcome ?? null, outcome_set: transition.outcome !== undefined,
      reason: transition.reason ?? null, reason_set: transition.reason !== undefined,
      verified: transition.verified ?? null, effect_seen: transition.effectSeen ?? null,
      attempts: ends && attempts ? [] : attempts ?? null, attempts_brief: ends && attempts?.length ? briefly(attempts) : null,
      unknown_attempts: transition.unknownAttempts ?? null,
      send_attempt: transition.send?.attempt ?? null, send_attempt_id: transition.send?.attemptId ?? null, send_window_ms: transition.send?.windowMs ?? null,
      due_ms: transition.dueInMs ?? null, due_set: transition.dueInMs !== undefined,
      absent_ms: transition.absentInMs ?? null, absent_set: transition.absentInMs !== undefined,
      reconcile_ms: transition.reconcileInMs ?? null, release: transition.release ?? false,
      sealed_answer: transition.answer ? hex(sealer.pack(JSON.stringify(transition.answer), answerPlace(tenant, operationId))) : null,
      settle: transition.settle ?? false, ends, forgets_key: ends && transition.to === 'committed' && !transition.calledBack, refund: transition.refund ?? false, effect_receipt: transition.effectReceipt ?? null,
      undo_key: transition.undoKey ? hex(transition.undoKey) : null,
      review_id: review?.id ?? null, review_ms: review?.deadlineMs ?? null,
      decided: decided ? { review: decided.review, decision: decided.decision, by: decided.by, because: decided.because, receipt: decided.receipt.id } : null,
      resumes: transition.resumes ?? false, unexpired: transition.unexpired ?? false, approval_ended: transition.approvalEnded ?? null,
      receipts: [...(decided ? [decided.receipt] : []), ...(transition.receipt ? [transition.receipt] : [])].map((receipt) => dictionaries.row(receipt)),
    };
  });
  return { ...transition(transitions), values: [JSON.stringify(rows)] };
}
