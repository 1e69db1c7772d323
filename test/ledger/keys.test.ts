import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import { keyDigest, type KeyRecord, mintKey } from '../../src/identity/api-keys.js';
import { createPool } from '../../src/ledger/connection.js';
import { openKeys } from '../../src/ledger/keys.js';
import { migrate } from '../../src/ledger/migrate.js';
import { projectFile } from '../../src/project.js';
import { freshDatabase } from '../support/servers.js';

function record(change: Partial<KeyRecord> = {}): KeyRecord {
  const { key, prefix } = mintKey();
  return {
    prefix, digest: keyDigest('pepper', key), tenant: 'acme', principal: 'agent-1', roles: ['agent'], subject: 'C-17', purposes: ['refund'], tools: ['get_order'],
    grants: { assertSubject: true, ownKeys: false }, expiresAt: new Date(Date.now() + 60_000), revokedAt: null, ...change,
  };
}

/** A key that finds another's record opens another tenant. */
describe('the table of keys', () => {
  let pool: pg.Pool;
  beforeAll(async () => {
    const url = await freshDatabase(inject('databaseUrl'));
    await migrate(url, projectFile('migrations'));
    pool = createPool({ url, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000 }, 2);
  });
  afterAll(() => pool.end());

  it('gives back what was stored, and nothing for a prefix that is not there', async () => {
    const keys = openKeys(pool);
    for (const stored of [record(), record({ tools: '*', subject: null, purposes: [], expiresAt: null, roles: ['auditor', 'reviewer'] })]) {
      await keys.saveKey(stored);
      expect(await keys.findKey(stored.prefix)).toEqual(stored);
    }
    expect(await keys.findKey('cg_aaaaaaaa')).toBeNull();
  });

  it('takes the same key again with other rights, and does not revive a revoked one by that', async () => {
    const keys = openKeys(pool);
    const stored = record();
    await keys.saveKey(stored);
    await pool.query('update api_keys set revoked_at = now() where prefix = $1', [stored.prefix]);
    await keys.saveKey({ ...stored, purposes: ['refund', 'support'] });
    expect(await keys.findKey(stored.prefix)).toMatchObject({ purposes: ['refund', 'support'], revokedAt: expect.any(Date) });
  });

  it('never puts a key in the place of another one that has the same prefix by chance', async () => {
    const keys = openKeys(pool);
    const first = record();
    await keys.saveKey(first);
    await expect(keys.saveKey(record({ prefix: first.prefix, tenant: 'globex' }))).rejects.toThrow(/make a new key/);
    expect(await keys.findKey(first.prefix)).toEqual(first);
  });

  it('says that the ledger is away rather than that there is no such key', async () => {
    const nowhere = createPool({ url: 'postgres://nobody@127.0.0.1:1/none', preparedStatements: false, statementTimeoutMs: 500, connectTimeoutMs: 500 }, 1);
    await expect(openKeys(nowhere).findKey('cg_aaaaaaaa')).rejects.toBeInstanceOf(LedgerUnavailable);
    await nowhere.end();
  });
});
