import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import type { Intent } from '../../src/gate/ports.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import { createSealer } from '../../src/ledger/seal.js';
import { projectFile } from '../../src/project.js';
import { intent, receipt } from '../recovery/intents.js';
import { freshDatabase } from '../support/servers.js';

let ledger: LedgerStore;
const batch = 8;

beforeAll(async () => {
  const url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  ledger = openLedger(
    { url, preparedStatements: true, statementTimeoutMs: 10_000, connectTimeoutMs: 2_000, poolSize: 2, maxBatch: batch, maxQueue: 400 }, createSealer('seal-for-tests-0123456789abcdefghijkl'),
  );
  await ledger.reserve(intent('warm', ['k:warm']));
});
afterAll(() => ledger.close());

function of(tenant: string, name: string): Intent {
  const made = intent(name, [`k:${name}`]);
  return {
    ...made, operation: { ...made.operation, tenant }, receipt: { ...made.receipt, tenant }, budget: null,
    alias: made.alias && { ...made.alias, tenant },
  };
}

/** If this is lost, a tenant whose agents run wild stops the calls of all others for as long as it has calls in line. */
describe('a tenant that floods the ledger', () => {
  const inOrder = async (flood: (n: number) => Promise<unknown>, other: () => Promise<unknown>): Promise<number> => {
    let done = 0;
    const flooding = Array.from({ length: 160 }, (_, n) => flood(n).then(() => { done += 1; }));
    await other();
    const before = done;
    await Promise.all(flooding);
    return before;
  };

  it('is passed by the intent, the look-up and the record of another tenant', async () => {
    expect(await inOrder((n) => ledger.reserve(of('loud', `loud-${n}`)), () => ledger.reserve(of('quiet', 'quiet')))).toBeLessThanOrEqual(2 * batch);
    const query = (tenant: string) => ({ tenant, callKey: null, identity: null, seen: null, guardKeys: ['k:one'] });
    expect(await inOrder(() => ledger.find(query('loud')), () => ledger.find(query('quiet')))).toBeLessThanOrEqual(2 * batch);
    const refused = (tenant: string) => ({ receipts: [receipt(null, 'decision', { tenant, disposition: 'denied' })] });
    expect(await inOrder(() => ledger.record(refused('loud')), () => ledger.record(refused('quiet')))).toBeLessThanOrEqual(2 * batch);
  });

  it('fills the line for itself and for nobody else', async () => {
    const loud = Array.from({ length: 600 }, (_, n) => ledger.reserve(of('loud', `full-${n}`)).catch((error: unknown) => error));
    const quiet = await Promise.all(Array.from({ length: 20 }, (_, n) => ledger.reserve(of('quiet', `beside-${n}`))));
    expect(quiet).toEqual(quiet.map(() => ({ reserved: true })));
    const results = await Promise.all(loud);
    expect(results.filter((result) => result instanceof LedgerUnavailable).length).toBeGreaterThan(200);
    expect(results.filter((result) => (result as { reserved?: boolean }).reserved).length).toBeGreaterThan(300);
  });
});
