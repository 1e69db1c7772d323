/** A Postgres of a test's own, which it may fill, crowd and kill. Gateways connect as an ordinary role, so that the superuser's places stay for the test. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/postgres.js';

export interface OwnPostgres {
  /** As the superuser, who has places of its own. */
  admin: pg.Client;
  /** An empty database of the role that gateways have. @param more such as `tablespace small` */
  database(name: string, more?: string): Promise<string>;
  postgres: EmbeddedPostgres;
  close(): Promise<void>;
}

export async function startOwnPostgres(settings: Record<string, string | number>): Promise<OwnPostgres> {
  const dataDir = mkdtempSync(join(tmpdir(), 'callgate-own-'));
  const first = await startEmbeddedPostgres({ dataDir });
  const setting = await connected(first.url);
  for (const [name, value] of Object.entries(settings)) await setting.query(`alter system set ${name} = ${value}`);
  await setting.query(`create role gate login password 'gate'`);
  await setting.end();
  await first.stop();
  const postgres = await startEmbeddedPostgres({ dataDir });
  const admin = await connected(postgres.url);
  admin.on('error', () => undefined); // it ends with its server
  return {
    admin, postgres,
    async database(name, more = '') {
      await admin.query(`create database ${name} owner gate ${more}`);
      const url = new URL(postgres.url);
      Object.assign(url, { username: 'gate', password: 'gate', pathname: `/${name}` });
      return url.href;
    },
    async close() {
      await admin.end().catch(() => undefined);
      await postgres.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}
