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

/** As its contract names it: the one service that may be on this machine without being allowed by the operator. */
const exampleService = 'retail';

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
    process.env['RETAIL_WEBHOOK_SECRET'] = secrets.example_webhook_secret;
    const gateway = await startGateway({
      ...config,
      database: { ...config.database, url: databaseUrl },
      upstream: { ...config.upstream, allowPrivate: [`${exampleService}=127.0.0.1`, ...(config.upstream.allowPrivate ? [config.upstream.allowPrivate] : [])].join(' ') },
      secrets: { ...config.secrets, keyPepper: secrets.key_pepper, sealKey: secrets.seal_key, signingKeys: secrets.signing_keys },
    });
    stops.push(gateway.close);
    await subscribe(upstreamUrl, gateway.controlUrl);
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

/** The example learns where its events go once that is known; until then they wait there. */
async function subscribe(upstreamUrl: string, controlUrl: string): Promise<void> {
  const response = await fetch(`${upstreamUrl}/_webhooks`, { method: 'POST', body: JSON.stringify({ url: `${controlUrl}/v1/callbacks/retail` }) });
  if (!response.ok) throw new Error(`the example service does not take an address for its events: ${await response.text()}`);
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
const retryMs = 200;

/** A process of its own, as a domain service is; it ends with this one, and its journal keeps what it has done. */
async function startExample(config: Config, secrets: DevelopmentSecrets, stops: (() => Promise<void>)[]): Promise<string> {
  const until = performance.now() + exampleStartMs;
  for (;;) {
    const started = await launchExample(config, secrets);
    if ('url' in started) {
      stops.push(started.stop);
      return started.url;
    }
    // the child of a set-up that was killed a moment ago may still be letting go of the port
    if (!started.said.includes('EADDRINUSE') || performance.now() > until) {
      throw new Error(`the example service did not start on port ${config.example.port}: ${started.said}. Move it with CALLGATE_EXAMPLE_PORT.`);
    }
    await delay(retryMs);
  }
}

async function launchExample(config: Config, secrets: DevelopmentSecrets): Promise<{ url: string; stop(): Promise<void> } | { said: string }> {
  let said = 'it said nothing';
  let heard: (url: string) => void = () => undefined;
  const listening = new Promise<string>((resolve) => { heard = resolve; });
  const service = await spawnBound([process.execPath, projectFile('dist', 'examples', 'retail', 'service', 'main.js')], {
    farewell: 'KILL',
    env: {
      PATH: process.env['PATH'], PORT: String(config.example.port), RETAIL_TOKEN: secrets.example_token,
      RETAIL_JOURNAL: join(config.data.dir, 'example.journal'), RETAIL_WEBHOOK_SECRET: secrets.example_webhook_secret,
    },
    onLine(line) {
      said = line;
      const url = /listening on (http:\S+)/.exec(line)?.[1];
      if (url) heard(url);
    },
  });
  const stop = async (): Promise<void> => {
    service.signal('SIGTERM');
    await service.ended;
  };
  const url = await Promise.race([listening, service.ended.then(() => null), delay(exampleStartMs, null, { ref: false })]);
  if (url !== null) return { url, stop };
  await stop();
  return { said };
}

/** Written whole and readable by its owner alone, since it holds keys; gone when the set-up has stopped. */
function publish(file: string, details: Development['details']): () => Promise<void> {
  writeFileSync(file, `${JSON.stringify(details, null, 2)}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
  return async () => rmSync(file, { force: true });
}
