import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type House, openHouse, type Sent, type Spawned, spawnGateway, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { type OwnPostgres, startOwnPostgres } from './own-postgres.js';
import { until } from './process.js';
import { quickContracts, quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * The disk of the ledger is full (53100; case-50). If this is lost, refunds are given that no record knows of, or the gateway falls over and over until
 * somebody has both made space and started it again.
 *
 * The ledger's database lies on a file system of 40 MB, which needs the right to mount one. Without it the test fails: that it was not run must show.
 */
describe('the disk of the ledger is full', () => {
  const disk = mkdtempSync(join(tmpdir(), 'callgate-small-disk-'));
  let own: OwnPostgres;
  let house: House;
  let inside: pg.Client;
  /** Of an answer of the service: the ledger has time to fail meanwhile. */
  const slowMs = 3_000;
  let n = 0;
  beforeAll(async () => {
    own = await startOwnPostgres({ max_connections: 40, autovacuum: 'off' });
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=40m', 'tmpfs', disk]);
    if (mounted.status !== 0) throw new Error(`a file system of its own cannot be mounted here (${String(mounted.stderr).trim()}): run this test as root, in a container with CAP_SYS_ADMIN`);
    const { uid, gid } = statSync((await own.admin.query<{ dir: string }>(`select current_setting('data_directory') as dir`)).rows[0]?.dir as string);
    chownSync(disk, uid, gid);
    chmodSync(disk, 0o700);
    await own.admin.query(`create tablespace small location '${disk}'`);
    house = await openHouse(quickEnv({
      CALLGATE_CONTRACTS_FOLDER: quickContracts([['deadline: 700ms }', 'deadline: 8s }']]), CALLGATE_EXECUTION_LEASE: '60s', CALLGATE_EXECUTION_PATIENCE: '20s', CALLGATE_LOG_LEVEL: 'warn',
    }), () => own.database('cramped', 'tablespace small'));
    inside = new pg.Client({ connectionString: house.databaseUrl });
    await inside.connect();
  });
  afterAll(async () => {
    await inside?.end();
    await house?.close();
    await own?.close();
    spawnSync('umount', ['-l', disk]);
    rmSync(disk, { recursive: true, force: true });
  });

  const filler = join(disk, 'somebody-elses-file');
  /** The pages of the ledger that every call writes to are used up, to the last row and for good; then others write until nothing is left to add one. */
  async function fill(): Promise<void> {
    await fillPages();
    for (let size = 4 * 1024 * 1024; size >= 4096;) {
      try {
        writeFileSync(filler, Buffer.alloc(size), { flag: 'a' });
      } catch (error) {
        expect((error as { code?: string }).code).toBe('ENOSPC');
        size /= 2;
      }
    }
  }

  /**
   * A receipt is written with every decision and every outcome, and is larger than one of these rows. They are committed, since what is rolled back makes room
   * again, and are put there while there is space, since an index may want a page of its own for one.
   */
  async function fillPages(): Promise<void> {
    await inside.query('vacuum (truncate off) receipts'); // what is left on the page that a gateway writes to is else known to its connection alone
    const before = Number((await inside.query(`select pg_relation_size('receipts') / 8192 as pages`)).rows[0]?.pages);
    const rows = new Map<number, number>();
    const [added, last] = [before, before + 1];
    while (rows.get(last) === undefined || (rows.get(last) as number) < (rows.get(added) as number)) {
      const { rows: [put] } = await inside.query(`
        insert into receipts (tenant, id, kind, operation_id, session_id, intent_id, principal, tool, disposition, outcome, recorded_at, digest, body)
        values ('filler', 'f' || gen_random_uuid(), 'decision', null, 's', '', 'p', 't', 'denied', null, now(), ''::bytea, '{}')
        returning (ctid::text::point)[0]::integer as page`);
      rows.set(put.page, (rows.get(put.page) ?? 0) + 1);
      expect(put.page).toBeLessThanOrEqual(last);
    }
  }
  const free = (): void => rmSync(filler, { force: true });

  const requests = async (): Promise<Record<string, number>> => (await house.shop.books()).requests;
  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  const callOn = (order: string) => ({ session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order } });
  const ready = (gateway: Spawned): Promise<number> => fetch(`${gateway.controlUrl}/readyz`).then(({ status }) => status);
  const mend = /its disk is full: free or add space; then it goes on by itself/;

  async function play(work: (gateway: Spawned) => Promise<void>): Promise<void> {
    const gateway = await spawnGateway(house);
    try {
      expect(await gateway.agent.credit(callOn(extraOrder(n++)))).toMatchObject({ disposition: 'executed' });
      await work(gateway);
    } finally {
      free();
      expect(gateway.process.exitCode).toBe(null); // it is the one that was started
      expect(await gateway.stop()).toBe(0);
    }
  }

  it('before the dispatch: 503 and nothing sent, not ready and why, and with space the same process executes the same call', () => play(async (gateway) => {
    await fill();
    const calls = Array.from({ length: 5 }, () => callOn(extraOrder(n++)));
    const before = await requests();
    for (const call of calls) {
      const answer: Sent = await gateway.agent.credit(call);
      expect(answer).toMatchObject({ http: 503, disposition: 'unavailable', code: 'UNAVAILABLE', next_action: 'retry', evidence_of_change: false });
      expect(answer.header('retry-after')).toMatch(/^[1-9]\d*$/);
      expect(JSON.stringify(answer)).not.toContain('disk'); // it is the operator's, not the agent's
    }
    const writes = (of: Record<string, number>): [string, number][] => Object.entries(of).filter(([route]) => !route.startsWith('GET'));
    expect(writes(await requests())).toEqual(writes(before));
    await until(async () => (await ready(gateway)) === 503, 5_000);
    await until(() => new RegExp(`${mend.source}.*"msg":"the ledger could not be reached; nothing was sent"`).test(gateway.stdout()), 5_000);
    await until(() => new RegExp(`${mend.source}.*"msg":"not ready"`).test(gateway.stdout()), 5_000);
    free();
    await until(async () => (await ready(gateway)) === 200, 15_000);
    for (const call of calls) {
      expect(await gateway.agent.credit(call)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await creditsOf(call.arguments.order_id)).toHaveLength(1);
    }
  }), 60_000);

  it('after the dispatch: unknown, and with space every effect is on record, with its receipts, once', () => play(async (gateway) => {
    const calls = Array.from({ length: 4 }, () => callOn(extraOrder(n++)));
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', times: calls.length, ms: slowMs });
    const answering = calls.map((call) => gateway.agent.credit(call));
    await until(async () => (await Promise.all(calls.map(({ arguments: { order_id } }) => creditsOf(order_id)))).every(({ length }) => length === 1), 10_000);
    await fill();
    const answers = await Promise.all(answering);
    for (const answer of answers) expect(answer).toMatchObject({ http: 202, disposition: 'unknown', next_action: 'wait', outcome: 'unknown' });
    await until(() => new RegExp(`${mend.source}.*"msg":"the outcome of a sent call could not be recorded yet"`).test(gateway.stdout()), 5_000);
    free();
    for (const [i, { operation_id }] of answers.entries()) {
      expect(await gateway.agent.settled(operation_id as string, 20_000)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await gateway.agent.credit({ ...calls[i], call_id: 'c-2' })).toMatchObject({ disposition: 'replayed', operation_id });
      expect(await creditsOf(calls[i]?.arguments.order_id as string)).toHaveLength(1);
      const { rows } = await inside.query('select kind from receipts where operation_id = $1 order by id', [operation_id]);
      expect(rows.map(({ kind }) => kind)).toEqual(['decision', 'effect']);
    }
  }), 60_000);

  it('and the process is killed before there is space: another one finds the effect, once there is', async () => {
    const doomed = await spawnGateway(house, { CALLGATE_EXECUTION_LEASE: '1s' });
    const order = extraOrder(n++);
    const call = callOn(order);
    await doomed.agent.credit(callOn(extraOrder(n++)));
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: slowMs });
    const answering = doomed.agent.credit(call);
    await until(async () => (await creditsOf(order)).length === 1, 10_000);
    await fill();
    const { operation_id, ...answer } = await answering;
    expect(answer).toMatchObject({ http: 202, disposition: 'unknown' });
    await doomed.kill9();
    const next = await spawnGateway(house, { CALLGATE_EXECUTION_LEASE: '1s' });
    try {
      expect(await ready(next)).toBe(503);
      free();
      expect(await next.agent.settled(operation_id as string, 20_000)).toMatchObject({ disposition: 'executed', verified: true });
      expect(await creditsOf(order)).toHaveLength(1);
    } finally {
      free();
      expect(await next.stop()).toBe(0);
    }
  }, 60_000);
});
