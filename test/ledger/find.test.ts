import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type FindQuery, findStatement } from '../../src/ledger/find.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import { createSealer } from '../../src/ledger/seal.js';
import { projectFile } from '../../src/project.js';
import { intent, receipt, settlement } from '../recovery/intents.js';
import { freshDatabase } from '../support/servers.js';

let ledger: LedgerStore;

const of = { tenant: 'acme', principal: 'p', subject: '', sessionId: 's' };
const { callKey, fingerprint } = intent('done', []).alias as { callKey: Buffer; fingerprint: Buffer };
const plain: FindQuery = { tenant: 'acme', callKey: null, identity: null, seen: null, guardKeys: [] };
/** One look-up for each part of the statement that not all ask for, each with something to find. */
const asking: Record<string, FindQuery> = {
  nothing: plain,
  operation: { ...plain, callKey, identity: intent('done', []).operation.identity, guardKeys: ['k:done', 'k:held'], session: { id: 's', own: 'own:x', task: 's', purse: 'principal:p', tool: 't' } },
  seen: { ...plain, seen: { ...of, entity: 'order:1' } },
  kept: { ...plain, kept: [{ service: 'shop', entity: 'order:1' }, { service: 'shop', entity: 'order:2' }] },
  trust: { ...plain, trust: of },
  reading: { ...plain, readKey: Buffer.alloc(32, 7), session: { id: 's', own: 'own:x', task: 's', purse: 'principal:p', tool: 'look' } },
  before: { ...plain, readIdentity: intent('done', []).operation.identity },
};

beforeAll(async () => {
  const url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  ledger = openLedger(
    { url, preparedStatements: true, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000, poolSize: 2, maxBatch: 128, maxQueue: 1_000 }, createSealer('seal-for-tests-0123456789abcdefghijkl'),
  );
  await ledger.reserve(intent('done', ['k:done']));
  await ledger.transition(settlement('done', { told: [{ ...of, entity: 'order:1', version: '7', state: null }], moves: [{ service: 'shop', entity: 'order:1', from: 'NEW', to: 'PAID' }], mark: { ...of, tool: 't' } }));
  const held = intent('held', ['k:held']);
  await ledger.reserve({ ...held, operation: { ...held.operation, sessionId: 'another' } });
  const read = intent('look', []).operation;
  await ledger.record({
    receipts: [receipt(read.id)], repetition: { tenant: 'acme', key: Buffer.alloc(32, 7), since: 'op_done' },
    operation: {
      ...read, effect: 'none', tool: 'look', writeId: '00000000-0000-4000-8000-000000000001', state: 'committed', fence: 1, owner: null, attempt: 1, attempts: [], unknownAttempts: 0, effectSeen: false, verified: false,
      reason: null, outcome: 'committed', effectReceipt: null, reviewId: null, approval: null, answer: { result: null } as never, dossier: null, clock: {} as never,
    },
  });
});
afterAll(() => ledger.close());

/** What a look-up is told decides whether a call is sent. It must not depend on who happened to ask in the same moment. */
describe('a look-up', () => {
  it('is told what there is', async () => {
    expect(await ledger.find(asking['operation'] as FindQuery)).toMatchObject({ call: { operationId: 'op_done', fingerprint }, current: { id: 'op_done', state: 'committed' }, guarded: true, session: { executions: { limit: 1_000_000, used: 2 } } });
    expect(await ledger.find(asking['seen'] as FindQuery)).toMatchObject({ seenVersion: '7' });
    expect(await ledger.find(asking['kept'] as FindQuery)).toMatchObject({ kept: ['PAID', null] });
    expect(await ledger.find(asking['trust'] as FindQuery)).toMatchObject({ untrusted: true });
    expect(await ledger.find(asking['before'] as FindQuery)).toMatchObject({ readBefore: 'committed' });
    expect((await ledger.find(asking['reading'] as FindQuery)).reading).toMatchObject({ since: 'op_done', times: 1 });
    expect(await ledger.find(plain)).toEqual({ call: null, current: null, readBefore: null, seenVersion: null, untrusted: false, guardEpochs: [], guarded: false, kept: [], session: null, reading: null });
  });

  it('is told the same alone and beside every combination of others', async () => {
    const names = Object.keys(asking);
    const alone = new Map<string, unknown>();
    for (const name of names) alone.set(name, timeless(await ledger.find(asking[name] as FindQuery)));
    const prepared = new Set<string>();
    for (let mask = 1; mask < 2 ** names.length; mask++) {
      const beside = names.filter((_, n) => mask & (1 << n));
      prepared.add(findStatement(beside.map((name) => asking[name] as FindQuery)).variant as string);
      const together = await Promise.all(beside.map((name) => ledger.find(asking[name] as FindQuery)));
      expect(together.map((found, n) => [beside[n], timeless(found)])).toEqual(beside.map((name) => [name, alone.get(name)]));
    }
    expect(prepared.size).toBe(32);
  });
});

/** Ages are those of the moment. */
function timeless(found: unknown): unknown {
  return JSON.parse(JSON.stringify(found, (name, value: unknown) => (name === 'clock' ? undefined : value)));
}
