/** The systems that are held side by side, each a process of its own over the same upstream and the same Postgres server. */
import { randomBytes } from 'node:crypto';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbeddedPostgres } from '../dist/src/embedded/postgres.js';
import { plainEnv, start, startLoad } from './processes.mjs';

const here = (...parts) => fileURLToPath(new URL(parts.join('/'), import.meta.url));
const secrets = {
  CALLGATE_SECRETS_KEY_PEPPER: 'bench-0123456789-pepper-0123456789', CALLGATE_SECRETS_SEAL_KEY: 'bench-0123456789-seal-0123456789ab',
  CALLGATE_SECRETS_SIGNING_KEYS: randomBytes(32).toString('base64url'),
};

export const systemNames = ['upstream', 'proxy', 'naive', 'naive-prepared', 'callgate'];

/**
 * @param options `{only: names or null, profile: folder for a CPU profile of the gateway or null}`
 * @returns `{load, postgres, upstream, systems, query, stop}`; each of `systems` has `{name, pid, url, requests}`
 */
export async function open({ only, profile }) {
  const stops = [];
  const stop = async () => { for (const end of stops.splice(0).reverse()) await end(); };
  try {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-bench-'));
    stops.push(() => rmSync(folder, { recursive: true, force: true }));
    const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
    stops.push(postgres.stop);
    const upstream = await start('upstream', [process.execPath, here('upstream.mjs')], {});
    stops.push(upstream.stop);
    const load = startLoad(here('load.mjs'));
    stops.push(load.stop);

    const systems = [];
    for (const name of systemNames.filter((known) => !only || only.includes(known))) {
      const system = name === 'upstream' ? { ...upstream, requests: upstreamRequests }
        : name === 'callgate' ? await openCallgate(postgres.url, upstream.url, profile)
          : await openFloor(name, postgres.url, upstream.url);
      if (name !== 'upstream') stops.push(system.stop);
      systems.push({ name, ...system });
    }
    return { load, postgres, upstream, systems, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const json = { 'content-type': 'application/json' };
const orderBody = '{"order_id":"O-$n","amount":2500,"currency":"GBP"}';

/** What a call of each kind looks like; `$n` is its number. The load generator straight at the upstream shows its own limit. */
const upstreamRequests = {
  write: { method: 'POST', path: '/orders/O-$n/credits', headers: { ...json, 'idempotency-key': 'k-$n' }, body: orderBody, expect: '"receipt_id"' },
  read: { method: 'GET', path: '/orders/O-$n', headers: {}, body: '', expect: '"DELIVERED"' },
};

async function openFloor(name, databaseUrl, upstreamUrl) {
  const database = name === 'proxy' ? databaseUrl : await createDatabase(databaseUrl, name.replace('-', '_'));
  const floor = await start(name, [process.execPath, here('floor.mjs')], { MODE: name, UPSTREAM: upstreamUrl, DATABASE_URL: database });
  const write = { method: 'POST', path: '/credits', headers: { ...json, 'idempotency-key': 'k-$n' }, body: orderBody, expect: '"receipt_id"' };
  return {
    ...floor,
    requests: name === 'proxy'
      ? { write, read: { method: 'POST', path: '/convert', headers: json, body: '{"value":$n}', expect: '"value"' } }
      : { write, duplicate: write },
  };
}

async function openCallgate(adminUrl, upstreamUrl, profile) {
  const databaseUrl = await createDatabase(adminUrl, 'bench_callgate');
  const env = {
    ...secrets, DATABASE_URL: databaseUrl, BENCH_UPSTREAM: upstreamUrl, CALLGATE_MODE: 'production', CALLGATE_CONTRACTS_FOLDER: here('contracts'), CALLGATE_UPSTREAM_ALLOW_PRIVATE: 'bench=127.0.0.1',
    CALLGATE_AGENT_PORT: '0', CALLGATE_CONTROL_PORT: '0', CALLGATE_BUDGETS_EXECUTIONS_PER_PRINCIPAL_PER_DAY: '100000000',
  };
  const command = here('../bin/callgate.mjs');
  await runToEnd([command, 'migrate'], env);
  const key = /cg_\S+/.exec(await runToEnd([
    command, 'keys', 'create', '--tenant', 'bench', '--principal', 'agent', '--role', 'agent', '--subject', 'C-1', '--purpose', 'refund',
  ], env))?.[0];
  const prof = profile ? ['--cpu-prof', `--cpu-prof-dir=${profile}`] : [];
  const gateway = await start('callgate', [process.execPath, ...prof, command, 'serve'], env);
  const headers = { ...json, authorization: `Bearer ${key}` };
  const propose = (tool, args, expect) => ({
    method: 'POST', path: '/v1/calls', headers, expect,
    body: `{"session_id":"s-$n","call_id":"c-$n","tool":"${tool}","arguments":${args}}`,
  });
  return {
    ...gateway, databaseUrl,
    requests: {
      write: propose('issue_credit', orderBody, '"disposition":"executed"'),
      duplicate: propose('issue_credit', orderBody, '"disposition":"replayed"'),
      read: propose('convert_temperature', '{"value":$n}', '"disposition":"executed"'),
    },
  };
}

async function createDatabase(adminUrl, name) {
  await ask(adminUrl, `create database ${name}`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** @returns the rows of one statement. */
export async function ask(url, text) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

function runToEnd(args, env) {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { env: { ...plainEnv, ...env } }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${args.join(' ')}: ${stderr}`));
      else resolve(`${stdout}\n${stderr}`);
    });
  });
}
