import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, inject, it } from 'vitest';
import { migrate } from '../../src/ledger/migrate.js';
import { projectFile } from '../../src/project.js';
import { freshDatabase } from '../support/servers.js';

function folderOf(files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-migrations-'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

async function tables(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ name: string }>(`select tablename as name from pg_tables where schemaname = 'public' order by 1`);
  await client.end();
  return rows.map(({ name }) => name);
}

/** Replicas start together, and people edit files: neither may leave a schema that no version of the program knows. */
describe('migrations', () => {
  it('are applied once by replicas that start together on an empty database', async () => {
    for (let round = 0; round < 3; round++) {
      const url = await freshDatabase(inject('databaseUrl'));
      const applied = await Promise.all(Array.from({ length: 8 }, () => migrate(url, projectFile('migrations'))));
      expect(applied.filter((names) => names.length > 0)).toHaveLength(1);
      expect(await migrate(url, projectFile('migrations'))).toEqual([]);
      expect(await tables(url)).toContain('operations');
    }
  });

  it('are applied in order, only the new ones, and files that are none are left alone', async () => {
    const url = await freshDatabase(inject('databaseUrl'));
    const folder = folderOf({ '0002-b.sql': 'create table b (a integer references a)', '0001-a.sql': 'create table a (id integer primary key)', 'README.md': 'no sql' });
    expect(await migrate(url, folder)).toEqual(['0001-a.sql', '0002-b.sql']);
    writeFileSync(join(folder, '0003-c.sql'), 'create table c (id integer)');
    expect(await migrate(url, folder)).toEqual(['0003-c.sql']);
  });

  it('are refused when a file was edited after it was applied, and nothing is changed', async () => {
    const url = await freshDatabase(inject('databaseUrl'));
    const folder = folderOf();
    cpSync(projectFile('migrations'), folder, { recursive: true });
    const [first] = await migrate(url, folder);
    const file = join(folder, first as string);
    writeFileSync(file, `${readFileSync(file, 'utf8')}\n-- an afterthought`);
    writeFileSync(join(folder, '9000-new.sql'), 'create table new_one (id integer)');
    await expect(migrate(url, folder)).rejects.toThrow(/edited after it was applied/);
    expect(await tables(url)).not.toContain('new_one');
  });

  it('are refused on a database that is ahead of the program', async () => {
    const url = await freshDatabase(inject('databaseUrl'));
    await migrate(url, folderOf({ '0001-a.sql': 'create table a (id integer)', '0002-b.sql': 'create table b (id integer)' }));
    await expect(migrate(url, folderOf({ '0001-a.sql': 'create table a (id integer)' }))).rejects.toThrow(/start the newer version/);
  });

  it('leave nothing of a run in which one of them failed', async () => {
    const url = await freshDatabase(inject('databaseUrl'));
    const folder = folderOf({ '0001-a.sql': 'create table a (id integer)', '0002-b.sql': 'create table b (id nonsense)' });
    await expect(migrate(url, folder)).rejects.toThrow(/nonsense/);
    expect(await tables(url)).toEqual(['schema_migrations']);
    writeFileSync(join(folder, '0002-b.sql'), 'create table b (id integer)');
    expect(await migrate(url, folder)).toEqual(['0001-a.sql', '0002-b.sql']);
  });
});
