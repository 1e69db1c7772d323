/** A ledger with millions of operations in a cluster of its own: made, or found where an earlier run has kept it. */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { readKeyRing } from '../../dist/src/chain/keys.js';
import { checkpointText } from '../../dist/src/chain/lines.js';
import { startEmbeddedPostgres } from '../../dist/src/embedded/postgres.js';
import { startRetailService } from '../../dist/examples/retail/service/server.js';
import { openLedger } from '../../dist/src/ledger/ledger.js';
import { createSealer } from '../../dist/src/ledger/seal.js';
import { weigh } from '../processes.mjs';
import { ask, databaseAt } from '../database.mjs';
import { createKey, openGateway, openTenant } from '../systems.mjs';
import { multiply } from './multiply.mjs';
import { principals, seed } from './seed.mjs';

/** Of the orders that the example service has. */
export const tenantName = 'acme';

/** While it is filled: what is written into a table that was emptied in the same transaction is not written twice. */
const loading = {
  wal_level: 'minimal', max_wal_senders: '0', max_wal_size: '8GB', checkpoint_timeout: '1h', shared_buffers: '1GB', work_mem: '256MB', maintenance_work_mem: '1GB',
  max_parallel_maintenance_workers: '0', autovacuum: 'off',
};

/** What a run must not erase or seal while it measures something else. */
const quiet = { CALLGATE_RETENTION_PAYLOADS: '3650d' };

/**
 * @param house of bench/systems.mjs
 * @param options `{folder, operations, told}`
 * @returns the house with the large ledger in the place of its Postgres, and `{tenant, loaded, restart}`
 */
export async function openLarge(house, { folder, operations, told }) {
  const large = { ...house, postgres: null };
  large.restart = async () => {
    await large.postgres?.stop();
    large.postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'large') });
    if (large.tenant) Object.assign(large.tenant, { databaseUrl: databaseAt(large, 'bench_large') });
    if (large.tenant) large.tenant.env.DATABASE_URL = large.tenant.databaseUrl;
  };
  house.defer(() => large.postgres?.stop());
  await large.restart();
  const noted = join(folder, 'loaded.json');
  const kept = existsSync(noted) ? JSON.parse(readFileSync(noted, 'utf8')) : null;
  const signingKey = kept?.signingKey ?? randomBytes(32).toString('base64url');
  large.tenant = await openTenant(large, 'large', { tenant: tenantName, isThere: kept !== null, env: { ...quiet, CALLGATE_SECRETS_SIGNING_KEYS: signingKey } });
  large.loaded = kept ?? await load(large, { operations, told, signingKey });
  writeFileSync(noted, JSON.stringify(large.loaded));
  return large;
}

async function load(large, { operations, told, signingKey }) {
  const begun = performance.now();
  await makeSeed(large);
  told('seed', (performance.now() - begun) / 1000);
  await set(large, loading);
  const connect = async () => {
    const client = new pg.Client({ connectionString: large.tenant.databaseUrl });
    await client.connect();
    return client;
  };
  const { operations: made, conversations } = await multiply(connect, { operations }, told);
  told('of Postgres\' CPU', weigh(large.postgres.pid, true)?.cpuSeconds ?? Number.NaN);
  await sign(large, signingKey);
  await set(large, null);
  const seconds = (performance.now() - begun) / 1000;
  told('in all', seconds);
  return { operations: made, conversations, seconds, signingKey, sizes: await sizes(large.tenant.databaseUrl) };
}

/** By restart; null: as they were. */
async function set(large, settings) {
  const client = new pg.Client({ connectionString: large.postgres.url });
  await client.connect();
  if (settings === null) await client.query('alter system reset all');
  else for (const [name, value] of Object.entries(settings)) await client.query(`alter system set ${name} = '${value}'`);
  await client.query('checkpoint');
  await client.end();
  await large.restart();
}

async function makeSeed(large) {
  const { tenant } = large;
  const keys = new Map();
  for (const principal of principals.common) keys.set(principal, await createKey(tenant, principal));
  for (const principal of [principals.uncommon, principals.rare]) keys.set(principal, await createKey(tenant, principal, { subject: 'C-17' }));
  const applicationKey = await createKey(tenant, 'application', { role: 'application' });
  const token = 'bench';
  const service = await startRetailService({ port: 0, token });
  const desk = await openGateway(large, tenant);
  const shop = await openGateway(large, {
    ...tenant, env: {
      ...tenant.env, CALLGATE_CONTRACTS_FOLDER: fileURLToPath(new URL('../../examples/retail/contracts', import.meta.url)), RETAIL_URL: service.url, RETAIL_TOKEN: token,
      CALLGATE_UPSTREAM_ALLOW_PRIVATE: 'retail=127.0.0.1',
    },
  });
  const keyOf = (principal) => keys.get(principal);
  const fault = async (order) => {
    const response = await fetch(`${service.url}/_faults`, { method: 'POST', body: JSON.stringify(order), headers: { 'content-type': 'application/json' } });
    if (!response.ok) throw new Error(await response.text());
  };
  try {
    await seed({ desk: { url: desk.url, keyOf }, shop: { url: shop.url, controlUrl: shop.controlUrl, keyOf, applicationKey, fault } });
  } finally {
    await Promise.all([desk.stop(), shop.stop(), service.close()]);
  }
}

/** Signs where every chain ends, so that a sealer goes on there and does not go through what nothing was hashed for. */
async function sign({ tenant }, signingKey) {
  const ledger = openLedger({ url: tenant.databaseUrl, preparedStatements: false, statementTimeoutMs: 60_000, connectTimeoutMs: 5_000, poolSize: 2, maxBatch: 128, maxQueue: 1_000 }, createSealer('none'));
  const { chain } = ledger;
  const owner = 'bench-scale';
  const { lease } = await chain.hold(null, owner, 60_000, null);
  const { upTo, now } = await chain.look();
  const signer = readKeyRing(signingKey).signerAt(new Date(now));
  for (let after = ''; ;) {
    const heads = await chain.heads(after, 500);
    await chain.sign(lease, heads.map(({ tenant: of, sequence, link }) => {
      const checkpoint = { key: signer.key, link, sequence, signed_at: now, tenant: of };
      return { ...checkpoint, signature: signer.sign(checkpointText(checkpoint)) };
    }));
    if (heads.length < 500) break;
    after = heads.at(-1).tenant;
  }
  await chain.hold(lease, owner, 60_000, upTo);
  await chain.letGo(lease);
  await ledger.close();
}

/** Of every table: bytes of it with what it keeps beside itself, and of its indexes. */
export function sizes(databaseUrl) {
  return ask(databaseUrl, `
    select c.relname as name, c.reltuples::float8 as rows, pg_table_size(c.oid)::float8 as table_bytes, pg_indexes_size(c.oid)::float8 as index_bytes
    from pg_class c where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace order by pg_total_relation_size(c.oid) desc`);
}
