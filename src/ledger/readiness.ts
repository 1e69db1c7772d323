/** Can the ledger take a write now? A standby answers reads and is not ready. Bounded, on a connection of its own. */
import pg from 'pg';

export interface WriteProbe { ready: boolean; detail?: string }

export async function probeWrite(url: string, timeoutMs: number): Promise<WriteProbe> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs, application_name: 'callgate-probe' });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ standby: boolean; read_only: string; migrated: boolean }>(`select pg_is_in_recovery() as standby,
      current_setting('transaction_read_only') as read_only, to_regclass('operations') is not null as migrated`);
    const [row] = rows;
    if (row?.standby) return { ready: false, detail: 'the server is a standby' };
    if (row?.read_only === 'on') return { ready: false, detail: 'the server is read-only' };
    if (!row?.migrated) return { ready: false, detail: 'the schema is missing: run `callgate migrate`' };
    await client.query('create temporary table ready_probe (at timestamptz) on commit drop');
    return { ready: true };
  } catch (error) {
    const code = (error as { code?: string }).code;
    return { ready: false, detail: code === '25006' ? 'the server is read-only' : 'the server cannot be reached in time' };
  } finally {
    client.end().catch(() => undefined);
  }
}
