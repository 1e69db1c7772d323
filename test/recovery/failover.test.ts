import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Postgres, startPostgres } from '../../faults/postgres.js';
import { openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import { createSealer } from '../../src/ledger/seal.js';
import { projectFile } from '../../src/project.js';
import { type House, openGateway, openHouse, sealKey, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * case-67: Postgres fails over to its synchronous standby in the middle of the work. If the gateway kept its connections to the old primary, every write would
 * fail until somebody restarts it; if it trusted a commit that only the old primary has, a refund would be forgotten or given twice.
 */
describe('a failover to a synchronous standby with calls in flight', () => {
  const calls = 40;
  let house: House;
  beforeAll(async () => { house = await openHouse(quickEnv({ CALLGATE_EXECUTION_LEASE: '5s', CALLGATE_EXECUTION_SEND_WINDOW: '2s' })); });
  afterAll(() => house.close());

  it.each(['zombie', 'crash'] as const)('%s: every answer is 503 or honest, every call takes effect once, on the same process', async (how) => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-failover-'));
    const postgres = await startPostgres(folder, (url) => prepare(url, house.databaseUrl), true);
    const open = await openGateway(house, { DATABASE_URL: postgres.url });
    const answers: Sent[] = [];
    const session = unique('s');
    /** 503 says that nothing was sent, and to come again with the same ids; anything else is kept up with by the same call. */
    const insist = async (n: number): Promise<Sent> => {
      for (const end = performance.now() + 90_000; ;) {
        const answer = await open.agent.call({ session_id: session, call_id: `${how}-${n}`, tool: 'issue_credit', arguments: { order_id: extraOrder(n), amount: 500 + n, currency: 'GBP' } });
        answers.push(answer);
        if (answer.outcome === 'committed' && answer.next_action === 'continue') return answer;
        if (performance.now() > end) return answer;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    };
    try {
      const finals: Promise<Sent>[] = [];
      let failedOver: Promise<void> = Promise.resolve();
      for (let n = 0; n < calls; n++) {
        if (n % 4 === 0) await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 300 });
        finals.push(insist(n));
        if (n === calls / 2) failedOver = postgres.failOver(how);
        if (n % 5 === 4) await Promise.race([Promise.all(finals), new Promise((resolve) => setTimeout(resolve, 100))]);
      }
      await failedOver;
      const told = await Promise.all(finals);
      const { credits } = await house.shop.books();
      for (const [n, final] of told.entries()) {
        expect(final, JSON.stringify({ n, final, story: final.disposition === 'review' ? await open.control().get(`/v1/operations/${final.operation_id}`) : null })).toMatchObject({ outcome: 'committed', verified: true });
        const effects = credits.filter(({ order_id, amount }) => order_id === extraOrder(n) && amount === 500 + n);
        expect(effects).toMatchObject([{ key: final.operation_id, receipt_id: (final.result as { receipt_id: string }).receipt_id }]);
      }
      for (const { http, disposition } of answers) expect(http >= 500 ? disposition : 'unavailable', `${http} ${disposition}`).toBe('unavailable');
      expect((await postgres.query('select count(*)::int as n from operations where state = \'committed\'')).rows).toEqual([{ n: calls }]);
      expect((await postgres.query('select pg_is_in_recovery() as standby')).rows).toEqual([{ standby: false }]);
      expect((await fetch(`${open.gateway.controlUrl}/readyz`)).status).toBe(200);
    } finally {
      await open.gateway.close();
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
      await house.shop.reset();
    }
  }, 240_000);

  /** Its connections still answer, and its calls did not write yet: nothing has told it that what it reads is history. */
  it('a replica whose connections are left at the old primary decides nothing on what that one shows', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-left-behind-'));
    const postgres = await startPostgres(folder, (url) => prepare(url, house.databaseUrl), true);
    const [here, there] = [await openGateway(house, { DATABASE_URL: postgres.url }), await openGateway(house, { DATABASE_URL: postgres.url })];
    const call = { session_id: unique('s'), call_id: 'c-1', tool: 'cancel_order', arguments: { order_id: 'O-418' } };
    try {
      for (const { agent } of [here, there]) expect(await agent.call({ session_id: unique('s'), tool: 'get_order', arguments: { order_id: 'O-418' } })).toMatchObject({ disposition: 'executed' });
      await postgres.failOver('zombie');
      const insist = async ({ agent }: typeof here): Promise<Sent> => {
        for (const end = performance.now() + 30_000; ;) {
          const answer = await agent.call(call);
          if (answer.http !== 503 || performance.now() > end) return answer;
        }
      };
      const first = await insist(here);
      expect(first).toMatchObject({ disposition: 'executed', outcome: 'committed' });
      expect(await insist(there)).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    } finally {
      await Promise.all([here, there].map(({ gateway }) => gateway.close()));
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
      await house.shop.reset();
    }
  }, 120_000);

  /** The ledger of a replica that has not written since: its sweeper and sealer would find out for it within a second or so. */
  it('a caller who asks there after an operation that was made after the failover is told of it, and not that there is none', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-asks-'));
    const postgres = await startPostgres(folder, (url) => prepare(url, house.databaseUrl), true);
    const here = await openGateway(house, { DATABASE_URL: postgres.url });
    const there = openLedger(
      { url: postgres.url, preparedStatements: true, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000, poolSize: 2, maxBatch: 128, maxQueue: 4_096 }, createSealer(sealKey));
    const credit = (n: number): Promise<Sent> => here.agent.credit({ session_id: unique('s'), call_id: `asks-${n}`, arguments: { order_id: extraOrder(n), amount: 500 } });
    const own = (id: unknown) => there.own({ tenant: 'acme', id: id as string, principal: 'agent-1', subject: 'C-17' });
    let asking: NodeJS.Timeout | undefined;
    try {
      const { operation_id: before } = await credit(0);
      expect(await own(before)).toMatchObject({ id: before, state: 'committed' });
      asking = setInterval(() => void own(before).catch(() => undefined), 500); // or its connection would be closed for being idle
      await postgres.failOver('zombie');
      let made = await credit(1);
      for (const end = performance.now() + 30_000; made.http === 503 && performance.now() < end;) made = await credit(1);
      expect(made).toMatchObject({ outcome: 'committed' });
      expect(await own(made.operation_id)).toMatchObject({ id: made.operation_id, state: 'committed' });
      expect(await there.get('acme', made.operation_id as string)).toMatchObject({ id: made.operation_id });
    } finally {
      clearInterval(asking);
      await there.close();
      await here.gateway.close();
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
      await house.shop.reset();
    }
  }, 120_000);

  it('a person who decides there on an approval that was asked for after the failover is heard, and not told that there is none', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-decides-'));
    const postgres = await startPostgres(folder, (url) => prepare(url, house.databaseUrl), true);
    const open = await openGateway(house, { DATABASE_URL: postgres.url });
    const desk = open.control(house.keys.application);
    try {
      expect(await desk.get('/v1/approvals')).toMatchObject({ http: 200, items: [] });
      await postgres.failOver('zombie');
      const call = { session_id: unique('s'), call_id: 'c-1', arguments: { order_id: extraOrder(0), amount: 15_000 } };
      let asked = await open.agent.credit(call);
      for (const end = performance.now() + 30_000; asked.http === 503 && performance.now() < end;) asked = await open.agent.credit(call);
      expect(asked).toMatchObject({ disposition: 'approval_required' });
      const { id, digest } = asked.approval as { id: string; digest: string };
      expect(await desk.get('/v1/approvals')).toMatchObject({ http: 200, items: [{ id, state: 'pending' }] });
      expect(await desk.post(`/v1/approvals/${id}/decision`, JSON.stringify({ decision: 'reject', expected_digest: digest }))).toMatchObject({ http: 200, state: 'rejected' });
    } finally {
      await open.gateway.close();
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  }, 120_000);

  it('the standby has what was acknowledged, and takes no write before it is the primary', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-standby-'));
    let postgres: Postgres | undefined;
    try {
      postgres = await startPostgres(folder, (url) => prepare(url, house.databaseUrl), true);
      expect((await postgres.query('select sync_state from pg_stat_replication')).rows).toEqual([{ sync_state: 'sync' }]);
      await postgres.query('create table witness (n integer)');
      await postgres.query('insert into witness values (7)');
      await postgres.failOver('crash');
      expect((await postgres.query('select n from witness')).rows).toEqual([{ n: 7 }]);
    } finally {
      await postgres?.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  }, 120_000);
});

/** The schema, and the keys of the house. */
async function prepare(url: string, from: string): Promise<void> {
  await migrate(url, projectFile('migrations'));
  const [source, target] = await Promise.all([from, url].map(async (connectionString) => {
    const client = new pg.Client({ connectionString });
    await client.connect();
    return client;
  })) as [pg.Client, pg.Client];
  const { rows } = await source.query('select prefix, tenant, digest, principal, roles, subject, purposes, tools, grants from api_keys');
  for (const key of rows) {
    await target.query('insert into api_keys (prefix, tenant, digest, principal, roles, subject, purposes, tools, grants) values ($1,$2,$3,$4,$5,$6,$7,$8,$9)', Object.values(key as object));
  }
  await Promise.all([source.end(), target.end()]);
}
