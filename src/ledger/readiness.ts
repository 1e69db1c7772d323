/** Can the ledger take a write now? A standby answers reads and is not ready. Bounded, on a connection of its own. */
import pg from 'pg';
import { ailmentOf } from './connection.js';

export interface WriteProbe { ready: boolean; detail?: string }

/**
 * The probe. Whoever asks while one is under way, or within `freshMs` after it, gets its answer: the path that asks needs no credential, and
 * must not be a way to use up the connections of the database.
 */
export function openWriteProbe(url: string, timeoutMs: number, freshMs = 500): () => Promise<WriteProbe> {
  let last: Promise<WriteProbe> | undefined;
  return () => {
    last ??= probeWrite(url, timeoutMs).finally(() => setTimeout(() => { last = undefined; }, freshMs).unref());
    return last;
  };
}

async function probeWrite(url: string, timeoutMs: number): Promise<WriteProbe> {
  const client = new pg.Client({ connectionString: url, application_name: 'callgate-probe' });
  client.on('error', () => undefined);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<WriteProbe>((resolve) => {
    timer = setTimeout(() => {
      cut(client);
      resolve({ ready: false, detail: 'the server does not answer in time' });
    }, timeoutMs);
  });
  try {
    return await Promise.race([ask(client), late]);
  } finally {
    clearTimeout(timer);
    client.end().catch(() => undefined);
  }
}

async function ask(client: pg.Client): Promise<WriteProbe> {
  try {
    await client.connect();
    const { rows } = await client.query<{ standby: boolean; read_only: string; migrated: boolean }>(`select pg_is_in_recovery() as standby,
      current_setting('transaction_read_only') as read_only, to_regclass('operations') is not null as migrated`);
    const [row] = rows;
    if (row?.standby) return { ready: false, detail: 'the server is a standby' };
    if (row?.read_only === 'on') return { ready: false, detail: 'the server is read-only' };
    if (!row?.migrated) return { ready: false, detail: 'the schema is missing: run `callgate migrate`' };
    // Written and flushed like any commit, and gone with it; its page is new, so that a full disk has no place for it.
    await client.query('create temporary table ready_probe on commit drop as select now() as at');
    return { ready: true };
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code === '42501') return { ready: false, detail: 'the role may not write: it needs the privilege TEMPORARY on the database' };
    return { ready: false, detail: ailmentOf(error) ?? 'the server cannot be reached' };
  }
}

/** `end` says goodbye and waits for the other side, which a hanging server never answers. */
function cut(client: pg.Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
