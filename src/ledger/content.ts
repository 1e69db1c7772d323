/** What receipts say, as it is read: whole or packed in the row, or erased. */
import type pg from 'pg';
import type { JsonObject } from '../model.js';
import { headerColumns, type HeaderRow, toMilliseconds } from './chain-row.js';
import { type Head, unpack } from './packed.js';

/** Of a receipt `r`. */
export const contentColumns = `${headerColumns}, r.body, r.packed, r.dictionary`;

/** In SQL, of a receipt `r`. */
export const isErased = 'r.body is null and r.packed is null';

export type ContentRow = HeaderRow & { body: string | null; packed: Buffer | null; dictionary: number | null };
/** Of a receipt that is not there. */
export type NoContent = { body: null; packed: null; dictionary: null };

/** The canonical texts in the order of the rows; null: erased. To be asked in the snapshot that the rows are of. */
export async function contentsOf(client: Pick<pg.PoolClient, 'query'>, rows: readonly (ContentRow | NoContent)[]): Promise<(string | null)[]> {
  const ids = new Set(rows.flatMap(({ dictionary }) => dictionary ?? []));
  const dictionaries = new Map<number, Buffer>();
  if (ids.size > 0) {
    const found = await client.query<{ id: number; dictionary: Buffer }>('select id, dictionary from receipt_dictionaries where id = any ($1)', [[...ids]]);
    for (const { id, dictionary } of found.rows) dictionaries.set(id, dictionary);
  }
  return rows.map((row) => (row.packed ? unpacked(row, row.packed, dictionaries.get(row.dictionary ?? 0)) : row.body));
}

/** The receipts as the control plane shows them: of one that was erased what stays. */
export async function shownOf(client: Pick<pg.PoolClient, 'query'>, rows: readonly ContentRow[]): Promise<JsonObject[]> {
  const texts = await contentsOf(client, rows);
  return rows.map((row, n) => {
    const text = texts[n] ?? null;
    return text === null ? { ...headOf(row), erased: true } : (JSON.parse(text) as JsonObject);
  });
}

/** All receipts of one operation, in their order. */
export async function receiptsOf(client: pg.PoolClient, tenant: string, operationId: string): Promise<JsonObject[]> {
  const { rows } = await client.query<ContentRow>(`select ${contentColumns} from receipts r where r.tenant is not distinct from $1 and r.operation_id = $2 order by r.id`, [tenant, operationId]);
  return shownOf(client, rows);
}

/** What was damaged in the database is no reason to show nothing of the others, and is never shown as erased: its digest tells that it is another text. */
function unpacked(row: ContentRow, packed: Buffer, dictionary: Buffer | undefined): string {
  const head = headOf(row);
  try {
    if (!dictionary) throw new Error('its dictionary is not there');
    return unpack(packed, head, dictionary);
  } catch {
    return JSON.stringify({ ...head, unreadable: true });
  }
}

function headOf(row: ContentRow): Head {
  return {
    id: row.id, kind: row.kind, tenant: row.tenant, operation_id: row.operation_id, session_id: row.session_id, intent_id: row.intent_id, principal: row.principal, tool: row.tool,
    disposition: row.disposition, outcome: row.outcome, recorded_at: toMilliseconds(row.recorded_at),
  };
}
