/**
 * Reads that are no history. A primary that was left behind by a failover goes on answering, and what it shows is how things stood then: a caller who asks
 * after its operation, or a person who decides on an approval, would be told that there is none. No connection that was used before is read there; where a
 * new one finds no other server, that one is.
 */
import type pg from 'pg';
import { wasUsed } from './connection.js';

/** In SQL: the server takes writes, from others than this transaction. */
export const takesWrites = `not pg_is_in_recovery() and current_setting('default_transaction_read_only') = 'off'`;

/** @returns also the connection, which is the caller's to release. */
export async function atPrimary<T extends { writes: boolean }>(pool: pg.Pool, read: (client: pg.PoolClient) => Promise<T>): Promise<T & { client: pg.PoolClient }> {
  for (;;) {
    const client = await pool.connect();
    const isNew = !wasUsed(client);
    const said = await read(client).catch((error: unknown) => {
      client.release(true);
      throw error;
    });
    if (said.writes || isNew) return { ...said, client };
    client.release(true);
  }
}

/** The rows of a query, which says itself in one exchange where it was answered. */
export async function rowsAtPrimary<Row extends pg.QueryResultRow>(pool: pg.Pool, { text, values }: { text: string; values: unknown[] }): Promise<Row[]> {
  const { client, rows } = await atPrimary(pool, async (client) => {
    const asked = await client.query<Row & { writes: boolean; there: boolean | null }>(
      `select p.writes, r.* from (select ${takesWrites} as writes) p left join (select true as there, q.* from (${text}) q) r on true`, values);
    return { writes: asked.rows[0]?.writes ?? false, rows: asked.rows };
  });
  client.release();
  return rows.filter(({ there }) => there);
}
