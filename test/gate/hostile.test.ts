/**
 * What a hostile reader of the source found, each as a test that failed before its mend. Every one of these was a second effect, a
 * promise broken after the fact, or another customer's business told.
 */
import net from 'node:net';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Upstream } from '../../src/upstream/exchange.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { contractsChanged } from './guarded.js';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => { setTimeout(resolve, ms); });
const quick = { CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms', CALLGATE_RECONCILE_BACKOFF_FIRST: '100ms' };
let house: House;
let database: pg.Client;
const opened: Opened[] = [];
/** One each: what an earlier test left open would hold the order of a later one. */
beforeEach(async () => {
  house = await openHouse();
  database = new pg.Client({ connectionString: house.databaseUrl });
  await database.connect();
});
afterEach(async () => {
  for (const { gateway } of opened.splice(0)) await gateway.close();
  await database.end();
  await house.close();
});

async function open(env: Record<string, string> = {}, upstream?: (upstream: Upstream) => Upstream): Promise<Opened> {
  const one = await openGateway(house, env, upstream ? { upstream } : {});
  opened.push(one);
  return one;
}
const posts = async (): Promise<number> => (await house.shop.books()).requests['POST /orders/{id}/credits'] ?? 0;

describe('who may not see an order', () => {
  it('is not told that somebody else is at work on it: the answer is that for a missing one, at once, while a write runs and while its outcome is open', async () => {
    const { agent, as } = await open();
    const stranger = as(house.keys.otherSubject);
    const asked = async (order_id: string): Promise<string> => {
      const { http, code, disposition, retry_after_ms } = await stranger.credit({ session_id: 's', arguments: { order_id } }, { prefer: 'wait=1' });
      return JSON.stringify({ http, code, disposition, retry_after_ms });
    };
    const missing = await asked('O-999');
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 4_000 });
    const running = agent.credit({ session_id: unique('s') });
    await expect.poll(posts, { timeout: 5_000 }).toBe(1);
    expect(await asked('O-417')).toBe(missing);
    await running;
    await house.shop.fault({ tool: 'issue_credit', kind: 'drop_before_commit' });
    expect(await agent.credit({ session_id: unique('s'), arguments: { amount: 7 } }, { prefer: 'wait=1' })).toMatchObject({ disposition: 'unknown' });
    expect(await asked('O-417')).toBe(missing);
  });
});

describe('late evidence of a worker that lost its lease, after absence was proven', () => {
  it.each(['double_effect', 'accept_202'])('is never dropped, also where it is no clean success: %s goes to review, and the identity is not freed', async (kind) => {
    const contracts = contractsChanged((text) => text.replaceAll('settle_after: 10s', 'settle_after: 500ms').replace('deadline: 5s', 'deadline: 1s')
      .replace('retry: { attempts: 3, elapsed: 20s }', 'retry: { attempts: 1, elapsed: 20s }').replace('async: { accepted: status == 202, poll: readback, deadline: 1h }', ''));
    let letGo = (): void => undefined;
    const held = new Promise<void>((resolve) => { letGo = resolve; });
    const standingStill = (upstream: Upstream): Upstream => ({
      close: () => upstream.close(),
      async send(request, { sendBefore, ...options }) {
        if (request.method !== 'POST') return upstream.send(request, options);
        await held; // the process stood still between its check of the fence and the socket
        return upstream.send(request, options);
      },
    });
    const { agent } = await open({ ...quick, ...contracts, CALLGATE_EXECUTION_SEND_WINDOW: '500ms' }, standingStill);
    await house.shop.fault({ tool: 'issue_credit', kind, ms: 60_000 });
    const session_id = unique('s');
    const state = async (): Promise<{ state: string; reason: string }> =>
      (await database.query('select state, reason from operations where session_id = $1 order by generation desc limit 1', [session_id])).rows[0];
    const pending = agent.credit({ session_id, arguments: { order_id: 'O-420', amount: 55 } }, { prefer: 'wait=30' });
    while (!(await state())) await sleep(20); // the intent is durable
    await database.query('update operations set due_at = now() where session_id = $1', [session_id]);
    await expect.poll(async () => (await state()).state, { timeout: 5_000 }).toBe('rejected');
    letGo();
    await pending;
    expect(await state()).toEqual({ state: 'review', reason: 'CONTRADICTED' });
    const again = await agent.credit({ session_id, call_id: unique('c'), arguments: { order_id: 'O-420', amount: 55 } }, { prefer: 'wait=1' });
    expect(again).toMatchObject({ disposition: 'review', code: 'CONTRADICTED' });
    expect(await posts()).toBe(1);
  });
});

describe('an intent that waited in the database for longer than it may be sent', () => {
  it('does not become durable afterwards: the answer said that nothing was sent, and nothing is', async () => {
    const { agent } = await open({ ...quick, CALLGATE_EXECUTION_SEND_WINDOW: '500ms', CALLGATE_EXECUTION_LEASE: '2s' });
    const session_id = unique('s');
    await agent.credit({ session_id, arguments: { order_id: 'O-420', amount: 1001 } });
    const before = await posts();
    await database.query('begin');
    await database.query('select * from budgets for update');
    const pending = agent.credit({ session_id, arguments: { order_id: 'O-420', amount: 1002 } }, { prefer: 'wait=2' });
    await sleep(1500);
    await database.query('rollback');
    const answer = await pending;
    // it may be decided anew within the patience; then it is an intent of its own, sent in its own time
    const { rows } = await database.query<{ late: boolean }>(
      `select first_sent_at + interval '500 ms' < created_at as late from operations where session_id = $1`, [session_id]);
    expect(rows.every(({ late }) => !late)).toBe(true);
    expect(await posts()).toBe(before + (answer.disposition === 'executed' ? 1 : 0));
  });
});

describe('a guard key whose row was cleared away', () => {
  it('does not begin its count where it began before: an observation made before another write is not decided on', async () => {
    const contracts = contractsChanged((text) => text.replace(', If-Match: "{order.version}"', '').replace('check: args.amount <= order.refundable', 'check: args.amount <= order.refundable - 85500'));
    let hold: Promise<void> | undefined;
    const slow = (upstream: Upstream): Upstream => ({
      close: () => upstream.close(),
      async send(request, options) {
        const exchange = await upstream.send(request, options);
        if (request.method === 'GET') await hold;
        return exchange;
      },
    });
    const late = await open({ ...contracts }, slow);
    const other = await open({ ...contracts });
    const credit = (agent: Opened['agent'], amount: number) => agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420', amount } });
    await credit(other.agent, 1);
    let letGo = (): void => undefined;
    hold = new Promise<void>((resolve) => { letGo = resolve; });
    const looks = async (): Promise<number> => (await house.shop.books()).requests['GET /orders/{id}'] ?? 0;
    const before = await looks();
    const deciding = credit(late.agent, 4000);
    await expect.poll(looks, { timeout: 5_000 }).toBe(before + 1);
    await database.query(`delete from guards where operation_id is null`); // what recovery does to keys that are an hour old
    expect(await credit(other.agent, 4400)).toMatchObject({ disposition: 'executed' });
    hold = undefined;
    letGo();
    expect(await deciding).toMatchObject({ disposition: 'precondition_failed' });
    expect(await posts()).toBe(2);
  });
});

describe('identities', () => {
  it('two reads at once under one call id: the second is a conflict, and is not given the first’s data', async () => {
    const { agent } = await open();
    const session_id = unique('s');
    await house.shop.fault({ tool: 'get_order', kind: 'slow_reply', ms: 200, times: 2 });
    const read = (order_id: string) => agent.call({ session_id, call_id: 'c-1', tool: 'get_order', arguments: { order_id } });
    const answers = await Promise.all([read('O-417'), read('O-420')]);
    expect(answers.map(({ disposition }) => disposition).sort()).toEqual(['executed', 'id_conflict']);
  });

  it('two Idempotency-Key headers are refused, not joined into a third key', async () => {
    const { gateway } = await open();
    const { port } = new URL(gateway.agentUrl);
    const body = JSON.stringify({ session_id: 's', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 1, currency: 'GBP' } });
    const head = ['POST /v1/calls HTTP/1.1', 'host: x', 'connection: close', `authorization: Bearer ${house.keys.agent}`, 'content-type: application/json',
      'idempotency-key: k1', 'idempotency-key: k2', `content-length: ${body.length}`].join('\r\n');
    const text = await new Promise<string>((resolve) => {
      let received = '';
      const socket = net.connect(Number(port), '127.0.0.1').on('data', (chunk) => { received += chunk; }).on('close', () => resolve(received));
      socket.write(`${head}\r\n\r\n${body}`);
    });
    expect(text).toContain('400');
    expect(text).toContain('INVALID_ENVELOPE');
    expect(await posts()).toBe(0);
  });
});

describe('answers', () => {
  it('a 202 is accepted, also where the contract’s own word for it does not match', async () => {
    const contracts = contractsChanged((text) => text.replace('accepted: status == 202', 'accepted: status == 200 && body.state == "queued"'));
    const { agent } = await open({ ...contracts });
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 5000 });
    expect(await agent.credit({ session_id: unique('s') }, { prefer: 'wait=1' })).toMatchObject({ http: 202, disposition: 'pending', outcome: 'accepted' });
  });

  it('attempts are bounded as the contract says, also with an honoured key and no read-back', async () => {
    const contracts = contractsChanged((text) => {
      const from = text.indexOf('    readback:\n      tool: get_credit_receipt\n', text.indexOf('  issue_credit:'));
      const to = text.indexOf('    retry:', from);
      const once = text.slice(0, from) + text.slice(to);
      const begin = once.indexOf('    async:\n', from);
      return once.slice(0, begin) + once.slice(once.indexOf('    compensate:', begin));
    });
    const { agent } = await open({ ...quick, ...contracts });
    await house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_500', times: 100 });
    expect(await agent.credit({ session_id: unique('s') })).toMatchObject({ disposition: 'review', code: 'OUTCOME_UNPROVABLE' });
    expect(await posts()).toBe(3);
  });

  it('a purse that went away is made again: writes go on', async () => {
    const { agent } = await open();
    await agent.credit({ session_id: unique('s'), arguments: { amount: 3 } });
    await database.query('delete from budgets');
    expect(await agent.credit({ session_id: unique('s'), arguments: { amount: 4 } }, { prefer: 'wait=3' })).toMatchObject({ disposition: 'executed' });
  });

  it('an operation is told as its replay would be: not to a key whose list has not its tool', async () => {
    const { agent, as } = await open();
    const { operation_id } = await agent.credit({ session_id: unique('s'), arguments: { amount: 41 } });
    await database.query(`update api_keys set principal = 'agent-1', tools = '{convert_temperature}' where prefix = $1`, [house.keys.otherAgent.slice(0, 11)]);
    expect(await as(house.keys.otherAgent).get(`/v1/operations/${operation_id}`)).toMatchObject({ http: 404, code: 'OPERATION_NOT_FOUND', result: null });
    expect(await agent.get(`/v1/operations/${operation_id}`)).toMatchObject({ http: 200, disposition: 'executed' });
  });
});

describe('an annotated argument', () => {
  it('is secret wherever it turns up again: in states, transitions and read-backs as in the arguments', async () => {
    const contracts = contractsChanged((text) => text.replace('    async:\n      accepted: status == 202', '    redact: ["/args/order_id"]\n    async:\n      accepted: status == 202'));
    const { agent, control } = await open(contracts);
    const { receipts } = await agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420', amount: 9 } });
    for (const id of [receipts.decision, receipts.effect]) {
      const text = JSON.stringify(await control().get(`/v1/receipts/${id}`));
      expect(text).not.toContain('O-420');
      expect(text).toContain('«redacted:');
    }
  });
});
