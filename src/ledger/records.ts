/** What the control plane reads: keyset pages, always of one tenant, on a pool of its own and bounded in time. */
import type pg from 'pg';
import { BadCursor, type Page, type ReceiptFilter, type Records } from '../http/ports.js';
import type { JsonObject } from '../model.js';
import { firstIdAt } from '../receipt-id.js';

export function openRecords(pool: pg.Pool): Records {
  return {
    async receipts(tenant, filter): Promise<Page<JsonObject>> {
      const where = new Where(tenant);
      where.equal(filter, ['session_id', 'intent_id', 'tool', 'disposition', 'outcome', 'principal']);
      if (filter.from) where.add('id >= ?', firstIdAt(new Date(filter.from)));
      if (filter.to) where.add('id < ?', firstIdAt(new Date(filter.to)));
      if (filter.cursor) where.add('id < ?', readCursor(filter.cursor, 1)[0]);
      const { rows } = await pool.query<{ id: string; body: string }>(
        `select id, body from receipts where ${where.text} order by id desc limit ${filter.limit + 1}`, where.values,
      );
      return page(rows, filter.limit, (row) => JSON.parse(row.body) as JsonObject, (row) => [row.id]);
    },
    async receipt(tenant, id) {
      const { rows } = await pool.query<{ body: string; digest: Buffer }>('select body, digest from receipts where tenant = $1 and id = $2', [tenant, id]);
      const [row] = rows;
      return row ? { ...(JSON.parse(row.body) as JsonObject), digest: `sha256:${row.digest.toString('hex')}` } : null;
    },
    async operations(tenant, filter) {
      const where = new Where(tenant);
      where.equal(filter, ['session_id', 'intent_id', 'tool', 'outcome', 'principal', 'state']);
      if (filter.from) where.add('created_at >= ?::timestamptz', filter.from);
      if (filter.to) where.add('created_at < ?::timestamptz', filter.to);
      if (filter.cursor) {
        const [at, id] = readCursor(filter.cursor, 2);
        where.add('(created_at, operation_id) < (?::timestamptz, ?)', at, id);
      }
      const { rows } = await pool.query<Summary>(
        `select ${summaryColumns} from operations where ${where.text} order by created_at desc, operation_id desc limit ${filter.limit + 1}`,
        where.values,
      );
      return page(rows, filter.limit, summary, (row) => [row.created_at, row.operation_id]);
    },
    async operation(tenant, id) {
      const { rows } = await pool.query<Summary>(`select ${summaryColumns} from operations where tenant = $1 and operation_id = $2`, [tenant, id]);
      const [row] = rows;
      if (!row) return null;
      const [receipts, proposals] = await Promise.all([
        pool.query<{ body: string }>('select body from receipts where tenant = $1 and operation_id = $2 order by id', [tenant, id]),
        pool.query<{ at: string }>(`select ${instant('created_at')} as at from calls where tenant = $1 and operation_id = $2 order by created_at`, [tenant, id]),
      ]);
      return {
        ...summary(row),
        proposals: proposals.rows.map((proposal) => ({ answered_from: proposal.at })),
        receipts: receipts.rows.map((receipt) => JSON.parse(receipt.body) as JsonObject),
      };
    },
  };
}

const instant = (column: string): string => `to_char(${column} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const summaryColumns = `operation_id, generation, state, outcome, reason, verified, effect, tool, contract_version, contract_digest, principal, subject,
  session_id, turn_id, intent_id, call_id, purpose, attempt, attempts, fence, owner, decision_receipt, effect_receipt,
  ${instant('created_at')} as created_at, ${instant('settled_at')} as settled_at, ${instant('due_at')} as due_at`;

type Summary = JsonObject & { operation_id: string; created_at: string };

function summary(row: Summary): JsonObject {
  const { operation_id, ...rest } = row;
  return { id: operation_id, ...rest };
}

/** Conditions with their values, of which the tenant is always the first. */
class Where {
  private readonly conditions = ['tenant = $1'];
  readonly values: unknown[];

  constructor(tenant: string) {
    this.values = [tenant];
  }

  get text(): string {
    return this.conditions.join(' and ');
  }

  add(condition: string, ...values: unknown[]): void {
    this.conditions.push(condition.replaceAll('?', () => `$${this.values.push(values.shift())}`));
  }

  equal(filter: ReceiptFilter & { state?: string }, columns: readonly (keyof typeof filter & string)[]): void {
    for (const column of columns) if (filter[column] !== undefined) this.add(`${column} = ?`, filter[column]);
  }
}

function page<Row>(rows: Row[], limit: number, item: (row: Row) => JsonObject, key: (row: Row) => string[]): Page<JsonObject> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const more = rows.length > limit && last !== undefined;
  return { items: items.map(item), next_cursor: more ? Buffer.from(JSON.stringify(key(last))).toString('base64url') : null };
}

function readCursor(cursor: string, parts: number): string[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (Array.isArray(value) && value.length === parts && value.every((part) => typeof part === 'string' && !part.includes('\0'))) return value as string[];
  } catch {
    // falls through to the one error there is
  }
  throw new BadCursor('the cursor is not one that this service gave');
}
