import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addKey, readKeyRing } from '../../src/chain/keys.js';
import { eraseSubject } from '../../src/cli/receipts-erase.js';
import { loadConfig } from '../../src/config/index.js';
import { keyDigest, keyPrefix, type KeyRecord, mintKey } from '../../src/identity/api-keys.js';
import { grant } from '../../src/ledger/grant.js';
import { openKeys } from '../../src/ledger/keys.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { createSealer } from '../../src/ledger/seal.js';
import { retain } from '../../src/recovery/retention.js';
import { until } from '../recovery/process.js';
import { changedContracts } from '../recovery/quick.js';
import { type House, openGateway, openHouse, type Opened, pepper, type Sent } from '../support/gateway.js';
import { everyRow } from '../support/rows.js';
import { type Chains, openChains, receipt, ring, verifyLines } from './chains.js';

const hour = 3_600_000;
const set = JSON.stringify(addKey(null, 'k', new Date(0), 0));
let house: House;
let open: Opened;
let db: pg.Client;
let store: LedgerStore;
beforeAll(async () => {
  // everybody may, whoever the customer of the order is
  const contracts = changedContracts([['bind: { customer_id: principal.subject }', `bind: { customer_id: '"C-17"' }`]]);
  writeFileSync(join(contracts, 'policies', 'retail.cedar'), 'permit (principal, action, resource);\n');
  house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: contracts, CALLGATE_SECRETS_SIGNING_KEYS: set, CALLGATE_RECEIPTS_SEAL_INTERVAL: '50ms', CALLGATE_RECEIPTS_CHECKPOINT_INTERVAL: '100ms', CALLGATE_RETENTION_PAYLOADS: '1h', CALLGATE_RECONCILE_SWEEP_INTERVAL: '50ms' });
  const role = `callgate_eraser_${process.pid}`;
  db = new pg.Client({ connectionString: house.databaseUrl });
  await db.connect();
  await db.query(`create role ${role} login password 'x'`);
  await grant(house.databaseUrl, role);
  // with the rights that a gateway has in production
  const url = new URL(house.databaseUrl);
  url.username = role;
  url.password = 'x';
  house.env['DATABASE_URL'] = url.href;
  open = await openGateway(house);
  store = openLedger({ url: url.href, preparedStatements: true, statementTimeoutMs: 10_000, connectTimeoutMs: 5_000, poolSize: 1, maxBatch: 1, maxQueue: 1 }, createSealer('x'));
});
afterAll(async () => {
  await open.gateway.close();
  await store.close();
  await db.query(`drop owned by callgate_eraser_${process.pid}`);
  await db.query(`drop role callgate_eraser_${process.pid}`);
  await db.end();
  await house.close();
});

const bodies = async (operation: string): Promise<(string | null)[]> =>
  (await db.query<{ body: string | null }>(`select coalesce(body, packed::text) as body from receipts where operation_id = $1 order by id`, [operation])).rows.map(({ body }) => body);
const credit = (call: string, amount: number): Promise<Sent> => open.agent.call({ session_id: 's-1', call_id: call, tool: 'issue_credit', arguments: { order_id: 'O-417', amount, currency: 'GBP' } });
/** With no time to keep anything, again and again until the notice is sealed and carried out. */
const gone = (operation: string) => until(async () => {
  await retain(store.erasures, 0, () => false);
  return (await bodies(operation)).every((body) => body === null);
}, 15_000);
const sealedAll = () => until(async () => {
  const { rows: [row] } = await db.query(`select (select count(*) from receipts where tenant = 'acme') = (select max(sequence) from receipt_checkpoints where tenant = 'acme') as all`);
  return row?.all === true;
}, 15_000);

async function verified() {
  await sealedAll();
  const response = await fetch(`${open.gateway.controlUrl}/v1/receipts/export`, { headers: { authorization: `Bearer ${house.keys.auditor}` } });
  return verifyLines((await response.text()).trimEnd().split('\n'), [], readKeyRing(set));
}

/** What has to be forgotten must be gone, and what has to be proven must still be: that it happened, once, and how it ended. */
describe('retention', () => {
  it('takes what an ended operation said and answered, leaves its tombstone and every proof, and its identity for ever', async () => {
    const first = await credit('old', 110);
    const id = first.operation_id as string;
    const waiting = await credit('open', 120);
    await sealedAll();
    await db.query(`update operations set state = 'review' where operation_id = $1`, [waiting.operation_id]);
    expect(await bodies(id)).not.toContain(null);
    await gone(id);
    // Of what is in review nothing goes, however old.
    expect(await bodies(waiting.operation_id as string)).not.toContain(null);
    expect((await db.query('select sealed_answer, outcome, identity is not null as identity from operations where operation_id = $1', [id])).rows).toEqual([{ sealed_answer: null, outcome: 'committed', identity: true }]);
    expect(await credit('old', 110)).toMatchObject({ disposition: 'replayed', outcome: 'committed', code: 'RESULT_EXPIRED', result: null });
    expect((await house.shop.books()).credits.filter(({ amount }) => amount === 110)).toHaveLength(1);
    const shown = await open.control().get(`/v1/receipts/${first.receipts.decision}`);
    expect(shown).toMatchObject({ http: 200, erased: true, operation_id: id, tool: 'issue_credit', disposition: 'executed' });
    expect(JSON.stringify(shown)).not.toContain('O-417');
    expect(await verified()).toMatchObject({ erased: 2 });
    // It waited, and goes when it has ended.
    await db.query(`update operations set state = 'committed' where operation_id = $1`, [waiting.operation_id]);
    await gone(waiting.operation_id as string);
    expect(await verified()).toMatchObject({ erased: 4 });
  }, 90_000);

  it('keeps what is younger', async () => {
    const { operation_id } = await credit('young', 130);
    await sealedAll();
    await retain(store.erasures, hour, () => false);
    await sealedAll();
    await retain(store.erasures, hour, () => false);
    expect(await bodies(operation_id as string)).not.toContain(null);
  }, 30_000);
});

describe('erasure of a subject', () => {
  it('takes all that was said about one person, and nothing of another', async () => {
    const theirs = await credit('theirs', 140);
    const refused = await open.agent.call({ session_id: 's-1', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: -1, currency: 'GBP' } });
    const other = await open.as(house.keys.otherSubject).call({ session_id: 's-2', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 150, currency: 'GBP' } });
    await sealedAll();
    const loaded = loadConfig({ env: house.env });
    if ('problems' in loaded) throw new Error('bad configuration');
    expect(await eraseSubject(loaded.config, { tenant: 'acme', subject: 'C-17', by: 'dpo' })).toBe(0);
    expect(await bodies(theirs.operation_id as string)).toEqual([null, null]);
    const left = await db.query<{ id: string }>(`select id from receipts where tenant = 'acme' and (body is not null or packed is not null) and kind <> 'erasure'`);
    const ids = left.rows.map(({ id }) => id);
    expect(ids).not.toContain(refused.receipts.decision);
    expect(ids).toContain(other.receipts.decision);
    expect(await verified()).toMatchObject({ tenant: 'acme' });
    expect((await db.query(`select body from receipts where kind = 'erasure' and principal = 'dpo'`)).rows[0]?.body).not.toContain('C-17');
  }, 60_000);
});

/** What is left of a person is what proves, and nothing that says who it was. */
describe('what is left of an erased person', () => {
  const person = 'CANARY-person-51c9';
  it('holds the id nowhere, is told to whoever speaks for that person again, and to nobody else', async () => {
    const key = mintKey().key;
    const record: KeyRecord = {
      prefix: keyPrefix(key) as string, digest: keyDigest(pepper, key), tenant: 'acme', principal: 'agent-1', roles: ['agent'], subject: person, purposes: ['refund'],
      tools: '*', grants: { assertSubject: false, ownKeys: false }, expiresAt: null, revokedAt: null,
    };
    await openKeys(store.pool).saveKey(record);
    const theirs = open.as(key);
    const body = { session_id: 's-person', call_id: 'c-1', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 160, currency: 'GBP' } };
    await house.shop.reset();
    const done = await theirs.call(body);
    expect(done).toMatchObject({ disposition: 'executed' });
    await theirs.call({ ...body, call_id: 'c-2', arguments: { ...body.arguments, amount: -1 } });
    await theirs.call({ session_id: 's-person', tool: 'get_order', arguments: { order_id: 'O-417' } });
    await db.query(`insert into untrusted_sessions (tenant, principal, subject, session_id, tool) values ('acme', 'agent-1', $1, 's-person', 'get_order')`, [person]);
    // decided by a person, who wrote why
    const waits = await theirs.call({ ...body, call_id: 'c-3', arguments: { ...body.arguments, amount: 161 } });
    await db.query(
      `insert into reviews (tenant, id, operation_id, tool, reason, deadline, decision, decided_at, decided_by, decided_because)
         values ('acme', 'rev_person', $1, 'issue_credit', 'DEADLINE_PASSED', now(), 'committed', now(), 'reviewer-1', $2)`, [waits.operation_id, `${person} has called`]);
    await db.query(`update operations set review_id = 'rev_person' where operation_id = $1`, [waits.operation_id]);
    await sealedAll();
    expect(await everyRow(house.databaseUrl, ['api_keys'])).toContain(person);

    const loaded = loadConfig({ env: house.env });
    if ('problems' in loaded) throw new Error('bad configuration');
    expect(await eraseSubject(loaded.config, { tenant: 'acme', subject: person, by: 'dpo' })).toBe(0);
    // the key is a credential, and revoked as one
    expect(await everyRow(house.databaseUrl, ['api_keys'])).not.toContain(person);
    expect(await verified()).toMatchObject({ tenant: 'acme' });

    expect(await theirs.call(body)).toMatchObject({ disposition: 'replayed', outcome: 'committed', code: 'RESULT_EXPIRED', operation_id: done.operation_id });
    expect(await theirs.get(`/v1/operations/${done.operation_id}`)).toMatchObject({ http: 200, outcome: 'committed' });
    expect((await open.as(house.keys.otherSubject).get(`/v1/operations/${done.operation_id}`)).http).toBe(404);
    expect(await open.control().get(`/v1/operations/${done.operation_id}`)).toMatchObject({ subject: expect.stringMatching(/^erased:[\w-]{22}$/) as string });
    expect((await db.query(`select subject from untrusted_sessions where session_id = 's-person'`)).rows).toEqual([{ subject: '' }]);
  }, 60_000);
});

/** Erasing must not become the way to make evidence disappear. */
describe('an erasure that no notice names', () => {
  let chains: Chains;
  beforeAll(async () => { chains = await openChains(); });
  afterAll(() => chains.close());

  it('is found', async () => {
    const sealer = chains.sealer('one');
    await chains.write(Array.from({ length: 6 }, (_, n) => receipt('t', n)));
    await sealer.once();
    await chains.store.erasures.plan('t', 0);
    await sealer.once();
    await chains.store.erasures.carryOut();
    expect(await chains.verify('t')).toMatchObject({ receipts: 7, erased: 6 });
    await chains.write(Array.from({ length: 4 }, (_, n) => receipt('t', 10 + n)));
    await sealer.once();
    await chains.db.query(`update receipts set body = null where id = (select receipt_id from receipt_chain where tenant = 't' and sequence = 9)`);
    expect(await chains.verify('t')).toMatchObject({ sequence: 9, what: expect.stringContaining('no notice in the chain says so') });
    await chains.db.query(`update receipts set body = null where kind = 'erasure'`);
    expect(await chains.verify('t', [], ring)).toMatchObject({ sequence: 1, what: expect.stringContaining('no notice') });
  });

  it('cannot be made by a gateway’s role: only what a sealed notice says, nothing of an open operation, and no notice', async () => {
    const client = new pg.Client({ connectionString: house.env['DATABASE_URL'] as string });
    await client.connect();
    try {
      const { rows: [any] } = await db.query<{ id: string }>(`select id from receipts where tenant = 'acme' and body is not null and kind <> 'erasure' limit 1`);
      expect((await client.query(`select erase_contents('acme', $1) as n`, [any?.id])).rows).toEqual([{ n: 0 }]);
      await expect(client.query('update receipts set body = null')).rejects.toMatchObject({ code: '42501' });
    } finally {
      await client.end();
    }
  });
});
