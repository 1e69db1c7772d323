/** How the control plane reads: one snapshot, bounded in time, keyset pages within a tenant. */
import type pg from 'pg';
import type { JsonObject } from '../model.js';
import type { Page } from '../ports.js';
import { failureOf } from './connection.js';
import { type List, writeCursor } from './cursor.js';
import { atPrimary, takesWrites } from './left-behind.js';

export interface SnapshotOptions {
  /**
   * Whose: the database then shows nobody else's rows, whatever `work` asks for, where its role is bound by that (migration 0017). Null: everybody's,
   * for what serves all tenants.
   */
  tenant: string | null;
  timeoutMs: number;
}

export type ReadOf = <T>(tenant: string, work: (client: pg.PoolClient) => Promise<T>) => Promise<T>;

/**
 * One snapshot for all that `work` reads. The timeout is the transaction's own, so that it also holds behind a pooler that shares sessions. Every
 * index is led by the tenant, so that without one for a filter its own rows are read, never the whole table with everybody's (case-68).
 */
export async function inSnapshot<T>(pool: pg.Pool, options: SnapshotOptions, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  let client: pg.PoolClient | undefined;
  try {
    ({ client } = await atPrimary(pool, (one) => begin(one, options)));
    const result = await work(client);
    await client.query('commit');
    client.release();
    return result;
  } catch (error) {
    client?.release(true); // whatever state it is in, nobody else gets it
    throw failureOf(error);
  }
}

/** Says whether the server still writes. */
async function begin(client: pg.PoolClient, { tenant, timeoutMs }: SnapshotOptions): Promise<{ writes: boolean }> {
  const whose = tenant === null ? '' : `; set local callgate.tenant = ${client.escapeLiteral(tenant)}`;
  const results = await client.query(`begin transaction isolation level repeatable read read only; set local statement_timeout = ${timeoutMs}; set local enable_seqscan = off${whose};
    select ${takesWrites} as writes`) as unknown as pg.QueryResult<{ writes: boolean }>[];
  return { writes: results.at(-1)?.rows[0]?.writes ?? false };
}

/**
 * Pages walk along an index, however few rows the planner believes there are: with a sort or a bitmap each page would read all that comes after
 * it, and a backlog of 100,000 receipts would take minutes in the place of seconds to be sealed.
 */
export const alongTheIndex = 'set local enable_sort = off; set local enable_seqscan = off; set local enable_bitmapscan = off';

export const instant = (column: string): string => `to_char(${column} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

/** Conditions with their values, of which the tenant is always the first. */
export class Where {
  private readonly conditions: string[];
  readonly values: unknown[];

  /** @param of the alias of the table, where there are several */
  constructor(tenant: string, private readonly of = '') {
    this.values = [tenant];
    this.conditions = [`${this.place('tenant')} = $1`];
  }

  get text(): string {
    return this.conditions.join(' and ');
  }

  add(condition: string, ...values: unknown[]): void {
    this.conditions.push(condition.replaceAll('?', () => `$${this.values.push(values.shift())}`));
  }

  equal<Filter extends object>(filter: Filter, columns: readonly (keyof Filter & string)[]): void {
    for (const column of columns) if (filter[column] !== undefined) this.add(`${this.place(column)} = ?`, filter[column]);
  }

  private place(column: string): string {
    return this.of === '' ? column : `${this.of}.${column}`;
  }
}

export function page<Row>(list: List, rows: Row[], limit: number, item: (row: Row) => JsonObject, key: (row: Row) => string[]): Page<JsonObject> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const more = rows.length > limit && last !== undefined;
  return { items: items.map(item), next_cursor: more ? writeCursor(list, key(last)) : null };
}
