import { expect, inject, it } from 'vitest';
import { createPool } from '../../src/ledger/connection.js';

/** Postgres ends sessions when it is restarted or fails over. If that ended the gateway while it was between two statements, one restart would take all replicas with it. */
it('a connection that is ended while it is in use and idle is an error of its next statement, never of the process', async () => {
  const pool = createPool({ url: inject('databaseUrl'), preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 2);
  const client = await pool.connect();
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const ended = new Promise<void>((resolve) => { client.once('end', resolve); });
  await pool.query('select pg_terminate_backend($1)', [rows[0]?.pid]);
  await ended;
  await expect(client.query('select 1')).rejects.toThrow();
  client.release(true);
  expect((await pool.query('select 1 as n')).rows).toEqual([{ n: 1 }]);
  await pool.end();
});
