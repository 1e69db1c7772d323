import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { startRedis, type TestRedis } from '../support/servers.js';
import { openTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';

interface Ready { http: number; status: string; checks: Record<string, { state: string }>; ms: number }

/** case-64: a replica that says it is healthy while its database is away is sent calls that it can only refuse. */
describe('readiness', () => {
  let house: House;
  let proxy: TcpProxy;
  let redis: TestRedis;
  let open: Opened;
  beforeAll(async () => {
    house = await openHouse();
    proxy = await openTcpProxy(house.databaseUrl);
    redis = await startRedis();
    open = await openGateway(house, { DATABASE_URL: proxy.url, REDIS_URL: redis.url, CALLGATE_LOG_LEVEL: 'silent' });
  });
  afterAll(async () => {
    proxy.cut(); // what was frozen would never say goodbye
    await open.gateway.close();
    await redis.stop();
    await proxy.close();
    await house.close();
  });

  async function probe(path = '/readyz'): Promise<Ready> {
    const began = performance.now();
    const response = await fetch(open.gateway.controlUrl + path);
    return { ...(await response.json() as Omit<Ready, 'http' | 'ms'>), http: response.status, ms: performance.now() - began };
  }
  async function becomes(http: number, state: Partial<Record<string, string>>): Promise<Ready> {
    const end = performance.now() + 10_000;
    for (;;) {
      const ready = await probe();
      const fits = ready.http === http && Object.entries(state).every(([name, is]) => ready.checks[name]?.state === is);
      if (fits || performance.now() > end) return ready;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  async function admin(statement: string): Promise<void> {
    const client = new pg.Client({ connectionString: house.databaseUrl, options: '-c default_transaction_read_only=off' });
    await client.connect();
    await client.query(statement);
    await client.end();
  }
  const terminate = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;

  /** While the ledger is away a call is refused with 503 in bounded time, and nothing is sent. */
  async function callIsRefused(boundMs: number): Promise<void> {
    const before = (await house.shop.books()).requests['POST /orders/{id}/credits'];
    const began = performance.now();
    const answer = await open.agent.credit({ session_id: unique('s'), call_id: 'c' });
    expect(answer).toMatchObject({ http: 503, disposition: 'unavailable', next_action: 'retry' });
    expect(answer.header('retry-after')).not.toBeNull();
    expect(performance.now() - began).toBeLessThan(boundMs);
    expect((await house.shop.books()).requests['POST /orders/{id}/credits']).toBe(before);
  }

  it('holds with everything there, and costs the database one connection however many ask', async () => {
    expect(await becomes(200, { postgres: 'up', redis: 'up' })).toMatchObject({ http: 200, status: 'ready' });
    const before = proxy.accepted();
    const answers = await Promise.all(Array.from({ length: 100 }, () => probe()));
    expect(answers.every(({ http }) => http === 200)).toBe(true);
    expect(proxy.accepted() - before).toBeLessThanOrEqual(3);
  });

  it('is lost while Postgres refuses, and comes back', async () => {
    proxy.refuse(true);
    proxy.cut();
    expect(await becomes(503, { postgres: 'down' })).toMatchObject({ http: 503, status: 'unready' });
    expect(await probe('/healthz')).toMatchObject({ http: 200 });
    await callIsRefused(3_000);
    proxy.refuse(false);
    expect(await becomes(200, { postgres: 'up' })).toMatchObject({ http: 200 });
    expect(await open.agent.credit({ session_id: unique('s'), arguments: { amount: 1 } })).toMatchObject({ disposition: 'executed' });
  });

  it('is lost, in bounded time, while Postgres accepts connections and says nothing, and no connection is left behind by it', async () => {
    const before = proxy.open();
    proxy.freeze(true);
    onTestFinished(() => proxy.freeze(false));
    const lost = await becomes(503, { postgres: 'down' });
    expect(lost).toMatchObject({ http: 503 });
    expect(lost.ms).toBeLessThan(2_500);
    const again = [await probe(), await probe()];
    for (const { http, ms } of again) {
      expect(http).toBe(503);
      expect(ms).toBeLessThan(2_500);
    }
    expect(proxy.open()).toBeLessThanOrEqual(before + 2);
    expect(await probe('/healthz')).toMatchObject({ http: 200 });
    await callIsRefused(10_000);
    proxy.freeze(false);
    expect(await becomes(200, { postgres: 'up' })).toMatchObject({ http: 200 });
    const answer = await open.agent.credit({ session_id: unique('s'), arguments: { amount: 1 } });
    expect((await open.agent.settled(answer.operation_id as string)).disposition).toBe('executed');
  }, 60_000);

  it('is lost while Postgres only reads, as a standby or a full one does', async () => {
    const name = new URL(house.databaseUrl).pathname.slice(1);
    await admin(`alter database ${name} set default_transaction_read_only = on`);
    await admin(terminate);
    expect(await becomes(503, { postgres: 'down' })).toMatchObject({ http: 503 });
    await callIsRefused(5_000);
    await admin(`alter database ${name} set default_transaction_read_only = off`);
    await admin(terminate);
    expect(await becomes(200, { postgres: 'up' })).toMatchObject({ http: 200 });
    expect(await open.agent.credit({ session_id: unique('s'), arguments: { amount: 1 } })).toMatchObject({ disposition: 'executed' });
  });

  it('is kept, as degraded, without Redis', async () => {
    process.kill(redis.pid, 'SIGSTOP');
    expect(await becomes(200, { redis: 'degraded' })).toMatchObject({ http: 200, status: 'ready', checks: { postgres: { state: 'up' }, redis: { state: 'degraded' } } });
    process.kill(redis.pid, 'SIGCONT');
    expect(await becomes(200, { redis: 'up' })).toMatchObject({ checks: { redis: { state: 'up' } } });
    process.kill(redis.pid, 'SIGKILL');
    expect(await becomes(200, { redis: 'degraded' })).toMatchObject({ http: 200, status: 'ready', checks: { redis: { state: 'degraded' } } });
    expect(await open.agent.credit({ session_id: unique('s'), arguments: { amount: 1 } })).toMatchObject({ disposition: 'executed' });
  });
});
