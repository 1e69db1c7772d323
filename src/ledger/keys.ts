/** API keys at rest: by their public prefix, with a digest that opens nothing. */
import type pg from 'pg';
import type { KeyRecord, KeyStore } from '../identity/api-keys.js';
import { throughContention } from './connection.js';

type Row = {
  prefix: string; tenant: string; digest: Buffer; principal: string; roles: KeyRecord['roles']; subject: string | null; purposes: string[]; tools: string[];
  grants: Partial<KeyRecord['grants']>; expires_at: Date | null; revoked_at: Date | null;
};

export interface KeyTable extends KeyStore {
  /** Writes a new key, or the same one again; a revoked key stays revoked. @throws Error when another key has its prefix. */
  saveKey(key: KeyRecord): Promise<void>;
}

export function openKeys(pool: pg.Pool): KeyTable {
  return {
    async findKey(prefix) {
      const { rows } = await throughContention(() => pool.query<Row>(
        `select prefix, tenant, digest, principal, roles, subject, purposes, tools, grants, expires_at, revoked_at from api_keys where prefix = $1`, [prefix],
      ));
      return rows[0] ? toRecord(rows[0]) : null;
    },
    async saveKey(key) {
      const { rowCount } = await pool.query(
        `insert into api_keys as k (prefix, tenant, digest, principal, roles, subject, purposes, tools, grants, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10)
         on conflict (prefix) do update set
           tenant = excluded.tenant, principal = excluded.principal, roles = excluded.roles, subject = excluded.subject,
           purposes = excluded.purposes, tools = excluded.tools, grants = excluded.grants, expires_at = excluded.expires_at
         where k.digest = excluded.digest`,
        [key.prefix, key.tenant, key.digest, key.principal, key.roles, key.subject, key.purposes, key.tools === '*' ? ['*'] : key.tools,
          JSON.stringify(key.grants), key.expiresAt],
      );
      // A prefix has 40 bits: with many keys two may meet, and the second must not take the place of the first.
      if (rowCount === 0) throw new Error(`another key has the prefix \`${key.prefix}\` already, or this one was stored under another pepper: make a new key`);
    },
  };
}

function toRecord(row: Row): KeyRecord {
  return {
    tenant: row.tenant, prefix: row.prefix, digest: row.digest, principal: row.principal, roles: row.roles, subject: row.subject, purposes: row.purposes,
    tools: row.tools.includes('*') ? '*' : row.tools,
    grants: { assertSubject: row.grants.assertSubject ?? false, ownKeys: row.grants.ownKeys ?? false },
    expiresAt: row.expires_at, revokedAt: row.revoked_at,
  };
}
