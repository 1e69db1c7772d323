/** Everything that a run happens in: real processes in a folder of their own, which is gone afterwards. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { keyDigest, keyPrefix, type KeyRecord, mintKey } from '../src/identity/api-keys.js';
import { createPool } from '../src/ledger/connection.js';
import { openKeys } from '../src/ledger/keys.js';
import { migrate } from '../src/ledger/migrate.js';
import type { Role } from '../src/model.js';
import { projectFile } from '../src/project.js';
import { type Fleet, startFleet } from './fleet.js';
import { type Customer, customers, type Stock } from './orders.js';
import type { Windows } from './plan.js';
import { type Postgres, startPostgres } from './postgres.js';
import { type Redis, startRedis } from './redis.js';
import { type Shop, startShop } from './shop.js';

export interface Keys {
  agents: Record<Customer, string>;
  people: Record<'acme' | 'globex', { application: string; reviewers: [string, string, string]; auditor: string }>;
}

export interface House { fleet: Fleet; shop: Shop; postgres: Postgres; redis: Redis; keys: Keys; close(): Promise<void> }

/**
 * Short enough for many operations, long enough for a machine that is busy. What the service has accepted it decides within `acceptedMs`, also where it is
 * killed in the meantime; it tells nobody when it refuses it, because a void has moved the order, and only the deadline brings that out.
 */
export const windows: Windows & { leaseMs: number; acceptedMs: number; reconcileMs: number } = { deadlineMs: 1_500, settleMs: 900, leaseMs: 2_000, acceptedMs: 12_000, reconcileMs: 60_000 };

const shorter: [string, string][] = [
  ['settle_after: 10s', `settle_after: ${windows.settleMs}ms`], ['deadline: 5s }', `deadline: ${windows.deadlineMs}ms }`], ['deadline: 1h', `deadline: ${windows.acceptedMs}ms`],
];

export async function openHouse(options: { replicas: number; stock: Stock; failover: boolean }): Promise<House> {
  const folder = await mkdtemp(join(tmpdir(), 'callgate-faults-'));
  const stops: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  try {
    const keys = mintKeys();
    const pepper = secret();
    const postgres = await startPostgres(folder, (url) => prepare(url, keyRecords(keys, pepper)), options.failover);
    stops.push(postgres.stop);
    const redis = await startRedis();
    stops.push(redis.stop);
    const shop = await startShop(folder, options.stock);
    stops.push(shop.stop);
    const fleet = await startFleet(options.replicas, {
      DATABASE_URL: postgres.url, REDIS_URL: redis.url, RETAIL_URL: shop.url, RETAIL_TOKEN: shop.token, CALLGATE_UPSTREAM_ALLOW_PRIVATE: 'retail=127.0.0.1', CALLGATE_CONTRACTS_FOLDER: contracts(folder),
      CALLGATE_SECRETS_KEY_PEPPER: pepper, CALLGATE_SECRETS_SEAL_KEY: secret(), CALLGATE_AGENT_PORT: '0', CALLGATE_CONTROL_PORT: '0', CALLGATE_LOG_LEVEL: 'error',
      CALLGATE_DATABASE_POOL_SIZE: '5', CALLGATE_EXECUTION_LEASE: `${windows.leaseMs}ms`, CALLGATE_EXECUTION_SEND_WINDOW: '1s', CALLGATE_EXECUTION_PATIENCE: '3s',
      CALLGATE_RECONCILE_SWEEP_INTERVAL: '200ms', CALLGATE_RECONCILE_BACKOFF_FIRST: '200ms', CALLGATE_RECONCILE_BACKOFF_MAX: '2s',
      CALLGATE_RECONCILE_DEADLINE: `${windows.reconcileMs}ms`, CALLGATE_DRAIN_TIMEOUT: '5s',
      // Refused proposals and days of work are not what this is about.
      CALLGATE_BUDGETS_PROPOSALS: '1000', CALLGATE_BUDGETS_TURNS: '100000', CALLGATE_BUDGETS_EXECUTIONS_PER_PRINCIPAL_PER_DAY: '100000000',
    });
    stops.push(fleet.stop);
    return { fleet, shop, postgres, redis, keys, close };
  } catch (error) {
    await close();
    throw error;
  }
}

const secret = (): string => mintKey().key;

function contracts(folder: string): string {
  const to = join(folder, 'contracts');
  cpSync(projectFile('examples', 'retail', 'contracts'), to, { recursive: true });
  const file = join(to, 'retail.yaml');
  let text = readFileSync(file, 'utf8');
  for (const [from, into] of shorter) {
    if (!text.includes(from)) throw new Error(`the example's contracts no longer say \`${from}\``);
    text = text.replaceAll(from, into);
  }
  writeFileSync(file, text);
  return to;
}

async function prepare(url: string, records: KeyRecord[]): Promise<void> {
  await migrate(url, projectFile('migrations'));
  const pool = createPool({ url, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
  for (const record of records) await openKeys(pool).saveKey(record);
  await pool.end();
}

function mintKeys(): Keys {
  const key = (): string => mintKey().key;
  const people = () => ({ application: key(), reviewers: [key(), key(), key()] as [string, string, string], auditor: key() });
  return { agents: { 0: key(), 1: key(), 2: key() }, people: { acme: people(), globex: people() } };
}

/** Agents of one name everywhere: only tenant and subject keep them apart. */
function keyRecords({ agents, people }: Keys, pepper: string): KeyRecord[] {
  const record = (key: string, tenant: string, principal: string, role: Role, subject: string | null): KeyRecord => ({
    prefix: keyPrefix(key) as string, digest: keyDigest(pepper, key), tenant, principal, roles: [role], subject, purposes: role === 'agent' ? ['refund'] : [],
    tools: '*', grants: { assertSubject: false, ownKeys: role === 'agent' }, expiresAt: null, revokedAt: null,
  });
  return [
    ...customers.map(({ tenant, customer_id }, n) => record(agents[n as Customer], tenant, 'agent', 'agent', customer_id)),
    ...(['acme', 'globex'] as const).flatMap((tenant) => [
      record(people[tenant].application, tenant, 'application', 'application', null),
      ...people[tenant].reviewers.map((key, n) => record(key, tenant, `reviewer-${n + 1}`, 'reviewer', null)),
      record(people[tenant].auditor, tenant, 'auditor', 'auditor', null),
    ]),
  ];
}
