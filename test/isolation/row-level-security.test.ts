/** A statement that forgets whose rows it may read is one slip away from a leak. Behind the statements stands the database itself. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool } from '../../src/ledger/connection.js';
import { grant } from '../../src/ledger/grant.js';
import { inSnapshot } from '../../src/ledger/pages.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';

const role = `callgate_walled_${randomBytes(4).toString('hex')}`;
let house: House;
let owner: pg.Client;
let open: Opened;
let pool: pg.Pool;
beforeAll(async () => {
  house = await openHouse();
  owner = new pg.Client({ connectionString: house.databaseUrl });
  await owner.connect();
  await owner.query(`create role ${role} login password 'walled'`);
  await grant(house.databaseUrl, role);
  const url = new URL(house.databaseUrl);
  url.username = role;
  url.password = 'walled';
  open = await openGateway(house, { DATABASE_URL: url.href });
  pool = createPool({ url: url.href, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 2);
  for (const key of [house.keys.agent, house.keys.otherTenant]) {
    for (const arguments_ of [{ value: 1, from_unit: 'C', to_unit: 'F' }, { value: 'x' }]) {
      await open.as(key).call({ session_id: unique('s'), turn_id: 't', tool: 'convert_temperature', arguments: arguments_ });
    }
  }
  await open.agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-417', amount: 10 } });
});
afterAll(async () => {
  await open.gateway.close();
  await pool.end();
  await owner.query(`drop owned by ${role}`);
  await owner.query(`drop role ${role}`);
  await owner.end();
  await house.close();
});

const tables = async (): Promise<string[]> => (await owner.query<{ name: string }>(
  `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant' and not a.attisdropped
   where c.relkind in ('r', 'p') and c.relnamespace = current_schema()::regnamespace order by 1`)).rows.map(({ name }) => name);
const asked = (tenant: string | null, text: string): Promise<pg.QueryResult> => inSnapshot(pool, { tenant, timeoutMs: 5_000 }, (client) => client.query(text));

describe('a connection that says whose it is', () => {
  it('is shown nobody else’s rows in any table, also by a statement without a condition', async () => {
    const filled: string[] = [];
    for (const table of await tables()) {
      const { rows: everybodys } = await owner.query<{ tenant: string; n: number }>(`select tenant, count(*)::integer as n from "${table}" group by tenant order by tenant`);
      for (const tenant of ['acme', 'globex']) {
        const { rows } = await asked(tenant, `select tenant, count(*)::integer as n from "${table}" group by tenant`);
        expect([table, rows]).toEqual([table, everybodys.filter((one) => one.tenant === tenant)]);
      }
      expect((await asked('nobody', `select 1 from "${table}"`)).rows).toEqual([]);
      if (new Set(everybodys.map(({ tenant }) => tenant)).size > 1) filled.push(table);
    }
    expect(filled).toEqual(expect.arrayContaining(['api_keys', 'operations', 'receipts']));
  });

  it('writes no row of another', async () => {
    const client = await pool.connect();
    await client.query("begin; set local callgate.tenant = 'acme'");
    const insert = (tenant: string) => client.query(`insert into calls (tenant, call_key, fingerprint, operation_id) values ('${tenant}', '\\x01', '\\x02', 'op_x')`);
    await client.query('savepoint one');
    await expect(insert('globex')).rejects.toMatchObject({ code: '42501' });
    await client.query('rollback to one');
    expect((await insert('acme')).rowCount).toBe(1);
    expect((await client.query("update operations set reason = 'x' where tenant = 'globex'")).rowCount).toBe(0);
    expect((await client.query('delete from session_reads')).rowCount).toBeLessThanOrEqual(2);
    await client.query('rollback');
    client.release();
  });

  it('is said for its transaction alone: the next user of the connection sees what it says itself', async () => {
    const one = createPool({ url: (pool.options as { connectionString: string }).connectionString, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
    const seen = async (tenant: string | null) => (await inSnapshot(one, { tenant, timeoutMs: 5_000 }, (client) => client.query<{ tenant: string }>('select distinct tenant from receipts order by 1'))).rows.map((row) => row.tenant);
    expect(await seen('acme')).toEqual(['acme']);
    expect(await seen('globex')).toEqual(['globex']);
    expect(await seen(null)).toEqual(['acme', 'globex']);
    expect(await seen("a'cme; --")).toEqual([]);
    await one.end();
  });

  it('still reads lists along their indexes', async () => {
    const plan = JSON.stringify((await asked('acme', "explain (format json) select id, body from receipts where tenant = 'acme' order by id desc limit 51")).rows);
    expect(plan).toMatch(/Index Scan/);
    expect(plan).toMatch(/Index Cond":"\(tenant = 'acme'::text\)/);
  });
});

it('every table with a tenant has the wall, so that none that is added later lacks it', async () => {
  const { rows } = await owner.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_policy p on p.polrelid = c.oid and p.polname = 'tenant_wall' where c.relrowsecurity and c.relnamespace = current_schema()::regnamespace order by 1`);
  expect(rows.map(({ name }) => name)).toEqual(await tables());
});

it('a gateway under that role serves both tenants, and each its own records', async () => {
  const own = await open.control().get('/v1/receipts?limit=100') as unknown as { items: { tenant: string }[] };
  expect(own.items.length).toBeGreaterThan(2);
  expect(new Set(own.items.map(({ tenant }) => tenant))).toEqual(new Set(['acme']));
  expect(await open.as(house.keys.otherTenant).call({ session_id: unique('s'), tool: 'convert_temperature', arguments: { value: 2, from_unit: 'C', to_unit: 'F' } })).toMatchObject({ disposition: 'executed' });
});
