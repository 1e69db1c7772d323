import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Sealer } from '../../src/chain/sealer.js';
import { sha256 } from '../../src/canonical.js';
import { openLedger } from '../../src/ledger/ledger.js';
import { migrate, packReceipts } from '../../src/ledger/migrate.js';
import { createSealer } from '../../src/ledger/seal.js';
import { projectFile } from '../../src/project.js';
import type { Receipt, ReceiptDictionary } from '../../src/gate/ports.js';
import { type Chains, openChains, receipt } from '../chain/chains.js';
import { freshDatabase } from '../support/servers.js';

let chains: Chains;
beforeAll(async () => {
  chains = await openChains();
});
afterAll(() => chains.close());

const dictionaryOf = (text: string): ReceiptDictionary => ({ digest: sha256(Buffer.from(text)), bytes: Buffer.from(text) });
const dictionary = dictionaryOf('{"arguments":{"amount":100,"order_id":"O-1"}}');
const stored = async (id: string): Promise<{ body: string | null; packed: Buffer | null; dictionary: number | null }> =>
  (await chains.db.query('select body, packed, dictionary from receipts where id = $1', [id])).rows[0];
let n = 0;
const next = (tenant: string, over: ReceiptDictionary | null = dictionary): Receipt => ({ ...receipt(tenant, n++), dictionary: over });
const write = async (one: Receipt): Promise<Receipt> => {
  await chains.write([one]);
  return one;
};
/** @returns one that is packed */
const packedOne = async (tenant: string, over = dictionary): Promise<Receipt> => {
  await write(next(tenant, over));
  const one = await write(next(tenant, over));
  expect((await stored(one.id)).packed).not.toBeNull();
  return one;
};

/** A receipt without its dictionary is lost, so none may be written before that is there, nor after it has gone. */
describe('the dictionary of a packed receipt', () => {
  it('is there before the first receipt that needs it, which is not the one that brings it', async () => {
    const first = await write(next('first'));
    expect(await stored(first.id)).toMatchObject({ packed: null, dictionary: null });
    expect((await chains.db.query('select digest, dictionary from receipt_dictionaries')).rows).toEqual([{ digest: dictionary.digest, dictionary: dictionary.bytes }]);
    const second = await write(next('first'));
    expect(await stored(second.id)).toMatchObject({ body: null, dictionary: expect.any(Number) });
    for (const one of [first, second]) expect(await chains.records.receipt('first', one.id)).toMatchObject({ id: one.id, operation_id: one.operationId, ...one.body });
  });

  it('is written again when the ledger has lost it, and nothing is written that could not be read', async () => {
    await packedOne('lost');
    await chains.db.query('delete from receipt_dictionaries');
    const after = await Promise.all([write(next('lost')), write(next('lost')), write(next('lost'))]);
    after.push(await write(next('lost')));
    for (const one of after) expect(await chains.records.receipt('lost', one.id)).toMatchObject({ id: one.id, ...one.body });
    expect((await stored((after.at(-1) as Receipt).id)).packed).not.toBeNull();
  });

  it('is one for all replicas that begin with it in the same moment', async () => {
    const fresh = dictionaryOf('{"arguments":{"amount":100,"order_id":"O-2"}}');
    const replicas = Array.from({ length: 4 }, () => openLedger(
      { url: chains.url, statementTimeoutMs: 10_000, connectTimeoutMs: 5_000, preparedStatements: true, poolSize: 1, maxBatch: 8, maxQueue: 64 }, createSealer('seal'),
    ));
    const all = Array.from({ length: 40 }, () => next('together', fresh));
    for (let at = 0; at < all.length; at += 8) await Promise.all(all.slice(at, at + 8).map((one, to) => (replicas[to % 4] as (typeof replicas)[number]).record({ receipts: [one] })));
    await Promise.all(replicas.map((replica) => replica.close()));
    expect((await chains.db.query('select 1 from receipt_dictionaries where digest = $1', [fresh.digest])).rowCount).toBe(1);
    expect((await chains.db.query(`select 1 from receipts where tenant = 'together' and packed is not null`)).rowCount).toBeGreaterThan(20);
    for (const one of all) expect(await chains.records.receipt('together', one.id)).toMatchObject(one.body);
  });

  it('is what its digest says, is not changed, and every packed row names one', async () => {
    const one = await packedOne('whole');
    await expect(chains.db.query(`insert into receipt_dictionaries (digest, dictionary) values ('\\x00', '\\x01')`)).rejects.toMatchObject({ code: '23514' });
    for (const wrong of ['dictionary = null', 'packed = null', `body = '{}'`]) await expect(chains.db.query(`update receipts set ${wrong} where id = $1`, [one.id])).rejects.toMatchObject({ constraint: 'receipts_whole' });
  });
});

describe('packed receipts among others', () => {
  let sealer: Sealer;
  beforeAll(() => {
    sealer = chains.sealer('one');
  });

  it('read, list, export and verify as what they say', async () => {
    const written = [await write(next('mixed', null)), await packedOne('mixed'), await write(next('mixed', dictionaryOf('another')))];
    await sealer.once();
    const { items } = await chains.records.receipts('mixed', { limit: 50 });
    const lines = (await chains.lines('mixed')).map((line) => JSON.parse(line) as { type: string; header: { id: string; digest: string }; body: string });
    for (const one of written) {
      expect(items.find(({ id }) => id === one.id)).toMatchObject(one.body);
      const line = lines.find(({ header }) => header?.id === one.id);
      expect(`sha256:${sha256(line?.body as string).toString('hex')}`).toBe(line?.header.digest);
    }
    expect(await chains.verify('mixed')).toMatchObject({ receipts: 4 });
  });

  it('are shown as unreadable where they were damaged, never as erased, and verification finds it', async () => {
    const one = await packedOne('damaged');
    await sealer.once();
    await chains.db.query(`update receipts set packed = set_byte(packed, length(packed) - 3, 255 - get_byte(packed, length(packed) - 3)) where id = $1`, [one.id]);
    const shown = await chains.records.receipt('damaged', one.id);
    expect(shown).not.toHaveProperty('erased');
    expect(await chains.verify('damaged')).toMatchObject({ what: expect.stringContaining('was edited') });
    await chains.db.query(`update receipts set packed = '\\x02' where id = $1`, [one.id]);
    expect(await chains.records.receipt('damaged', one.id)).toMatchObject({ id: one.id, unreadable: true });
  });
});

/** Replicas of the version before take what is packed for erased. */
describe('a database that has receipts already', () => {
  it('is written whole until the operator says that all replicas are new', async () => {
    const url = await freshDatabase(inject('databaseUrl'));
    const before = mkdtempSync(join(tmpdir(), 'callgate-migrations-'));
    for (const name of readdirSync(projectFile('migrations'))) if (name < '0020') cpSync(join(projectFile('migrations'), name), join(before, name));
    await migrate(url, before);
    rmSync(before, { recursive: true });
    const options = { url, statementTimeoutMs: 10_000, connectTimeoutMs: 5_000, preparedStatements: true, poolSize: 1, maxBatch: 8, maxQueue: 64 };
    const store = openLedger(options, createSealer('seal'));
    const packed = async (): Promise<number> => (await store.pool.query('select from receipts where packed is not null')).rowCount ?? 0;
    try {
      await store.pool.query(`insert into receipts (tenant, id, kind, session_id, intent_id, principal, tool, disposition, recorded_at, digest, body)
        values ('acme', 'rcp_0', 'decision', '', '', '', '', 'executed', now(), '\\x00', '{}')`);
      await migrate(url, projectFile('migrations'));
      for (let each = 0; each < 3; each++) await store.record({ receipts: [next('acme')] });
      expect(await packed()).toBe(0);
      expect(await packReceipts(url, false)).toBe(false);
      expect(await packReceipts(url, true)).toBe(true);
      const other = openLedger(options, createSealer('seal'));
      for (let each = 0; each < 2; each++) await other.record({ receipts: [next('acme')] });
      await other.close();
      expect(await packed()).toBe(1);
    } finally {
      await store.close();
    }
    const fresh = await freshDatabase(inject('databaseUrl'));
    await migrate(fresh, projectFile('migrations'));
    expect(await packReceipts(fresh, false)).toBe(true);
  });
});
