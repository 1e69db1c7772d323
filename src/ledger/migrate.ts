/** Applies the files of `migrations/` in order, once, under a lock on a table; refuses files that were edited after they were applied. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';

interface Migration { version: number; name: string; digest: string; text: string }

/** @returns names of the migrations applied now. @throws Error when a file was edited or the database is ahead of this program. */
export async function migrate(url: string, folder: string): Promise<string[]> {
  const files = readMigrations(folder);
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, application_name: 'callgate-migrate' });
  client.on('error', () => undefined); // the statement that was under way fails too, and says it
  await client.connect();
  try {
    await createTable(client);
    await client.query('begin');
    await client.query('lock table schema_migrations in access exclusive mode'); // replicas that start together wait here
    const applied = await client.query<{ version: number; name: string; digest: string }>('select version, name, digest from schema_migrations');
    const known = new Map(applied.rows.map((row) => [row.version, row]));
    const ahead = applied.rows.find((row) => !files.some((file) => file.version === row.version));
    if (ahead) throw new Error(`the database has migration ${ahead.name}, which this version of Callgate does not know: start the newer version`);
    const fresh: string[] = [];
    for (const file of files) {
      const before = known.get(file.version);
      if (before && before.digest !== file.digest) {
        throw new Error(`migration ${file.name} was edited after it was applied: restore the file and put the change into a new one`);
      }
      if (before) continue;
      await client.query(file.text);
      await client.query('insert into schema_migrations (version, name, digest) values ($1, $2, $3)', [file.version, file.name, file.digest]);
      fresh.push(file.name);
    }
    await client.query('commit');
    return fresh;
  } finally {
    await client.end();
  }
}

/**
 * Whether receipts and their chain are kept in the short forms; with `allowed` from now on, which is for ever: a replica of a version before 0020 takes a
 * packed content for erased, and one before 0026 cannot read a link without the one before it. The gateways find it within half a minute.
 */
export async function packReceipts(url: string, allowed: boolean): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, application_name: 'callgate-migrate' });
  client.on('error', () => undefined); // the statement that was under way fails too, and says it
  await client.connect();
  try {
    if (allowed) await client.query('insert into receipt_packing (one, links) values (true, true) on conflict (one) do update set links = true');
    const { rows } = await client.query('select from receipt_packing where links');
    return rows.length > 0;
  } finally {
    await client.end();
  }
}

/** `if not exists` looks before it creates: of two that start together, the second can fail on the first's catalogue entry. */
async function createTable(client: pg.Client): Promise<void> {
  const create = `create table if not exists schema_migrations (
    version integer primary key, name text not null, digest text not null, applied_at timestamptz not null default now())`;
  try {
    await client.query(create);
  } catch (error) {
    if (!['23505', '42710', '42P07'].includes((error as { code?: string }).code ?? '')) throw error;
    await client.query(create);
  }
}

function readMigrations(folder: string): Migration[] {
  return readdirSync(folder)
    .filter((name) => /^\d{4}-.+\.sql$/.test(name))
    .sort()
    .map((name) => {
      const text = readFileSync(join(folder, name), 'utf8');
      return { version: Number(name.slice(0, 4)), name, digest: createHash('sha256').update(text).digest('hex'), text };
    });
}
