/** API keys at rest: by their public prefix, with a digest that opens nothing. */
import type pg from 'pg';
import type { KeyRecord, KeyStore } from '../identity/api-keys.js';
import { throughContention } from './connection.js';

type Row = {
  prefix: string; tenant: string; digest: Buffer; principal: string; roles: KeyRecord['roles']; subject: string | null; purposes: string[]; tools: string[];
  grants: Partial<KeyRecord['grants']>; expires_at: Date | null; revoked_at: Date | null;
};

/** A key as people see it. By database time. */
export type ListedKey = Omit<KeyRecord, 'digest'> & { readonly createdAt: Date; readonly state: 'active' | 'expired' | 'revoked' };

export interface KeyTable extends KeyStore {
  /** Writes a new key, or the same one again; a revoked key stays revoked. @throws Error when another key has its prefix. */
  saveKey(key: KeyRecord): Promise<void>;
  /** Newest first. @param tenant null: of all tenants */
  listKeys(tenant: string | null): Promise<ListedKey[]>;
  /**
   * A key with the rights of an active one, which ends with the overlap, if not before. The new one lives `lifeMs`, or as long as the old one
   * was made for. @returns until when the old one is valid; null where no active key has the prefix. @throws Error when another key has the new prefix
   */
  rotateKey(prefix: string, fresh: { prefix: string; digest: Buffer; lifeMs: number | null }, overlapMs: number): Promise<Date | null>;
  /** @returns false where there is no such key. One that is revoked stays as it was. */
  revokeKey(prefix: string): Promise<boolean>;
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
    async listKeys(tenant) {
      const { rows } = await pool.query<Row & { created_at: Date; state: ListedKey['state'] }>(
        `select prefix, tenant, digest, principal, roles, subject, purposes, tools, grants, created_at, expires_at, revoked_at,
           case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'active' end as state
         from api_keys where $1::text is null or tenant = $1::text order by created_at desc, prefix`, [tenant],
      );
      return rows.map((row) => {
        const { digest: _, ...record } = toRecord(row);
        return { ...record, createdAt: row.created_at, state: row.state };
      });
    },
    async rotateKey(prefix, fresh, overlapMs) {
      const { rows } = await pool.query<{ expires_at: Date }>(
        `with old as (
           update api_keys as k set expires_at = least(k.expires_at, now() + $5::float8 * interval '1 millisecond')
           from (select prefix, created_at, expires_at from api_keys where prefix = $1 for update) as was
           where k.prefix = was.prefix and k.revoked_at is null and (was.expires_at is null or was.expires_at > now())
           returning k.*, was.expires_at - was.created_at as life
         ), made as (
           insert into api_keys (prefix, tenant, digest, principal, roles, subject, purposes, tools, grants, expires_at)
           select $2::text, tenant, $3::bytea, principal, roles, subject, purposes, tools, grants, now() + coalesce($4::float8 * interval '1 millisecond', life)
           from old returning prefix
         )
         select old.expires_at from old, made`,
        [prefix, fresh.prefix, fresh.digest, fresh.lifeMs, overlapMs],
      );
      return rows[0]?.expires_at ?? null;
    },
    async revokeKey(prefix) {
      const { rowCount } = await pool.query('update api_keys set revoked_at = coalesce(revoked_at, now()) where prefix = $1', [prefix]);
      return rowCount === 1;
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
