import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, readKeyRing } from '../../src/chain/keys.js';
import { openLedger } from '../../src/ledger/ledger.js';
import { createSealer } from '../../src/ledger/seal.js';
import { type House, openHouse, type Spawned, spawnGateway } from '../support/gateway.js';
import { until } from '../recovery/process.js';
import pg from 'pg';
import { receipt, verifyLines } from './chains.js';

const set = JSON.stringify(addKey(null, 'k-1', new Date(Date.now() - 3_600_000), 0));
let house: House;
let db: pg.Client;
beforeAll(async () => {
  house = await openHouse({
    CALLGATE_SECRETS_SIGNING_KEYS: set, CALLGATE_RECEIPTS_SEAL_INTERVAL: '50ms', CALLGATE_RECEIPTS_CHECKPOINT_INTERVAL: '100ms', CALLGATE_EXECUTION_LEASE: '1s', CALLGATE_EXECUTION_SEND_WINDOW: '500ms',
  });
  db = new pg.Client({ connectionString: house.databaseUrl });
  await db.connect();
});
afterAll(async () => {
  await db.end();
  await house.close();
});

const sealedBy = async (): Promise<number> => Number((await db.query<{ owner: string }>('select owner from receipt_sealer')).rows[0]?.owner.split('/')[1] ?? 0);
const count = async (table: string): Promise<number> => (await db.query<{ n: number }>(`select count(*)::integer as n from ${table} where tenant = 'acme'`)).rows[0]?.n ?? 0;

/** A replica dies in the middle of a batch, or sleeps through its lease. If its successor left a hole or began a second chain there, every later proof would fail. */
describe('sealers that are killed with -9 while they seal', () => {
  it('one chain, no gap, no fork, every receipt once', async () => {
    const store = openLedger({ url: house.databaseUrl, statementTimeoutMs: 10_000, connectTimeoutMs: 5_000, preparedStatements: true, poolSize: 2, maxBatch: 128, maxQueue: 4_096 }, createSealer('seal'));
    let written = 0;
    let stop = false;
    const writing = (async () => {
      while (!stop) {
        await store.record({ receipts: Array.from({ length: 5 }, () => receipt('acme', written++)) });
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();
    const replicas: Spawned[] = [await spawnGateway(house), await spawnGateway(house)];
    try {
      for (let kill = 0; kill < 3; kill++) {
        const before = await count('receipt_chain');
        await until(async () => await count('receipt_chain') > before && replicas.some(({ process }) => process.exitCode === null && process.signalCode === null), 20_000);
        const holder = await sealedBy();
        const victim = replicas.find(({ process }) => process.pid === holder);
        expect(victim).toBeDefined();
        // The second one sleeps through its lease and wakes in the middle of its successor's work.
        if (kill === 1) {
          process.kill(holder, 'SIGSTOP');
          await until(async () => await sealedBy() !== holder, 20_000);
          process.kill(holder, 'SIGCONT');
          continue;
        }
        await victim?.kill9();
        replicas.splice(replicas.indexOf(victim as Spawned), 1, await spawnGateway(house));
      }
      stop = true;
      await writing;
      await until(async () => await count('receipt_chain') === written, 30_000);
      const { rows: [ends] } = await db.query(`select min(sequence)::integer as first, max(sequence)::integer as last, count(distinct receipt_id)::integer as receipts from receipt_chain where tenant = 'acme'`);
      expect(ends).toEqual({ first: 1, last: written, receipts: written });
      await until(async () => (await db.query(`select max(sequence)::integer as n from receipt_checkpoints where tenant = 'acme'`)).rows[0]?.n === written, 20_000);
      const response = await fetch(`${replicas[0]?.controlUrl}/v1/receipts/export?format=ndjson`, { headers: { authorization: `Bearer ${house.keys.auditor}` } });
      expect(verifyLines((await response.text()).trimEnd().split('\n'), [], readKeyRing(set))).toMatchObject({ receipts: written, covered: { sequence: written } });
      for (const { stderr } of replicas) expect(stderr()).not.toContain('not whole');
    } finally {
      stop = true;
      await writing.catch(() => undefined);
      for (const replica of replicas) await replica.kill9().catch(() => undefined);
      await store.close();
    }
  }, 180_000);
});
