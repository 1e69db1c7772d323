/**
 * The ledger's Postgres behind a proxy: restarted, killed, cut off, and failed over to a synchronous standby. The standby is a copy of the
 * stopped primary that follows it by streaming, since the npm package has the server and no pg_basebackup; the primary acknowledges no
 * commit that the standby has not flushed.
 */
import { execFile } from 'node:child_process';
import { appendFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/embedded/postgres.js';
import { freePort } from '../src/embedded/free-port.js';
import { openProxy } from './proxy.js';

export interface Postgres {
  /** By way of the proxy. */
  url: string;
  restart(pauseMs: number): Promise<void>;
  /** kill -9 of the postmaster, and a start with recovery. */
  kill(pauseMs: number): Promise<void>;
  cut(): void;
  /**
   * The standby becomes the primary. `crash`: the old one is gone. `zombie`: it can only read from then on, and keeps its connections open
   * and answering, as after a failover that nobody told it of.
   */
  failOver(how: 'crash' | 'zombie'): Promise<void>;
  /** On whatever is the primary now, past the proxy. */
  query(text: string): Promise<pg.QueryResult>;
  stop(): Promise<void>;
}

interface Server { dataDir: string; port: number; running: EmbeddedPostgres }

export async function startPostgres(folder: string, prepare: (url: string) => Promise<void>, withStandby: boolean): Promise<Postgres> {
  let primary = await start(join(folder, 'primary'), await freePort());
  await prepare(primary.running.url);
  let standby: Server | null = null;
  if (withStandby) [primary, standby] = await pair(primary, join(folder, 'standby'));
  const proxy = await openProxy(primary.running.url);
  const abandoned: Server[] = [];

  return {
    url: proxy.url,
    async restart(pauseMs) {
      await primary.running.stop();
      await delay(pauseMs);
      primary = await start(primary.dataDir, primary.port);
    },
    async kill(pauseMs) {
      process.kill(primary.running.pid, 'SIGKILL');
      await primary.running.stop();
      await delay(pauseMs);
      primary = await start(primary.dataDir, primary.port);
    },
    cut: () => proxy.cut(),
    async failOver(how) {
      if (standby === null) throw new Error('there is no standby');
      const old = primary;
      if (how === 'crash') {
        process.kill(old.running.pid, 'SIGKILL');
        await old.running.stop();
      } else {
        await query(old, 'alter system set default_transaction_read_only = on');
        await query(old, 'select pg_reload_conf()');
        abandoned.push(old);
      }
      await query(standby, 'select pg_promote()');
      primary = standby;
      standby = null;
      proxy.turnTo(primary.port);
    },
    query: (text) => query(primary, text),
    async stop() {
      await proxy.close();
      for (const server of [primary, ...(standby ? [standby] : []), ...abandoned]) await server.running.stop();
    },
  };
}

/** A postmaster that was killed leaves children that hold on to its memory for a moment: they are waited for. */
async function start(dataDir: string, port: number): Promise<Server> {
  for (let tries = 0; ; tries++) {
    try {
      return { dataDir, port, running: await startEmbeddedPostgres({ dataDir, port }) };
    } catch (error) {
      if (tries === 20) throw error;
      await delay(250);
    }
  }
}

async function pair(alone: Server, dataDir: string): Promise<[Server, Server]> {
  await alone.running.stop();
  await rm(dataDir, { recursive: true, force: true });
  await promisify(execFile)('cp', ['-a', alone.dataDir, dataDir]);
  const { password, username } = new URL(alone.running.url);
  const port = await freePort();
  const conf = (folder: string): string => join(folder, 'cluster', 'postgresql.conf');
  await appendFile(conf(dataDir), `\nprimary_conninfo = 'host=127.0.0.1 port=${alone.port} user=${username} password=${password} application_name=standby'\nwal_retrieve_retry_interval = 200ms\n`);
  await promisify(execFile)('cp', ['-a', join(dataDir, 'cluster', 'PG_VERSION'), join(dataDir, 'cluster', 'standby.signal')]);
  await appendFile(conf(alone.dataDir), `\nsynchronous_standby_names = 'standby'\n`);
  const primary = await start(alone.dataDir, alone.port);
  const standby = await start(dataDir, port);
  await until(async () => (await query(primary, `select 1 from pg_stat_replication where sync_state = 'sync'`)).rowCount === 1);
  return [primary, standby];
}

async function query(server: Server, text: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: server.running.url });
  await client.connect();
  try {
    return await client.query(text);
  } finally {
    await client.end();
  }
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error('the standby does not follow');
    await delay(50);
  }
}
