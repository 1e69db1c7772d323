/** A ledger with as many operations as make the planner think: rows of real calls, multiplied (bench/scale). */
import pg from 'pg';
import { multiply } from '../../bench/scale/multiply.mjs';
import { principals, seed } from '../../bench/scale/seed.mjs';
import { keyDigest, keyPrefix, mintKey } from '../../src/identity/api-keys.js';
import { createPool } from '../../src/ledger/connection.js';
import { openKeys } from '../../src/ledger/keys.js';
import { projectFile } from '../../src/project.js';
import { spawnBound } from '../../src/embedded/bound-process.js';
import { type House, openGateway, openHouse, pepper } from '../support/gateway.js';

/** Of the tenant `acme`, which has most of it. @returns the address of its database */
export async function fillLedger(operations: number): Promise<string> {
  const house = await openHouse();
  const service = await startBenchService();
  const keys = await saveKeys(house);
  const keyOf = (principal: string): string => keys.get(principal) as string;
  process.env['BENCH_UPSTREAM'] = service.url; // contracts in this process read its environment
  const desk = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: projectFile('bench', 'contracts'), CALLGATE_BUDGETS_EXECUTIONS_PER_PRINCIPAL_PER_DAY: '100000' });
  const shop = await openGateway(house);
  try {
    await seed({
      desk: { url: desk.gateway.agentUrl, keyOf },
      shop: {
        url: shop.gateway.agentUrl, controlUrl: shop.gateway.controlUrl, keyOf, applicationKey: house.keys.application,
        fault: (fault: { tool: string; kind: string }) => house.shop.fault(fault),
      },
    });
  } finally {
    await Promise.all([desk.gateway.close(), shop.gateway.close()]);
    await Promise.all([house.close(), service.stop()]);
  }
  await multiply(async () => {
    const client = new pg.Client({ connectionString: house.databaseUrl });
    await client.connect();
    return client;
  }, { operations });
  return house.databaseUrl;
}

async function saveKeys(house: House): Promise<Map<string, string>> {
  const keys = new Map([...principals.common, principals.uncommon, principals.rare].map((principal) => [principal, mintKey().key]));
  const pool = createPool({ url: house.databaseUrl, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
  for (const [principal, key] of keys) {
    await openKeys(pool).saveKey({
      prefix: keyPrefix(key) as string, digest: keyDigest(pepper, key), tenant: 'acme', principal, roles: ['agent'], subject: principals.common.includes(principal) ? 'C-1' : 'C-17', purposes: ['refund'], tools: '*',
      grants: { assertSubject: false, ownKeys: false }, expiresAt: null, revokedAt: null,
    });
  }
  await pool.end();
  return keys;
}

/** The service of bench/contracts, as a process. */
async function startBenchService(): Promise<{ url: string; stop(): Promise<void> }> {
  let listening = (_url: string): void => undefined;
  const url = new Promise<string>((resolve) => { listening = resolve; });
  const child = await spawnBound([process.execPath, projectFile('bench', 'upstream.mjs')], {
    farewell: 'KILL', env: { PATH: process.env['PATH'] },
    onLine(line) {
      const found = /listening on (\S+)/.exec(line)?.[1];
      if (found) listening(found);
    },
  });
  return {
    url: await url,
    async stop() {
      child.signal('SIGKILL');
      await child.ended;
    },
  };
}
