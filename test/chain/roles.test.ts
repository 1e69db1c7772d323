import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { grant } from '../../src/ledger/grant.js';
import { until } from '../recovery/process.js';
import { type House, openGateway, openHouse, type Opened } from '../support/gateway.js';

const role = `callgate_gateway_${randomBytes(4).toString('hex')}`;
let house: House;
let open: Opened;
let owner: pg.Client;
let gateway: pg.Client;
beforeAll(async () => {
  house = await openHouse({ CALLGATE_RECEIPTS_SEAL_INTERVAL: '50ms' });
  owner = new pg.Client({ connectionString: house.databaseUrl });
  await owner.connect();
  await owner.query(`create role ${role} login password 'gateway'`);
  await owner.query(`grant all on receipts to ${role}`); // as a hasty person did before
  await grant(house.databaseUrl, role);
  const url = new URL(house.databaseUrl);
  url.username = role;
  url.password = 'gateway';
  open = await openGateway(house, { DATABASE_URL: url.href });
  gateway = new pg.Client({ connectionString: url.href });
  await gateway.connect();
});
afterAll(async () => {
  await open.gateway.close();
  await gateway.end();
  await owner.query(`drop owned by ${role}`);
  await owner.query(`drop role ${role}`);
  await owner.end();
  await house.close();
});

/** Who takes over a gateway has its database. If that were enough to change what it wrote down before, there would be no evidence against him. */
describe('the database role of a gateway', () => {
  it('is enough for calls, recovery, the control plane and the sealer', async () => {
    const answer = await open.agent.credit({ arguments: { order_id: 'O-417', amount: 300 } });
    expect(answer).toMatchObject({ disposition: 'executed', outcome: 'committed' });
    await until(async () => (await owner.query('select 1 from receipt_chain')).rows.length >= 2, 10_000);
    expect((await open.control().get('/v1/receipts')).http).toBe(200);
    expect((await fetch(`${open.gateway.controlUrl}/readyz`)).status).toBe(200);
  });

  it.each(['receipts', 'receipt_chain', 'receipt_checkpoints'])('cannot change, delete or empty %s, nor hang anything on it', async (table) => {
    for (const statement of [
      `update ${table} set tenant = 'x'`, `delete from ${table}`, `truncate ${table}`, `alter table ${table} disable trigger all`, `drop table ${table}`,
      `create trigger t before insert on ${table} execute function suppress_redundant_updates_trigger()`, `create rule r as on insert to ${table} do instead nothing`,
      `alter table ${table} owner to current_user`, `grant update on ${table} to current_user`,
      `insert into ${table} select * from ${table} limit 1 on conflict (tenant, ${table === 'receipts' ? 'id' : 'sequence'}) do update set tenant = 'x'`,
    ]) {
      const refused = await gateway.query(statement).then(() => 'it was done', (error: { code: string }) => error.code);
      // `grant` without the right to grant is a warning and does nothing
      if (statement.startsWith('grant')) expect((await owner.query('select has_table_privilege($1, $2, $3) as may', [role, table, 'update'])).rows).toEqual([{ may: false }]);
      else expect([statement, refused]).toEqual([statement, '42501']);
    }
  });

  it('is not given to one that no grant binds, or that is not there', async () => {
    await expect(grant(house.databaseUrl, new URL(house.databaseUrl).username)).rejects.toThrow(/no grant binds it/);
    await expect(grant(house.databaseUrl, 'nobody_at_all')).rejects.toThrow(/no role/);
  });
});
