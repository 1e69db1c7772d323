/**
 * The chain over receipts, as the sealer writes it.
 *
 * What is not sealed yet is found by the transactions that wrote it and not by ids or times: a receipt that commits late, from a replica that
 * was paused or whose clock is behind, has an older id than what is sealed by then. The snapshot of the last look says exactly which transactions
 * it could not see: those that were open, and all after it. So nothing is skipped, nothing waits for a transaction that stays open, and a commit
 * pays for one more column and its index alone.
 *
 * Every write of a sealer is one statement that locks the lease under its fence. Whoever takes over locks the same row, so a sealer that was
 * paused writes all of a batch before that or none of it; the keys of the table would stop a fork even so.
 */
import type pg from 'pg';
import type { Head } from '../chain/link.js';
import type { ChainStore, Lease, Snapshot, TenantHead, Unsealed } from '../chain/sealer.js';
import { type CheckpointRow, checkpointColumns, digest, headerColumns, type HeaderRow, hexOfDigest, toCheckpoint, toMilliseconds, toUnlinked } from './chain-row.js';
import type { Statement } from './connection.js';
import { hex } from './operation-row.js';
import { alongTheIndex, inSnapshot, instant } from './pages.js';

type Plain = <Row extends object>(statement: Statement) => Promise<Row[]>;

const readMs = 10_000;

const holdText = `
insert into receipt_sealer as s (owner, fence, expires_at) values ($1, 1, clock_timestamp() + $3::float8 * interval '1 ms')
on conflict (one) do update set
  owner = excluded.owner, expires_at = excluded.expires_at,
  fence = case when s.owner = $1 and s.fence = $2::bigint then s.fence else s.fence + 1 end,
  sealed = case when s.owner = $1 and s.fence = $2::bigint then coalesce($4::pg_snapshot, s.sealed) else s.sealed end
where s.owner = $1 or s.expires_at < clock_timestamp()
returning fence::text as fence, sealed::text as sealed`;

/** After a restore into another cluster its transactions have numbers of their own, and a snapshot of the old one says nothing. */
const ofThisCluster = 'pg_snapshot_xmax($1::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())';

const headsText = `
with recursive tenants as (
  (select c.tenant from receipt_chain c where c.tenant > $1 order by c.tenant limit 1)
  union all
  select n.tenant from tenants t cross join lateral (select c.tenant from receipt_chain c where c.tenant > t.tenant order by c.tenant limit 1) n
)
select t.tenant, h.sequence::text as sequence, h.link, ${checkpointColumns}
from (select tenant from tenants limit $2) t
cross join lateral (select c.sequence, c.link from receipt_chain c where c.tenant = t.tenant order by c.sequence desc limit 1) h
left join lateral (select * from receipt_checkpoints k where k.tenant = t.tenant order by k.sequence desc limit 1) k on true`;

/** Each looks up by its id alone, whatever is known of the tables: as a join it may be planned as a scan of the whole chain. */
const unlinked = `
left join lateral (select 1 as there from receipt_chain c where c.tenant is not distinct from r.tenant and c.receipt_id = r.id limit 1) c on true
where c.there is null`;

const everyText = `
select ${headerColumns}, null as xact from receipts r ${unlinked}
  and (r.tenant, r.id) > ($1, $2)
order by r.tenant, r.id limit $3`;

const openThenText = `
select ${headerColumns}, r.xact::text as xact from receipts r ${unlinked}
  and r.xact = any ($1::text[]::xid8[]) and pg_visible_in_snapshot(r.xact, $2::pg_snapshot)
order by r.xact, r.tenant, r.id limit $3`;

const sinceText = `
select ${headerColumns}, r.xact::text as xact from receipts r ${unlinked}
  and r.xact >= $1::text::xid8 and r.xact < pg_snapshot_xmax($2::pg_snapshot) and pg_visible_in_snapshot(r.xact, $2::pg_snapshot)
  and (r.xact, r.tenant, r.id) > ($1::text::xid8, $3, $4)
order by r.xact, r.tenant, r.id limit $5`;

/** The last link and nothing after it: whoever cut the chain back, or added to it without the lease, is found here. */
const leaseAndEnds = `
lease as materialized (
  select 1 as held from receipt_sealer s where s.owner = $1 and s.fence = $2::bigint for update
),
ending as materialized (
  select b.tenant, b.sequence, (b.sequence = 0 or c.link = b.link) and later.there is null as whole
  from json_to_recordset($3::json) as b (tenant text, sequence bigint, link bytea)
  left join lateral (select c.link from receipt_chain c where c.tenant = b.tenant and c.sequence = b.sequence limit 1) c on true
  left join lateral (select 1 as there from receipt_chain l where l.tenant = b.tenant and l.sequence > b.sequence limit 1) later on true
)`;

const verdictColumns = `
  exists (select 1 from lease) as held,
  array(select e.tenant from ending e where e.whole is not true) as broken`;

const appendText = `
with ${leaseAndEnds},
appended as (
  insert into receipt_chain (tenant, sequence, receipt_id, previous, link)
  select n.tenant, n.sequence, n.receipt_id, case when not exists (select from receipt_packing p where p.links) then n.previous end, n.link
  from json_to_recordset($4::json) as n (tenant text, sequence bigint, receipt_id text, previous bytea, link bytea)
  where exists (select 1 from lease) and n.tenant = any (array(select e.tenant from ending e where e.whole))
  order by n.tenant, n.sequence
)
select ${verdictColumns}`;

const signText = `
with ${leaseAndEnds},
signed as (
  insert into receipt_checkpoints (tenant, sequence, link, key_id, signed_at, signature)
  select n.tenant, n.sequence, n.link, n.key_id, n.signed_at, n.signature
  from json_to_recordset($3::json) as n (tenant text, sequence bigint, link bytea, key_id text, signed_at timestamptz, signature bytea)
  where exists (select 1 from lease) and n.tenant = any (array(select e.tenant from ending e where e.whole))
  on conflict do nothing
)
select ${verdictColumns}`;

interface Verdict { held: boolean; broken: string[] }

export function openChain(plain: Plain, pool: pg.Pool): ChainStore {
  const run = <Row extends object>(name: string, text: string, values: unknown[]): Promise<Row[]> => plain<Row>({ name, text, values });
  const walk = (text: string, values: unknown[]): Promise<ChainRow[]> => inSnapshot(pool, { tenant: null, timeoutMs: readMs }, async (client) => {
    await client.query(alongTheIndex);
    return (await client.query<ChainRow>(text, values)).rows;
  });
  return {
    async hold(lease, owner, leaseMs, sealed) {
      const [row] = await run<{ fence: string; sealed: string | null }>('seal_hold', holdText, [owner, lease?.fence ?? '0', leaseMs, sealed]);
      if (!row) return null;
      return { lease: { owner, fence: row.fence }, sealed: await ofHere(row.sealed) };
    },
    async letGo({ owner, fence }) {
      await run('seal_let_go', 'update receipt_sealer set expires_at = clock_timestamp() where owner = $1 and fence = $2::bigint', [owner, fence]);
    },
    async heads(afterTenant, limit) {
      return (await run<HeadRow>('seal_heads', headsText, [afterTenant, limit])).map(toHead);
    },
    async look() {
      const [row] = await run<{ up_to: string; now: string }>('seal_look', `select pg_current_snapshot()::text as up_to, ${instant('clock_timestamp()')} as now`, []);
      return { upTo: row?.up_to ?? '', now: toMilliseconds(row?.now ?? '') };
    },
    async unsealed(sealed, upTo, after, limit) {
      const rows = sealed === null ? await every(after, limit) : await since(sealed, upTo, after, limit);
      return rows.map((row): Unsealed => ({ receipt: toUnlinked(row), place: [row.xact ?? '', row.tenant, row.id] }));
    },
    async append(lease, after, linked) {
      return verdict(await run<Verdict>('seal_append', appendText, [...holder(lease), JSON.stringify(after.map(ended)), JSON.stringify(linked.map(({ header, link }) => ({
        tenant: header.tenant, sequence: header.sequence, receipt_id: header.id, previous: hexOfDigest(header.previous), link: hexOfDigest(link),
      })))]));
    },
    async sign(lease, checkpoints) {
      return verdict(await run<Verdict>('seal_sign', signText, [...holder(lease), JSON.stringify(checkpoints.map((checkpoint) => ({
        ...ended(checkpoint), key_id: checkpoint.key, signed_at: checkpoint.signed_at, signature: hex(Buffer.from(checkpoint.signature, 'base64')),
      })))]));
    },
  };

  async function ofHere(sealed: Snapshot | null): Promise<Snapshot | null> {
    if (sealed === null) return null;
    const [row] = await run<{ here: boolean }>('seal_cluster', `select ${ofThisCluster} as here`, [sealed]);
    return row?.here ? sealed : null;
  }

  function every(after: string[] | null, limit: number): Promise<ChainRow[]> {
    return walk(everyText, [after?.[1] ?? '', after?.[2] ?? '', limit]);
  }

  /** First those of transactions that were open at the last look, in one page of any size; then the others, in pages. */
  async function since(sealed: Snapshot, upTo: Snapshot, after: string[] | null, limit: number): Promise<ChainRow[]> {
    const [, end = '0', open = ''] = sealed.split(':');
    const late = after === null && open !== '' ? await walk(openThenText, [open.split(','), upTo, limit]) : [];
    if (late.length === limit) return late;
    const [xact = end, tenant = '', id = ''] = after ?? [];
    return [...late, ...await walk(sinceText, [xact, upTo, tenant, id, limit - late.length])];
  }
}

type ChainRow = HeaderRow & { xact: string | null };

type HeadRow = (CheckpointRow | { signed_sequence: null }) & { tenant: string; sequence: string; link: Buffer };

function toHead(row: HeadRow): TenantHead {
  return { tenant: row.tenant, sequence: Number(row.sequence), link: digest(row.link), checkpoint: row.signed_sequence === null ? null : toCheckpoint(row.tenant, row) };
}

const holder = ({ owner, fence }: Lease): string[] => [owner, fence];

function ended({ tenant, sequence, link }: Head & { tenant: string }): object {
  return { tenant, sequence, link: hexOfDigest(link) };
}

function verdict([row]: Verdict[]): Verdict {
  return row ?? { held: false, broken: [] };
}
