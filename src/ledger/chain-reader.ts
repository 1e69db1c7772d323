/** The chain of one tenant as an export has it: in pages, each of one snapshot, on the connections of those who browse. */
import type { ExportLine } from '../chain/lines.js';
import { origin } from '../chain/link.js';
import type { ChainReader } from '../chain/sealer.js';
import { type CheckpointRow, checkpointColumns, digest, toCheckpoint, toUnlinked } from './chain-row.js';
import { contentColumns, type ContentRow, contentsOf, type NoContent } from './content.js';
import type { ReadOf } from './pages.js';

/**
 * Each receipt is looked up by its key; as a join the whole table may be read for one page. What is before a link was kept with it by the version
 * before, and is the link of the place before.
 */
const linksText = `
select c.sequence::text as sequence, c.receipt_id, coalesce(c.previous, b.link) as previous, c.link, ${contentColumns}
from receipt_chain c
left join lateral (select p.link from receipt_chain p where c.previous is null and p.tenant = c.tenant and p.sequence = c.sequence - 1 limit 1) b on true
left join lateral (select * from receipts r where r.tenant = c.tenant and r.id = c.receipt_id limit 1) r on true
where c.tenant = $1 and c.sequence > $2 order by c.sequence limit $3`;

const checkpointsText = `select ${checkpointColumns} from receipt_checkpoints k
where k.tenant = $1 and k.sequence >= $2 and ($3::bigint is null or k.sequence <= $3) order by k.sequence`;

type LinkRow = (ContentRow | (NoContent & { id: null })) & { sequence: string; receipt_id: string; previous: Buffer | null; link: Buffer };

export function openChainReader(read: ReadOf): ChainReader {
  return {
    page: (tenant, after, limit) => read(tenant, async (client) => {
      const { rows } = await client.query<LinkRow>(linksText, [tenant, after, limit]);
      const done = rows.length < limit;
      // Of the last page also those that sign what is not there any more.
      const upTo = done ? null : (rows.at(-1)?.sequence ?? null);
      const signed = await client.query<CheckpointRow>(checkpointsText, [tenant, after, upTo]);
      return { lines: merge(tenant, rows, await contentsOf(client, rows), signed.rows), done };
    }),
  };
}

function merge(tenant: string, links: readonly LinkRow[], contents: readonly (string | null)[], signed: readonly CheckpointRow[]): ExportLine[] {
  const lines: ExportLine[] = [];
  let n = 0;
  const checkpointsTo = (sequence: number): void => {
    for (let row = signed[n]; row && Number(row.signed_sequence) <= sequence; row = signed[++n]) lines.push(checkpointLine(tenant, row));
  };
  for (const [place, link] of links.entries()) {
    checkpointsTo(Number(link.sequence) - 1);
    lines.push(receiptLine(link, contents[place] ?? null));
  }
  checkpointsTo(Number.POSITIVE_INFINITY);
  return lines;
}

function checkpointLine(tenant: string, row: CheckpointRow): ExportLine {
  const { signature, ...checkpoint } = toCheckpoint(tenant, row);
  return { type: 'checkpoint', checkpoint, signature };
}

function receiptLine(row: LinkRow, body: string | null): ExportLine {
  const sequence = Number(row.sequence);
  const link = digest(row.link);
  if (row.id === null) return { type: 'gone', sequence, receipt_id: row.receipt_id, link };
  return { type: 'receipt', header: { ...toUnlinked(row), previous: row.previous === null ? origin.link : digest(row.previous), sequence }, link, body };
}
