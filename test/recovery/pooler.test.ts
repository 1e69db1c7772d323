import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type BoundProcess, spawnBound } from '../../src/embedded/bound-process.js';
import { freePort } from '../../src/embedded/free-port.js';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { until } from './process.js';
import { quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

const installed = spawnSync('pgbouncer', ['--version']).status === 0;
if (!installed && !process.env['CI']) console.warn('\n*** NO PGBOUNCER: the ledger behind a transaction pooler is NOT being tested (apt-get install pgbouncer). ***\n');

let house: House;
beforeAll(async () => { house = await openHouse(quickEnv({ CALLGATE_EXECUTION_LEASE: '5s', CALLGATE_EXECUTION_SEND_WINDOW: '2s' })); });
afterAll(() => house.close());

/** Every call twice at once, on two gateways, while a service loses answers: one effect each, told the same by both. */
async function twiceOver(both: readonly [Opened, Opened], from: number, calls: number, meanwhile: () => Promise<void> = () => Promise.resolve()): Promise<{ unavailable: number }> {
  const session = unique('s');
  let unavailable = 0;
  const insist = async (open: Opened, n: number, id: string): Promise<Sent> => {
    for (const end = performance.now() + 60_000; ;) {
      const answer = await open.agent.call({ session_id: session, call_id: `${id}-${n}`, tool: 'issue_credit', arguments: { order_id: extraOrder(n % 120), amount: 700 + n, currency: 'GBP' } });
      // Both say that nothing was sent.
      if (answer.http >= 500) expect(answer.disposition).toMatch(/^(unavailable|failed)$/);
      if (answer.disposition === 'unavailable') unavailable++;
      if ((answer.outcome === 'committed' && answer.next_action === 'continue') || performance.now() > end) return answer;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  for (const kind of ['commit_then_drop', 'truncate_body', 'drop_before_commit', '503_not_started']) await house.shop.fault({ tool: 'issue_credit', kind });
  const disturbed = meanwhile();
  const told = await Promise.all(Array.from({ length: calls }, (_, i) => from + i).flatMap((n) => [insist(both[0], n, 'a'), insist(both[1], n, 'b')]));
  await disturbed;
  const { credits } = await house.shop.books();
  for (const [i, final] of told.entries()) {
    const n = from + Math.floor(i / 2);
    expect(credits.filter(({ order_id, amount }) => order_id === extraOrder(n % 120) && amount === 700 + n)).toMatchObject([{ receipt_id: (final.result as { receipt_id: string }).receipt_id }]);
    expect(final).toMatchObject({ outcome: 'committed', operation_id: told[i - (i % 2)]?.operation_id });
  }
  return { unavailable };
}

async function together(env: Record<string, string>, play: (both: [Opened, Opened]) => Promise<void>): Promise<void> {
  const both: [Opened, Opened] = [await openGateway(house, env), await openGateway(house, env)];
  try {
    await play(both);
  } finally {
    await Promise.all(both.map(({ gateway }) => gateway.close()));
  }
}

interface Pooler { env: Record<string, string>; kill(): Promise<void>; again(): Promise<void>; stop(): Promise<void> }

async function launchPooler(): Promise<Pooler> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-pgbouncer-'));
  const port = await freePort();
  const url = new URL(house.databaseUrl);
  const config = join(folder, 'pgbouncer.ini');
  writeFileSync(config, `[databases]
* = host=127.0.0.1 port=${url.port} user=${url.username} password=${decodeURIComponent(url.password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
server_check_delay = 0
`);
  chmodSync(folder, 0o755);
  let pooler = await startPooler(config);
  const kill = async (): Promise<void> => {
    pooler.signal('SIGKILL');
    await pooler.ended;
  };
  url.port = String(port);
  return {
    env: { DATABASE_URL: url.href, CALLGATE_DATABASE_PREPARED_STATEMENTS: 'false' },
    kill,
    async again() { pooler = await startPooler(config); },
    async stop() {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function startPooler(config: string): Promise<BoundProcess> {
  const lines: string[] = [];
  let ready = (): void => undefined;
  const isReady = new Promise<'ready'>((resolve) => { ready = () => resolve('ready'); });
  const started = await spawnBound(['pgbouncer', ...(process.getuid?.() === 0 ? ['-u', 'nobody'] : []), config], {
    farewell: 'KILL', env: { PATH: `${process.env['PATH']}:/usr/sbin` },
    onLine: (line) => {
      lines.push(line);
      if (/process up/.test(line)) ready();
    },
  });
  if (await Promise.race([isReady, started.ended]) !== 'ready') throw new Error(`pgbouncer did not start: ${lines.join('\n')}`);
  return started;
}

/**
 * Many users reach Postgres through a transaction pooler, where a session is another one at every statement. If the gateway relied on one session, a
 * setting, a lock or a prepared statement would be somebody else's, and two replicas would both believe that they hold an order.
 */
describe.runIf(installed || process.env['CI'])('behind pgbouncer in transaction mode', () => {
  let pooler: Pooler;
  beforeAll(async () => { pooler = await launchPooler(); });
  afterAll(() => pooler.stop());

  it('two replicas over three server connections: every call has one effect and one answer', () =>
    together(pooler.env, async (both) => {
      await twiceOver(both, 0, 30);
      expect((await fetch(`${both[0].gateway.controlUrl}/readyz`)).status).toBe(200);
      await sealed();
    }), 120_000);

  it('also when pgbouncer is killed with -9 in the middle and started again', () =>
    together(pooler.env, async (both) => {
      await twiceOver(both, 30, 30, async () => {
        await new Promise((resolve) => setTimeout(resolve, 200));
        await pooler.kill();
        await pooler.again();
      });
      await sealed();
    }), 120_000);

  /** One of them seals, over whatever connection it is given: every receipt once, in one chain without gaps. */
  async function sealed(): Promise<void> {
    const client = new pg.Client({ connectionString: house.databaseUrl });
    await client.connect();
    try {
      await until(async () => {
        const { rows: [row] } = await client.query(`select (select count(*) from receipts where tenant = 'acme') as written,
          (select count(*) from receipt_chain where tenant = 'acme') as linked, (select max(sequence) from receipt_chain where tenant = 'acme') as last`);
        return Number(row.written) > 0 && row.written === row.linked && row.linked === row.last;
      }, 20_000);
    } finally {
      await client.end();
    }
  }
});

/**
 * A database may be serializable by default. If 40001 were told to callers, they would be refused for what is nobody's fault and nothing but load; if
 * it were swallowed, what was rolled back would be taken for done. All calls here draw on one budget, so that what two replicas commit at
 * the same moment cannot both stand.
 */
describe('a database whose transactions are serializable by default', () => {
  const name = (): string => new URL(house.databaseUrl).pathname.slice(1);
  async function sql(text: string): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: house.databaseUrl });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  }
  beforeAll(() => sql(`alter database ${name()} set default_transaction_isolation = 'serializable'`));
  afterAll(() => sql(`alter database ${name()} reset default_transaction_isolation`));

  /** How often Postgres told these gateways 40001 or 40P01, and they tried again. */
  async function conflicts(both: readonly Opened[]): Promise<number> {
    const pages = await Promise.all(both.map(async ({ gateway }) => (await fetch(`${gateway.controlUrl}/metrics`)).text()));
    return pages.reduce((all, page) => all + Number(/^callgate_ledger_retries_total\{because="contention"\} (\d+)$/m.exec(page)?.[1] ?? 0), 0);
  }
  /** Somebody who writes on the same budgets, now and then, and changes nothing about them. */
  function bookkeeping(): () => Promise<void> {
    let working = true;
    const work = (async () => {
      const client = new pg.Client({ connectionString: house.databaseUrl });
      await client.connect();
      while (working) {
        await client.query('begin');
        // It loses as often as the others do.
        await client.query(`update budgets set quota = quota where kind = 'executions'`).then(() => client.query('select pg_sleep(0.01)')).then(() => client.query('commit')).catch(() => client.query('rollback'));
        await client.query('select pg_sleep(0.02)');
      }
      await client.end();
    })();
    return async () => {
      working = false;
      await work;
    };
  }
  const used = `select coalesce(sum(used), 0)::integer as n from budgets where kind = 'executions'`;
  const writes = `select count(*)::integer as n from operations where effect <> 'none' and state = 'committed'`;
  /** On a slow machine a first try may be given up unsent or be proven absent; what was sent is paid for, whatever became of it. */
  const sent = `select count(*)::integer as n from operations o where effect <> 'none' and (
    exists (select 1 from jsonb_array_elements(o.attempts) a where (a->>'sent')::boolean) or exists (select 1 from json_array_elements(o.attempts_brief::json) a where (a->>1)::boolean))`;
  const count = async (text: string): Promise<number> => Number((await sql(text))[0]?.['n']);

  async function played(env: Record<string, string>, from: number): Promise<void> {
    const [usedBefore, writtenBefore, sentBefore] = [await count(used), await count(writes), await count(sent)];
    await together(env, async (both) => {
      let seen = 0;
      let calls = 0;
      // Whether two commits of the replicas meet is chance, and whether one meets the bookkeeper nearly none: again until some have.
      for (let round = 0; round < 8 && seen < 5; round++) {
        const ended = bookkeeping();
        expect(await twiceOver(both, from + round * 30, 30)).toEqual({ unavailable: 0 });
        await ended();
        calls += 30;
        seen = await conflicts(both);
      }
      expect(seen).toBeGreaterThanOrEqual(5);
      expect(await count(writes) - writtenBefore).toBe(calls);
      expect(await count(used) - usedBefore).toBe(await count(sent) - sentBefore);
      expect(await count(used) - usedBefore).toBeGreaterThanOrEqual(calls);
      console.log(`${seen} serialization failures in ${calls} effects, none told`);
    });
  }

  it('two replicas on one budget: serialization failures happen, are tried again, and no caller hears of them; effects and budget add up', () => played({}, 1_000), 120_000);

  it.runIf(installed || process.env['CI'])('behind pgbouncer in transaction mode too', async () => {
    const pooler = await launchPooler();
    try {
      expect(await sql('show transaction_isolation')).toEqual([{ transaction_isolation: 'serializable' }]);
      await played(pooler.env, 2_000);
    } finally {
      await pooler.stop();
    }
  }, 120_000);
});
