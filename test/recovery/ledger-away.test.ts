import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { freePort } from '../../src/embedded/free-port.js';
import { startEmbeddedPostgres } from '../../src/embedded/postgres.js';
import { LedgerUnavailable } from '../../src/errors.js';
import { migrate } from '../../src/ledger/migrate.js';
import { projectFile } from '../../src/project.js';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { until } from './process.js';
import { quickEnv } from './quick.js';
import { openTcpProxy, type TcpProxy } from './tcp-proxy.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * Losing Postgres refuses new work and loses none (invariant 8). If this is lost, a failover of the database sends refunds that no record
 * knows of, or forgets refunds that were given.
 */
let house: House;
let n = 0;
beforeAll(async () => { house = await openHouse(quickEnv({ CALLGATE_IDENTITY_KEY_CACHE: '60s' })); });
afterAll(() => house.close());

const route = 'POST /orders/{id}/credits';
const countOf = async (): Promise<number> => (await house.shop.books()).requests[route] ?? 0;
const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
const callOn = (order: string) => ({ session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order } });

async function sql(url: string, ...statements: string[]): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    let last: pg.QueryResult | undefined;
    for (const statement of statements) last = await client.query(statement);
    return last as pg.QueryResult;
  } finally {
    await client.end();
  }
}

/** A gateway whose way to Postgres goes through a proxy; warm, so that keys and connections are there. */
async function behindProxy(play: (open: Opened, proxy: TcpProxy, order: string) => Promise<void>, env: Record<string, string> = {}): Promise<void> {
  const proxy = await openTcpProxy(house.databaseUrl);
  const open = await openGateway(house, { DATABASE_URL: proxy.url, ...env });
  try {
    await open.agent.call({ session_id: unique('warm'), tool: 'convert_temperature', arguments: { value: 1, from_unit: 'C', to_unit: 'F' } });
    await play(open, proxy, extraOrder(n++));
  } finally {
    proxy.up();
    await open.gateway.close();
    await proxy.close();
  }
}

function refusedBefore(answer: Sent): void {
  expect(answer).toMatchObject({ http: 503, disposition: 'unavailable', code: 'UNAVAILABLE', next_action: 'retry', evidence_of_change: false });
  expect(answer.header('retry-after')).toMatch(/^[1-9]\d*$/);
}

describe('Postgres goes away', () => {
  it('before the dispatch: 503 with Retry-After, no request at the service; when it is back, the same call runs once', () =>
    behindProxy(async ({ agent }, proxy, order) => {
      const call = callOn(order);
      const before = (await house.shop.books()).requests;
      proxy.down();
      refusedBefore(await agent.credit(call));
      expect((await house.shop.books()).requests).toEqual(before);
      proxy.up();
      expect(await agent.credit(call)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await creditsOf(order)).toHaveLength(1);
    }));

  it('after the dispatch: 202 unknown, never an error; when it is back, the effect that this process saw is on record at once', () =>
    behindProxy(async ({ agent }, proxy, order) => {
      const call = callOn(order);
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 300 });
      const before = await countOf();
      const answering = agent.credit(call);
      await until(async () => (await countOf()) > before, 3_000);
      proxy.down();
      const answer = await answering;
      expect(answer).toMatchObject({ http: 202, disposition: 'unknown', next_action: 'wait', outcome: 'unknown' });
      proxy.up();
      expect(await agent.settled(answer.operation_id as string, 10_000)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await agent.credit({ ...call, call_id: 'c-2' })).toMatchObject({ disposition: 'replayed', operation_id: answer.operation_id });
      expect(await creditsOf(order)).toHaveLength(1);
      expect(await countOf() - before).toBe(1);
      // Long before the lease, at whose end recovery would have found it.
    }, { CALLGATE_EXECUTION_LEASE: '60s' }));

  it('with the acknowledgement of the intent: its own row is recognised by its write id and sent once', () =>
    behindProxy(async ({ agent }, proxy, order) => {
      const before = await countOf();
      const cut = proxy.cutAfter('reserve', 100);
      expect(await agent.credit(callOn(order))).toMatchObject({ disposition: 'executed', verified: true });
      await cut;
      expect(await countOf() - before).toBe(1);
      expect(await creditsOf(order)).toHaveLength(1);
    }));

  it('with the acknowledgement of the result: written once, with one effect receipt', () =>
    behindProxy(async ({ agent, control }, proxy, order) => {
      const cut = proxy.cutAfter('transition', 100);
      const answer = await agent.credit(callOn(order));
      await cut;
      expect(answer).toMatchObject({ disposition: 'executed', verified: true });
      const { receipts } = (await control().get(`/v1/operations/${answer.operation_id}`)) as unknown as { receipts: { kind: string }[] };
      expect(receipts.map(({ kind }) => kind)).toEqual(['decision', 'effect']);
      expect(await creditsOf(order)).toHaveLength(1);
    }));

  it('with the acknowledgement of the intent for good: 503, nothing sent, and the intent is taken back: its order is free and its budget whole', () =>
    behindProxy(async ({ agent, control }, proxy, order) => {
      const call = callOn(order);
      const before = await countOf();
      const usedBefore = await used();
      const cut = proxy.cutAfter('reserve', 100, true);
      const answering = agent.credit(call);
      await cut;
      refusedBefore(await answering);
      expect(await used()).toBe(usedBefore + 1);
      proxy.up();
      const list = async () => ((await control().get(`/v1/operations?session_id=${call.session_id}`)) as unknown as { items: { state: string; reason: string }[] }).items;
      await until(async () => (await list())[0]?.state === 'failed', 3_000);
      expect(await used()).toBe(usedBefore);
      expect(await countOf()).toBe(before);
      expect(await agent.credit(call)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await countOf() - before).toBe(1);
      // At the end of a lease it would be recovery's, which goes on with it.
    }, { CALLGATE_EXECUTION_LEASE: '60s' }));

  it('with the intent itself: 503, and the same call again is not taken back in its place while it is being sent', async () => {
    let lost = 0;
    const open = await openGateway(house, { CALLGATE_EXECUTION_LEASE: '60s' }, {
      ledger: (ledger) => ({ ...ledger, reserve: (intent) => (lost++ === 0 ? Promise.reject(new LedgerUnavailable(new Error('lost on the way'))) : ledger.reserve(intent)) }),
    });
    try {
      const order = extraOrder(n++);
      const call = callOn(order);
      const before = await countOf();
      refusedBefore(await open.agent.credit(call));
      // Longer than the pause between two attempts to take the first intent back.
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 600 });
      const answer = await open.agent.credit(call);
      expect(await open.agent.settled(answer.operation_id as string, 10_000)).toMatchObject({ disposition: 'executed', verified: true, outcome: 'committed' });
      expect(await open.agent.credit({ ...call, call_id: 'c-2' })).toMatchObject({ disposition: 'replayed', operation_id: answer.operation_id });
      expect(await countOf() - before).toBe(1);
      expect(await creditsOf(order)).toHaveLength(1);
    } finally {
      await open.gateway.close();
    }
  });

  const ledgerOf = async (session: string) => (await sql(house.databaseUrl, `select operation_id, generation, state, reason from operations where session_id = '${session}' order by generation`)).rows as
    { operation_id: string; generation: number; state: string; reason: string | null }[];
  const waitingIn = async ({ control }: Opened, session: string) => ((await control().get(`/v1/approvals?session_id=${session}`)) as unknown as { items: { id: string; digest: string; operation_id: string }[] }).items;
  const needsApproval = (order: string) => ({ session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order, amount: 15_000 } });

  it('with the acknowledgement of a call that waits for a person, for good: 503, and it is taken back, so that nobody approves what its caller was told was not recorded', () =>
    behindProxy(async (open, proxy, order) => {
      const call = needsApproval(order);
      const before = await countOf();
      const usedBefore = await used();
      const cut = proxy.cutAfter('reserve', 100, true);
      const answering = open.agent.credit(call);
      await cut;
      refusedBefore(await answering);
      expect(await ledgerOf(call.session_id)).toMatchObject([{ generation: 1, state: 'parked' }]);
      proxy.up();
      await until(async () => (await ledgerOf(call.session_id))[0]?.state === 'failed', 10_000);
      expect(await ledgerOf(call.session_id)).toMatchObject([{ reason: 'INTENT_NOT_ACKNOWLEDGED' }]);
      expect(await waitingIn(open, call.session_id)).toEqual([]);
      expect(await open.control().get(`/v1/approvals?state=ended&session_id=${call.session_id}`)).toMatchObject({ items: [{ state: 'cancelled' }] });
      expect(await used()).toBe(usedBefore);
      expect(await open.agent.credit(call)).toMatchObject({ http: 202, disposition: 'approval_required' });
      const [asked] = await waitingIn(open, call.session_id);
      expect(await ledgerOf(call.session_id)).toMatchObject([{ state: 'failed' }, { generation: 2, state: 'parked', operation_id: asked?.operation_id }]);
      expect(await countOf()).toBe(before);
    }));

  /** The first intent of a call that waits is written, and what was to say so fails, once. */
  const unheard = async (what: 'reserve' | 'get', play: (open: Opened, order: string, takingBack: Promise<boolean>) => Promise<void>): Promise<void> => {
    let lost = 0;
    let took: (moved: boolean) => void = () => undefined;
    const takingBack = new Promise<boolean>((resolve) => { took = resolve; });
    const lostOnTheWay = (): Promise<never> => Promise.reject(new LedgerUnavailable(new Error('lost on the way')));
    const open = await openGateway(house, {}, {
      ledger: (ledger) => ({
        ...ledger,
        async reserve(intent) {
          const reservation = await ledger.reserve(intent);
          return what === 'reserve' && lost++ === 0 ? lostOnTheWay() : reservation;
        },
        get: (tenant, id) => (what === 'get' && lost++ === 0 ? lostOnTheWay() : ledger.get(tenant, id)),
        async transition(transition) {
          const moved = await ledger.transition(transition);
          if (transition.reason === 'INTENT_NOT_ACKNOWLEDGED') took(moved);
          return moved;
        },
      }),
    });
    try {
      await play(open, extraOrder(n++), takingBack);
    } finally {
      await open.gateway.close();
    }
  };

  it('after a call was parked and before it could be read: 503, and it is taken back all the same', () =>
    unheard('get', async (open, order, takingBack) => {
      const call = needsApproval(order);
      refusedBefore(await open.agent.credit(call));
      expect(await takingBack).toBe(true);
      expect(await ledgerOf(call.session_id)).toMatchObject([{ state: 'failed', reason: 'INTENT_NOT_ACKNOWLEDGED' }]);
    }));

  it('with the acknowledgement of a call that waits for a person, proposed again before it is taken back: whoever was told of it keeps it, and approved it is sent once', () =>
    unheard('reserve', async (open, order, takingBack) => {
      const call = needsApproval(order);
      const before = await countOf();
      refusedBefore(await open.agent.credit(call));
      const told = await open.agent.credit(call);
      expect(told).toMatchObject({ http: 202, disposition: 'approval_required' });
      expect(await takingBack).toBe(false);
      const [asked] = await waitingIn(open, call.session_id);
      expect(asked?.operation_id).toBe(told.operation_id);
      const verdict = { decision: 'approve', expected_digest: asked?.digest };
      expect(await open.control(house.keys.application).post(`/v1/approvals/${asked?.id}/decision`, JSON.stringify(verdict))).toMatchObject({ http: 200 });
      await until(async () => (await creditsOf(order)).length === 1, 5_000);
      expect(await open.agent.settled(told.operation_id as string, 10_000)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await countOf() - before).toBe(1);
    }));

  const used = async (): Promise<number> => Number((await sql(house.databaseUrl, `select coalesce(sum(used), 0) as used from budgets where kind = 'executions'`)).rows[0].used);
});

describe('Postgres that cannot write (a failover left us on the old primary)', () => {
  it('25006 is 503 and nothing is sent; as soon as it can write again the same process goes on, recovery included', async () => {
    const open = await openGateway(house);
    const name = new URL(house.databaseUrl).pathname.slice(1);
    const renew = (value: string) => sql(house.databaseUrl, `alter database ${name} set default_transaction_read_only = ${value}`,
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and pid <> pg_backend_pid()`);
    try {
      const order = extraOrder(n++);
      await open.agent.credit({ ...callOn(order), arguments: { order_id: order, amount: 100 } });
      await house.shop.fault({ tool: 'issue_credit', kind: 'drop_before_commit' });
      const early = await open.agent.credit(callOn(order), { prefer: 'wait=0' });
      const before = (await house.shop.books()).requests[route] ?? 0;
      await renew('on');
      const refused = callOn(extraOrder(n++));
      refusedBefore(await open.agent.credit(refused));
      expect((await fetch(`${open.gateway.controlUrl}/readyz`)).status).toBe(503);
      expect(await countOf()).toBe(before);
      await sql(house.databaseUrl, 'set default_transaction_read_only = off', `alter database ${name} reset default_transaction_read_only`,
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and pid <> pg_backend_pid()`);
      expect(await open.agent.credit(refused)).toMatchObject({ disposition: 'executed' });
      expect(await open.agent.settled(early.operation_id as string, 15_000)).toMatchObject({ disposition: 'executed', verified: true });
    } finally {
      await open.gateway.close();
    }
  });
});

describe('Postgres is killed with -9', () => {
  it('after the dispatch: the intent survived, and the effect is found when it is started again', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'callgate-killed-'));
    const port = await freePort();
    const start = () => startEmbeddedPostgres({ dataDir: folder, port });
    let postgres = await start();
    await migrate(postgres.url, projectFile('migrations'));
    const { rows } = await sql(house.databaseUrl, 'select prefix, tenant, digest, principal, roles, subject, purposes, tools, grants from api_keys');
    for (const key of rows) {
      const client = new pg.Client({ connectionString: postgres.url });
      await client.connect();
      await client.query('insert into api_keys (prefix, tenant, digest, principal, roles, subject, purposes, tools, grants) values ($1,$2,$3,$4,$5,$6,$7,$8,$9)', Object.values(key as object));
      await client.end();
    }
    const open = await openGateway(house, { DATABASE_URL: postgres.url });
    try {
      const order = extraOrder(n++);
      await open.agent.credit({ ...callOn(order), arguments: { order_id: order, amount: 100 } });
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 300 });
      const before = await countOf();
      const call = callOn(order);
      const answering = open.agent.credit(call);
      await until(async () => (await countOf()) > before, 3_000);
      process.kill(postgres.pid, 'SIGKILL');
      const answer = await answering;
      expect(answer).toMatchObject({ http: 202, disposition: 'unknown', next_action: 'wait' });
      await postgres.stop();
      postgres = await start();
      expect(await open.agent.settled(answer.operation_id as string, 15_000)).toMatchObject({ disposition: 'executed', verified: true });
      expect((await creditsOf(order)).filter(({ amount }) => amount === 2500)).toHaveLength(1);
    } finally {
      await open.gateway.close();
      await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  }, 60_000);
});
