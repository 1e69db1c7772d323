/** The systems that are held side by side, each in processes of its own over the same upstream and the same Postgres server. */
import { randomBytes } from 'node:crypto';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEmbeddedPostgres } from '../dist/src/embedded/postgres.js';
import { createDatabase } from './database.mjs';
import { plainEnv, start, startLoad } from './processes.mjs';

const here = (...parts) => fileURLToPath(new URL(parts.join('/'), import.meta.url));
const secrets = {
  CALLGATE_SECRETS_KEY_PEPPER: 'bench-0123456789-pepper-0123456789', CALLGATE_SECRETS_SEAL_KEY: 'bench-0123456789-seal-0123456789ab',
  CALLGATE_SECRETS_SIGNING_KEYS: randomBytes(32).toString('base64url'),
};

export const systemNames = ['upstream', 'proxy', 'naive', 'naive-prepared', 'callgate'];
export const peerNames = ['restate', 'restate-1', 'dbos'];

/**
 * @param names of the systems to start, in the order in which they take turns
 * @param profile folder for a CPU profile of the gateway, or null
 * @returns `{load, postgres, upstream, systems, folder, defer, stop}`; each of `systems` has `{name, pid, engine, urls, requests, mustLive}`, where `engine`
 *   weighs what keeps its data. `defer` takes what is to be ended by `stop`, last first.
 */
export async function open(names, { profile = null } = {}) {
  const stops = [];
  const defer = (end) => { stops.push(end); };
  let stopping = null;
  const stopAll = async () => { for (const end of stops.toReversed()) await end(); };
  const stop = () => { stopping ??= stopAll(); return stopping; };
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void stop().finally(() => process.exit(1))); // gigabytes would stay behind
  try {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-bench-'));
    defer(() => rmSync(folder, { recursive: true, force: true }));
    const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
    defer(postgres.stop);
    const upstream = await start('upstream', [process.execPath, here('upstream.mjs')], {});
    defer(upstream.stop);
    const load = startLoad(here('load.mjs'));
    defer(load.stop);
    const house = { load, postgres, upstream, systems: [], folder, defer, stop };
    for (const name of names) house.systems.push({ name, engine: postgres.pid, ...(await openSystem(house, name, profile)) });
    return house;
  } catch (error) {
    await stop();
    throw error;
  }
}

async function openSystem(house, name, profile) {
  if (name === 'upstream') return { ...house.upstream, urls: [house.upstream.url], requests: upstreamRequests };
  if (name === 'callgate') return openGateway(house, await openTenant(house, 'callgate'), { profile });
  if (!peerNames.includes(name)) return openFloor(house, name);
  const { openPeer } = await import('./peers.mjs');
  return openPeer(house, name, write('/call'));
}

const json = { 'content-type': 'application/json' };
const orderBody = '{"order_id":"O-$n","amount":2500,"currency":"GBP"}';

/** What a call of each kind looks like; `$n` is its number. The load generator straight at the upstream shows its own limit. */
const upstreamRequests = {
  write: { method: 'POST', path: '/orders/O-$n/credits', headers: { ...json, 'idempotency-key': 'k-$n' }, body: orderBody, expect: '"receipt_id"' },
  read: { method: 'GET', path: '/orders/O-$n', headers: {}, body: '', expect: '"DELIVERED"' },
};

/** To a floor or a peer. */
function write(path) {
  return { method: 'POST', path, headers: { ...json, 'idempotency-key': 'k-$n' }, body: orderBody, expect: '"receipt_id"' };
}

async function openFloor(house, name) {
  const databaseUrl = name === 'proxy' ? house.postgres.url : await createDatabase(house, name.replace('-', '_'));
  const floor = await start(name, [process.execPath, here('floor.mjs')], { MODE: name, UPSTREAM: house.upstream.url, DATABASE_URL: databaseUrl });
  house.defer(floor.stop);
  return {
    ...floor, urls: [floor.url],
    requests: name === 'proxy'
      ? { write: write('/credits'), read: { method: 'POST', path: '/convert', headers: json, body: '{"value":$n}', expect: '"value"' } }
      : { write: write('/credits'), duplicate: write('/credits') },
  };
}

/**
 * A migrated database with a key for an agent.
 * @param more `{tenant, isThere, env}`: whose key it is, whether the database was made before, and settings beside the usual ones
 */
export async function openTenant(house, name, { tenant = 'bench', isThere = false, env: more = {} } = {}) {
  const databaseUrl = isThere ? databaseAt(house, `bench_${name}`) : await createDatabase(house, `bench_${name}`);
  const env = {
    ...secrets, DATABASE_URL: databaseUrl, BENCH_UPSTREAM: house.upstream.url, CALLGATE_MODE: 'production', CALLGATE_CONTRACTS_FOLDER: here('contracts'),
    CALLGATE_UPSTREAM_ALLOW_PRIVATE: 'bench=127.0.0.1', CALLGATE_AGENT_PORT: '0', CALLGATE_CONTROL_PORT: '0', CALLGATE_BUDGETS_EXECUTIONS_PER_PRINCIPAL_PER_DAY: '100000000',
    CALLGATE_CALLERS_PRINCIPAL_CONCURRENT: '2000', ...more,
  };
  await runToEnd([command, 'migrate'], env);
  return { databaseUrl, env, name: tenant, key: await createKey({ env, name: tenant }, 'agent') };
}

/** Of an agent for one customer of the service, or for another role. */
export async function createKey({ env, name }, principal, { role = 'agent', subject = 'C-1' } = {}) {
  const rights = role === 'agent' ? ['--subject', subject, '--purpose', 'refund'] : [];
  return /cg_\S+/.exec(await runToEnd([command, 'keys', 'create', '--tenant', name, '--principal', principal, '--role', role, ...rights], env))?.[0];
}

const command = here('../bin/callgate.mjs');

/** One more process of the gateway over the database of `tenant`. */
export async function openGateway(house, tenant, { profile = null } = {}) {
  const prof = profile ? ['--cpu-prof', `--cpu-prof-dir=${profile}`] : [];
  const gateway = await start('callgate', [process.execPath, ...prof, command, 'serve'], tenant.env);
  house.defer(gateway.stop);
  return { ...gateway, tenant, urls: [gateway.url], requests: gatewayRequests(tenant.key) };
}

function gatewayRequests(key) {
  const headers = { ...json, authorization: `Bearer ${key}` };
  const propose = (tool, args, expect) => ({
    method: 'POST', path: '/v1/calls', headers, expect,
    body: `{"session_id":"s-$n","call_id":"c-$n","tool":"${tool}","arguments":${args}}`,
  });
  return {
    write: propose('issue_credit', orderBody, '"disposition":"executed"'),
    duplicate: propose('issue_credit', orderBody, '"disposition":"replayed"'),
    'duplicate-wide': propose('issue_credit', orderBody, '"disposition":"replayed"'),
    read: propose('convert_temperature', '{"value":$n}', '"disposition":"executed"'),
    /** All on one order, of which the first is answered late. */
    inLine: { ...propose('issue_credit', '{"order_id":"O-0","amount":$n,"currency":"GBP"}', '"disposition":"executed"'), headers: { ...headers, prefer: 'wait=45' } },
  };
}

function runToEnd(args, env) {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { env: { ...plainEnv, ...env } }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${args.join(' ')}: ${stderr}`));
      else resolve(`${stdout}\n${stderr}`);
    });
  });
}
