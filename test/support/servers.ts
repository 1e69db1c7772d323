/**
 * The servers that the tests run against, as vitest's globalSetup: real ones always, taken from DATABASE_URL and REDIS_URL or
 * started here. A test reads their addresses with `inject('databaseUrl')` and `inject('redisUrl')`.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type {} from 'vitest';
import type { TestProject } from 'vitest/node';
import { spawnBound } from '../../src/embedded/bound-process.js';
import { freePort } from '../../src/embedded/free-port.js';
import { startEmbeddedPostgres } from '../../src/embedded/postgres.js';

declare module 'vitest' {
  export interface ProvidedContext {
    /** A superuser's URL (or one who may create databases); use `freshDatabase` instead of writing into this one. */
    databaseUrl: string;
    /** Null: no redis-server on this machine, and not in CI. */
    redisUrl: string | null;
  }
}

type Stop = () => Promise<void>;
let stops: Stop[] = [];

export async function setup(project: TestProject): Promise<void> {
  // Workers inherit the environment; the mark says whose databases those on a shared server are.
  process.env['CALLGATE_TEST_RUN'] = randomBytes(4).toString('hex');
  try {
    project.provide('databaseUrl', await provideDatabase());
    project.provide('redisUrl', await provideRedis());
  } catch (error) {
    await teardown();
    throw error;
  }
}

export async function teardown(): Promise<void> {
  for (const stop of stops.reverse()) await stop();
  stops = [];
}

async function provideDatabase(): Promise<string> {
  const given = process.env['DATABASE_URL'];
  if (given) {
    stops.push(() => dropDatabasesOfThisRun(given));
    return given;
  }
  const folder = await mkdtemp(join(tmpdir(), 'callgate-test-'));
  stops.push(() => rm(folder, { recursive: true, force: true }));
  const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
  stops.push(postgres.stop);
  return postgres.url;
}

async function provideRedis(): Promise<string | null> {
  const given = process.env['REDIS_URL'];
  if (given) return given;
  try {
    const redis = await startRedis();
    stops.push(redis.stop);
    return redis.url;
  } catch (error) {
    if (process.env['CI']) throw error;
    console.warn(`\n*** NO REDIS: ${(error as Error).message}\n*** Whatever needs Redis is NOT being tested. ***\n`);
    return null;
  }
}

/** Makes a uniquely named, empty database on the server of `adminUrl` and returns its URL. */
export async function freshDatabase(adminUrl: string): Promise<string> {
  const name = `${databasesOfThisRun()}${randomBytes(6).toString('hex')}`;
  await administer(adminUrl, (client) => client.query(`create database ${name}`));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return url.href;
}

const databasesOfThisRun = (): string => `callgate_test_${process.env['CALLGATE_TEST_RUN'] ?? 'alone'}_`;

async function dropDatabasesOfThisRun(adminUrl: string): Promise<void> {
  await administer(adminUrl, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      'select datname from pg_database where starts_with(datname::text, $1)', [databasesOfThisRun()]);
    for (const { datname } of rows) await client.query(`drop database ${datname} with (force)`);
  });
}

async function administer(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

export interface TestRedis { url: string; pid: number; stop: Stop }

/** Starts an empty redis-server of its own on a free port, for tests that kill it with `process.kill(pid, 'SIGKILL')`. */
export async function startRedis(): Promise<TestRedis> {
  for (let tries = 1; ; tries++) {
    const started = await tryRedis(await freePort());
    if (!Array.isArray(started)) return started;
    if (tries === 3 || !started.some((line) => line.includes('Address already in use'))) {
      const said = started.slice(-5).join('\n');
      throw new Error(`redis-server did not start: install it (\`apt-get install redis-server\`) or set REDIS_URL. It said:\n${said}`);
    }
  }
}

/** @returns the output of a server that ended before it was ready. */
async function tryRedis(port: number): Promise<TestRedis | string[]> {
  const lines: string[] = [];
  let ready = (): void => undefined;
  const isReady = new Promise<'ready'>((resolve) => { ready = () => resolve('ready'); });
  const server = await spawnBound(
    ['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', tmpdir()],
    {
      farewell: 'KILL',
      env: { PATH: process.env['PATH'], LC_ALL: 'C' },
      onLine: (line) => {
        lines.push(line);
        if (line.includes('Ready to accept connections')) ready();
      },
    },
  );
  if (await Promise.race([isReady, server.ended]) !== 'ready') return lines;
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: server.pid,
    async stop() {
      server.signal('SIGTERM');
      await server.ended;
    },
  };
}
