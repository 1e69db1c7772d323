/** Everything for development in one process tree: Postgres from npm, the example service, the gateway, the keys. */
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config/index.js';
import { spawnBound } from '../embedded/bound-process.js';
import { startEmbeddedPostgres } from '../embedded/postgres.js';
import { createPool } from '../ledger/connection.js';
import { openKeys } from '../ledger/keys.js';
import { migrate } from '../ledger/migrate.js';
import { startGateway } from '../main.js';
import { projectFile } from '../project.js';
import { developmentKeys } from './keys.js';
import { developmentSecrets, type DevelopmentSecrets } from './secrets.js';

export interface Development {
  /** What `dev.json` holds. */
  details: {
    agent_url: string; control_url: string; agent_key: string; application_key: string; reviewer_keys: string[]; auditor_key: string; admin_key: string;
    upstream_url: string; database_url: string; pid: number;
  };
  close(): Promise<void>;
}

/** @throws Error in words for a person; what was started by then is stopped again. */
export async function startDevelopment(config: Config): Promise<Development> {
  const folder = config.data.dir;
  mkdirSync(folder, { recursive: true });
  const stops: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  try {
    const databaseUrl = config.database.url ?? (await embedded(folder, stops));
    await migrate(databaseUrl, projectFile('migrations'));
    const secrets = developmentSecrets(folder);
    await saveKeys(databaseUrl, secrets);
    const upstreamUrl = await startExample(config, secrets, stops);
    process.env['RETAIL_URL'] = upstreamUrl;
    process.env['RETAIL_TOKEN'] = secrets.example_token;
    const gateway = await startGateway({
      ...config,
      database: { ...config.database, url: databaseUrl },
      secrets: { ...config.secrets, keyPepper: secrets.key_pepper, sealKey: secrets.seal_key },
    });
    stops.push(gateway.close);
    const { agent_key, application_key, reviewer_keys, auditor_key, admin_key } = secrets;
    const details = {
      agent_url: gateway.agentUrl, control_url: gateway.controlUrl, agent_key, application_key, reviewer_keys, auditor_key, admin_key,
      upstream_url: upstreamUrl, database_url: databaseUrl, pid: process.pid,
    };
    stops.push(publish(join(folder, 'dev.json'), details));
    return { details, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function embedded(folder: string, stops: (() => Promise<void>)[]): Promise<string> {
  const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
  stops.push(postgres.stop);
  return postgres.url;
}

async function saveKeys(databaseUrl: string, secrets: DevelopmentSecrets): Promise<void> {
  const pool = createPool({ url: databaseUrl, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
  try {
    const table = openKeys(pool);
    for (const key of developmentKeys(secrets)) await table.saveKey(key);
  } finally {
    await pool.end();
  }
}

const exampleStartMs = 10_000;

/** A process of its own, as a domain service is; it ends with this one, and its journal keeps what it has done. */
async function startExample(config: Config, secrets: DevelopmentSecrets, stops: (() => Promise<void>)[]): Promise<string> {
  const lines: string[] = [];
  let heard: (url: string) => void = () => undefined;
  const url = new Promise<string>((resolve) => { heard = resolve; });
  const service = await spawnBound([process.execPath, projectFile('dist', 'examples', 'retail', 'service', 'main.js')], {
    farewell: 'TERM',
    env: {
      ...process.env, PORT: String(config.example.port), RETAIL_TOKEN: secrets.example_token, RETAIL_JOURNAL: join(config.data.dir, 'example.journal'),
    },
    onLine(line) {
      lines.push(line);
      const listening = /listening on (http:\S+)/.exec(line)?.[1];
      if (listening) heard(listening);
    },
  });
  stops.push(async () => {
    service.signal('SIGTERM');
    await service.ended;
  });
  const late = delay(exampleStartMs, null, { ref: false });
  const started = await Promise.race([url, service.ended.then(() => null), late]);
  if (started === null) {
    throw new Error(`the example service did not start on port ${config.example.port}: ${lines.at(-1) ?? 'it said nothing'}. Move it with CALLGATE_EXAMPLE_PORT.`);
  }
  return started;
}

/** Written whole and readable by its owner alone, since it holds keys; gone when the set-up has stopped. */
function publish(file: string, details: Development['details']): () => Promise<void> {
  writeFileSync(file, `${JSON.stringify(details, null, 2)}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
  return async () => rmSync(file, { force: true });
}
