/**
 * Erasure of what receipts say, in two steps: a notice that names the places in the chain is written as a receipt, and once that is sealed
 * itself the database erases exactly those contents. So nothing is erased of which the chain does not say so, and whoever erases by other
 * means is found.
 */
import type pg from 'pg';
import type { Receipt } from '../gate/ports.js';
import type { Json } from '../model.js';
import { newReceiptId } from '../receipt-id.js';
import type { Erasures } from '../recovery/retention.js';
import { contentColumns, type ContentRow, contentsOf, isErased } from './content.js';
import { receiptRow } from './receipt-row.js';

type Transaction = <T>(work: (client: pg.PoolClient) => Promise<T>) => Promise<T>;

/** Of one notice, and of what one transaction looks at. */
const atOnce = 500;
const noticesAtOnce = 2;

const ended = `o.operation_id is null
  or o.state in ('committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned') and o.due_at is null`;

/** Tenants whose next receipt is old enough, or that have some which waited for their operation to end. */
const tenantsText = `
with recursive tenants as (
  (select c.tenant from receipt_chain c order by c.tenant limit 1)
  union all
  select n.tenant from tenants t cross join lateral (select c.tenant from receipt_chain c where c.tenant > t.tenant order by c.tenant limit 1) n
)
select t.tenant
from tenants t
left join retention_progress p on p.tenant = t.tenant
left join lateral (
  select r.recorded_at
  from (select c.tenant, c.receipt_id from receipt_chain c where c.tenant = t.tenant and c.sequence > coalesce(p.sequence, 0) order by c.sequence limit 1) c
  cross join lateral (select r.recorded_at from receipts r where r.tenant = c.tenant and r.id = c.receipt_id limit 1) r) f on true
where f.recorded_at < now() - $1::float8 * interval '1 ms' or exists (select 1 from retention_waits w where w.tenant = t.tenant)`;

const candidate = `
select c.sequence::float8 as sequence, r.kind = 'erasure' or (${isErased}) as done, r.recorded_at < now() - $2::float8 * interval '1 ms' as old,
  (${ended}) and coalesce(o.settled_at, r.recorded_at) < now() - $2::float8 * interval '1 ms' as due
from receipt_chain c
left join lateral (select * from receipts r where r.tenant = c.tenant and r.id = c.receipt_id limit 1) r on true
left join lateral (select * from operations o where o.tenant = c.tenant and o.operation_id = r.operation_id limit 1) o on true
where c.tenant = $1`;

const nextText = `${candidate} and c.sequence > $3 order by c.sequence limit ${atOnce}`;
const waitedText = `${candidate} and c.sequence = any (array(select w.sequence from retention_waits w where w.tenant = $1 order by w.sequence limit ${atOnce}))`;

interface Candidate { sequence: number; done: boolean | null; old: boolean | null; due: boolean | null }

const subjectText = `
select c.sequence::float8 as sequence, ${ended} as ended
from receipt_chain c
join receipts r on r.tenant = c.tenant and r.id = c.receipt_id
left join operations o on o.tenant = r.tenant and o.operation_id = r.operation_id
where c.tenant = $1 and not (${isErased}) and r.kind <> 'erasure'
  and (o.subject = $2 or o.operation_id is null and r.body::json->'actor'->>'subject' = any ($3::text[]))
order by c.sequence`;

/** Of what has no operation, only the content says for whom it was asked, and what is packed Postgres cannot read. */
const packedRefusalsText = `
select c.sequence::float8 as sequence, ${contentColumns}
from receipt_chain c
cross join lateral (select * from receipts r where r.tenant = c.tenant and r.id = c.receipt_id limit 1) r
left join lateral (select o.operation_id from operations o where o.tenant = c.tenant and o.operation_id = r.operation_id limit 1) o on true
where c.tenant = $1 and c.sequence > $2 and r.packed is not null and o.operation_id is null
order by c.sequence limit ${atOnce}`;

/** A session that was told something untrusted stays so: '' is of whoever is spoken for in it. */
const forgottenTexts = [
  'delete from session_entities where tenant = $1 and subject = $2',
  'delete from session_results where tenant = $1 and subject = $2',
  `insert into untrusted_sessions (tenant, principal, subject, session_id, tool, since)
    select tenant, principal, '', session_id, tool, since from untrusted_sessions where tenant = $1 and subject = $2 on conflict do nothing`,
  'delete from untrusted_sessions where tenant = $1 and subject = $2',
];

const carryOutText = `
with planned as materialized (
  select e.tenant, e.receipt_id from erasures e
  where e.carried_out_at is null and exists (select 1 from receipt_chain c where c.tenant is not distinct from e.tenant and c.receipt_id = e.receipt_id)
  order by e.planned_at limit ${noticesAtOnce}
  for update skip locked
),
done as (
  update erasures e set carried_out_at = now() from planned p where e.tenant = p.tenant and e.receipt_id = p.receipt_id
)
select coalesce(sum(erase_contents(p.tenant, p.receipt_id)), 0)::integer as erased, count(*)::integer as notices from planned p`;

export interface SubjectErasures {
  /**
   * What the receipts say is erased once their notice is sealed. In what else is kept the id gives way to its mark at once, and what a session
   * remembers of the person is forgotten, but for the mark that it was told something untrusted.
   * @param marks how the subject may stand in a receipt of a refusal
   * @param left what stands for the id from now on
   * @returns how many receipts will be erased, and how many cannot be because their operation has not ended */
  planSubject(subject: { tenant: string; subject: string; marks: string[]; left: string; by: string }): Promise<{ planned: number; open: number }>;
}

export function openErasures(transaction: Transaction): Erasures & SubjectErasures {
  return {
    tenants: (keptMs) => transaction(async (client) => (await client.query<{ tenant: string }>(tenantsText, [keptMs])).rows.map(({ tenant }) => tenant)),
    plan: (tenant, keptMs) => transaction((client) => planNext(client, tenant, keptMs)),
    async carryOut() {
      const { rows: [done] } = await transaction((client) => client.query<{ erased: number; notices: number }>(carryOutText));
      return { erased: done?.erased ?? 0, more: done?.notices === noticesAtOnce };
    },
    planSubject: ({ tenant, subject, marks, left, by }) => transaction(async (client) => {
      const { rows } = await client.query<{ sequence: number; ended: boolean }>(subjectText, [tenant, subject, marks]);
      const able = [...rows.filter((row) => row.ended).map(({ sequence }) => sequence), ...(await packedRefusals(client, tenant, marks))];
      for (let n = 0; n < able.length; n += atOnce) await notice(client, tenant, by, { reason: 'subject' }, able.slice(n, n + atOnce));
      await client.query(`update operations o set subject = $3 where o.tenant = $1 and o.subject = $2 and (${ended})`, [tenant, subject, left]);
      for (const forgotten of forgottenTexts) await client.query(forgotten, [tenant, subject]);
      return { planned: able.length, open: rows.filter((row) => !row.ended).length };
    }),
  };
}

/** @returns whether there may be more. A tenant that another replica is at has none for this one. */
async function planNext(client: pg.PoolClient, tenant: string, keptMs: number): Promise<boolean> {
  await client.query('insert into retention_progress (tenant, sequence) values ($1, 0) on conflict do nothing', [tenant]);
  const { rows: [progress] } = await client.query<{ sequence: number }>('select sequence::float8 as sequence from retention_progress where tenant = $1 for update skip locked', [tenant]);
  if (!progress) return false;
  const { rows: waited } = await client.query<Candidate>(waitedText, [tenant, keptMs]);
  const { rows } = await client.query<Candidate>(nextText, [tenant, keptMs, progress.sequence]);
  const recent = rows.findIndex(({ old }) => old === false);
  const next = recent < 0 ? rows : rows.slice(0, recent);
  const settled = waited.filter(({ done, due }) => done !== false || due === true);
  const due = [...settled, ...next].filter((one) => one.done === false && one.due === true).map(({ sequence }) => sequence);
  const waits = next.filter((one) => one.done === false && one.due !== true).map(({ sequence }) => sequence);
  for (let n = 0; n < due.length; n += atOnce) await notice(client, tenant, 'callgate', { reason: 'retention', kept_ms: keptMs }, due.slice(n, n + atOnce));
  await client.query('delete from retention_waits where tenant = $1 and sequence = any ($2)', [tenant, settled.map(({ sequence }) => sequence)]);
  await client.query('insert into retention_waits (tenant, sequence) select $1, s from unnest($2::bigint[]) s on conflict do nothing', [tenant, waits]);
  await client.query('update retention_progress set sequence = $2 where tenant = $1', [tenant, next.at(-1)?.sequence ?? progress.sequence]);
  return next.length === atOnce;
}

/** @param marks how the subject may stand in them. @returns their places in the chain */
async function packedRefusals(client: pg.PoolClient, tenant: string, marks: readonly string[]): Promise<number[]> {
  const found: number[] = [];
  for (let after = 0; ;) {
    const { rows } = await client.query<ContentRow & { sequence: number }>(packedRefusalsText, [tenant, after]);
    for (const [n, content] of (await contentsOf(client, rows)).entries()) {
      const { actor } = JSON.parse(content ?? 'null') as { actor?: { subject?: string } };
      if (actor?.subject !== undefined && marks.includes(actor.subject)) found.push((rows[n] as { sequence: number }).sequence);
    }
    const last = rows.at(-1);
    if (rows.length < atOnce || !last) return found;
    after = last.sequence;
  }
}

async function notice(client: pg.PoolClient, tenant: string, by: string, why: { [member: string]: Json }, sequences: readonly number[]): Promise<void> {
  const receipt: Receipt = {
    id: newReceiptId(), kind: 'erasure', tenant, operationId: null, sessionId: '', intentId: '', principal: by, tool: '', disposition: 'executed', outcome: null,
    body: { ...why, erased: spansOf(sequences) },
  };
  const row = receiptRow(receipt);
  await client.query(
    `insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::bytea, $13)`,
    [row.tenant, row.id, row.kind, row.operation_id, row.session_id, row.intent_id, row.principal, row.tool, row.disposition, row.outcome, row.recorded_at, row.digest, row.body],
  );
  await client.query('insert into erasures (tenant, receipt_id) values ($1, $2)', [tenant, receipt.id]);
}

function spansOf(sequences: readonly number[]): [number, number][] {
  const spans: [number, number][] = [];
  for (const sequence of [...sequences].sort((a, b) => a - b)) {
    const last = spans.at(-1);
    if (last && last[1] === sequence - 1) last[1] = sequence;
    else spans.push([sequence, sequence]);
  }
  return spans;
}
