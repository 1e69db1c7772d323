import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type House, openHouse, type Sent, type Spawned, spawnGateway, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { type OwnPostgres, startOwnPostgres } from './own-postgres.js';
import { until } from './process.js';
import { quickContracts, quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * Others have taken every connection that Postgres gives (53300). If this is lost, a neighbour's leak on the same database makes refunds that no
 * record knows of, or a gateway that has to be restarted by hand when the neighbour is gone.
 */
describe('Postgres has no connection left', () => {
  let own: OwnPostgres;
  let house: House;
  let crowd: pg.Client[] = [];
  /** Of an answer of the service: the ledger has time to fail meanwhile. */
  const slowMs = 3_000;
  let n = 0;
  beforeAll(async () => {
    own = await startOwnPostgres({ max_connections: 20 });
    await own.admin.query(`create role neighbour login password 'neighbour'`);
    house = await openHouse(quickEnv({
      CALLGATE_CONTRACTS_FOLDER: quickContracts([['deadline: 700ms }', 'deadline: 8s }']]), CALLGATE_EXECUTION_LEASE: '60s', CALLGATE_EXECUTION_PATIENCE: '20s', CALLGATE_LOG_LEVEL: 'warn',
    }), () => own.database('crowded'));
  });
  afterAll(async () => {
    await leave();
    await house.close();
    await own.close();
  });

  /** Whoever comes next is told 53300. @returns how many places it took. */
  async function fill(): Promise<number> {
    const url = new URL(house.databaseUrl);
    Object.assign(url, { username: 'neighbour', password: 'neighbour' });
    for (let taken = 0; ; taken++) {
      const client = new pg.Client({ connectionString: url.href });
      client.on('error', () => undefined);
      try {
        await client.connect();
        crowd.push(client);
      } catch (error) {
        expect(error).toMatchObject({ code: '53300' });
        return taken;
      }
    }
  }

  /** The gateway's own connections go to the neighbours too, as in a restart of Postgres in which they are faster. */
  async function crowdOut(): Promise<void> {
    const ours = `from pg_stat_activity where application_name like 'callgate%'`;
    const none = async (): Promise<boolean> => (await own.admin.query(`select 1 ${ours}`)).rowCount === 0;
    await until(async () => {
      await fill();
      await own.admin.query(`select pg_terminate_backend(pid) ${ours}`);
      await fill();
      // A session that ends is out of sight a moment before its place is free.
      return (await none()) && (await fill()) === 0 && (await none());
    }, 20_000);
  }

  async function leave(): Promise<void> {
    await Promise.all(crowd.map((client) => client.end().catch(() => undefined)));
    crowd = [];
  }

  async function sql(text: string): Promise<unknown[]> {
    const client = new pg.Client({ connectionString: house.databaseUrl });
    await client.connect();
    const { rows } = await client.query(text);
    await client.end();
    return rows;
  }

  const requests = async (): Promise<Record<string, number>> => (await house.shop.books()).requests;
  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  const callOn = (order: string) => ({ session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order } });
  const ready = async (gateway: Spawned) => {
    const response = await fetch(`${gateway.controlUrl}/readyz`);
    return { http: response.status, ...((await response.json()) as { checks: { postgres: { state: string } } }) };
  };
  const mend = 'no connection left: raise `max_connections`';
  const toldNotReady = new RegExp(`${mend}.*"msg":"not ready"`);
  const toldAtStart = new RegExp(`${mend}.*"msg":"the ledger cannot be reached at the start`);

  async function refusedWithoutEffect(gateway: Spawned, call: ReturnType<typeof callOn>): Promise<void> {
    const before = await requests();
    const answer: Sent = await gateway.agent.credit(call);
    expect(answer).toMatchObject({ http: 503, disposition: 'unavailable', code: 'UNAVAILABLE', next_action: 'retry', evidence_of_change: false });
    expect(answer.header('retry-after')).toMatch(/^[1-9]\d*$/);
    expect(JSON.stringify(answer)).not.toContain('max_connections'); // it is the operator's, not the agent's
    expect(await requests()).toEqual(before);
  }

  /** By itself: nobody restarts anything. */
  async function healed(gateway: Spawned): Promise<void> {
    await until(async () => (await ready(gateway)).http === 200, 15_000);
    expect(gateway.process.exitCode).toBe(null);
  }

  it('before the dispatch: 503 and nothing sent, not ready and why, and once places are free the same process executes the same call', async () => {
    const gateway = await spawnGateway(house);
    try {
      expect(await gateway.agent.credit(callOn(extraOrder(n++)))).toMatchObject({ disposition: 'executed' });
      await crowdOut();
      const order = extraOrder(n++);
      const call = callOn(order);
      await refusedWithoutEffect(gateway, call);
      await until(async () => (await ready(gateway)).http === 503, 5_000);
      expect((await ready(gateway)).checks.postgres).toEqual({ state: 'down' });
      await until(() => toldNotReady.test(gateway.stdout()), 5_000);
      await leave();
      await healed(gateway);
      expect(await gateway.agent.credit(call)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await creditsOf(order)).toHaveLength(1);
    } finally {
      await leave();
      expect(await gateway.stop()).toBe(0);
    }
  }, 60_000);

  it('after the dispatch: unknown, and as soon as places are free the effect that was seen is on record', async () => {
    const gateway = await spawnGateway(house);
    try {
      const order = extraOrder(n++);
      const call = callOn(order);
      await gateway.agent.credit(callOn(extraOrder(n++)));
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: slowMs });
      const answering = gateway.agent.credit(call);
      await until(async () => (await creditsOf(order)).length === 1, 5_000);
      await crowdOut();
      const answer = await answering;
      expect(answer).toMatchObject({ http: 202, disposition: 'unknown', next_action: 'wait', outcome: 'unknown' });
      await leave();
      await healed(gateway);
      expect(await gateway.agent.settled(answer.operation_id as string, 20_000)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await gateway.agent.credit({ ...call, call_id: 'c-2' })).toMatchObject({ disposition: 'replayed', operation_id: answer.operation_id });
      expect(await creditsOf(order)).toHaveLength(1);
    } finally {
      await leave();
      expect(await gateway.stop()).toBe(0);
    }
  }, 60_000);

  it('at the start: it serves, is not ready, refuses before dispatch, and goes to work by itself', async () => {
    await sql('delete from catalogues');
    await fill();
    const gateway = await spawnGateway(house);
    try {
      expect(await ready(gateway)).toMatchObject({ http: 503, checks: { postgres: { state: 'down' } } });
      expect((await fetch(`${gateway.controlUrl}/healthz`)).status).toBe(200);
      const order = extraOrder(n++);
      const call = callOn(order);
      await refusedWithoutEffect(gateway, call);
      await until(() => toldAtStart.test(gateway.stdout()), 5_000);
      await until(() => toldNotReady.test(gateway.stdout()), 5_000);
      await leave();
      await healed(gateway);
      const executed = await gateway.agent.credit(call);
      expect(executed).toMatchObject({ disposition: 'executed', verified: true });
      expect(await creditsOf(order)).toHaveLength(1);
      // Recovery on another replica finds the contracts under which it began.
      expect(await sql(`select 1 as there from operations o join served_contracts s on s.id = o.served join catalogues c on c.digest = s.catalogue_digest where o.operation_id = '${executed.operation_id}'`)).toEqual([{ there: 1 }]);
    } finally {
      await leave();
      expect(await gateway.stop()).toBe(0);
    }
  }, 60_000);
});
