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
import { quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

const installed = spawnSync('pgbouncer', ['--version']).status === 0;
if (!installed && !process.env['CI']) console.warn('\n*** NO PGBOUNCER: the ledger behind a transaction pooler is NOT being tested (apt-get install pgbouncer). ***\n');

let house: House;
beforeAll(async () => { house = await openHouse(quickEnv({ CALLGATE_EXECUTION_LEASE: '5s', CALLGATE_EXECUTION_SEND_WINDOW: '2s' })); });
afterAll(() => house.close());

/** Every call twice at once, on two gateways, while a service loses answers: one effect each, told the same by both. */
async function twiceOver(both: readonly [Opened, Opened], from: number, calls: number, meanwhile: () => Promise<void> = () => Promise.resolve()): Promise<Sent[]> {
  const session = unique('s');
  const insist = async (open: Opened, n: number, id: string): Promise<Sent> => {
    for (const end = performance.now() + 60_000; ;) {
      const answer = await open.agent.call({ session_id: session, call_id: `${id}-${n}`, tool: 'issue_credit', arguments: { order_id: extraOrder(n % 120), amount: 700 + n, currency: 'GBP' } });
      // Both say that nothing was sent.
      if (answer.http >= 500) expect(answer.disposition).toMatch(/^(unavailable|failed)$/);
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
  return told;
}

async function together(env: Record<string, string>, play: (both: [Opened, Opened]) => Promise<void>): Promise<void> {
  const both: [Opened, Opened] = [await openGateway(house, env), await openGateway(house, env)];
  try {
    await play(both);
  } finally {
    await Promise.all(both.map(({ gateway }) => gateway.close()));
  }
}

/**
 * Many users reach Postgres through a transaction pooler, where a session is another one at every statement. If the gateway relied on one session, a
 * setting, a lock or a prepared statement would be somebody else's, and two replicas would both believe that they hold an order.
 */
describe.runIf(installed || process.env['CI'])('behind pgbouncer in transaction mode', () => {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-pgbouncer-'));
  let port: number;
  let pooler: BoundProcess;
  beforeAll(async () => {
    port = await freePort();
    pooler = await launch();
  });
  afterAll(async () => {
    pooler.signal('SIGKILL');
    await pooler.ended;
    rmSync(folder, { recursive: true, force: true });
  });

  async function launch(): Promise<BoundProcess> {
    const to = new URL(house.databaseUrl);
    const config = join(folder, 'pgbouncer.ini');
    writeFileSync(config, `[databases]
* = host=127.0.0.1 port=${to.port} user=${to.username} password=${decodeURIComponent(to.password)}
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

  const through = (): Record<string, string> => {
    const url = new URL(house.databaseUrl);
    url.port = String(port);
    return { DATABASE_URL: url.href, CALLGATE_DATABASE_PREPARED_STATEMENTS: 'false' };
  };

  it('two replicas over three server connections: every call has one effect and one answer', () =>
    together(through(), async (both) => {
      await twiceOver(both, 0, 30);
      expect((await fetch(`${both[0].gateway.controlUrl}/readyz`)).status).toBe(200);
    }), 120_000);

  it('also when pgbouncer is killed with -9 in the middle and started again', () =>
    together(through(), async (both) => {
      await twiceOver(both, 30, 30, async () => {
        await new Promise((resolve) => setTimeout(resolve, 200));
        pooler.signal('SIGKILL');
        await pooler.ended;
        pooler = await launch();
      });
    }), 120_000);
});

/** A database may be serializable by default. If 40001 were told to callers, they would be refused for what is nobody's fault and nothing but load. */
describe('a database whose transactions are serializable by default', () => {
  it('two replicas on the same orders: serialization failures are retried, and no caller hears of them', async () => {
    const name = new URL(house.databaseUrl).pathname.slice(1);
    const client = new pg.Client({ connectionString: house.databaseUrl });
    await client.connect();
    try {
      await client.query(`alter database ${name} set default_transaction_isolation = 'serializable'`);
      await together({}, async (both) => { await twiceOver(both, 60, 30); });
    } finally {
      await client.query(`alter database ${name} reset default_transaction_isolation`);
      await client.end();
    }
  }, 120_000);
});
