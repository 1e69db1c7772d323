import pg from 'pg';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { extraOrder } from '../recovery/many-orders.js';
import { until } from '../recovery/process.js';
import { quickEnv } from '../recovery/quick.js';
import { contractsOf, Scripted, type Setup, type Turn, writeTool } from '../recovery/table/service.js';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { startRedis } from '../support/servers.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('../recovery/many-orders.js')).manyOrders(await original()));

/**
 * Failures that people reported in public, as they were reported, where no other test has the whole of one. What is counted is what the service has in
 * its own books; each of these was money or a message twice, or a call that nobody could end.
 */
const route = 'POST /orders/{id}/credits';

describe('at the example service', () => {
  let house: House;
  let open: Opened;
  let next = 0;
  beforeAll(async () => {
    house = await openHouse(quickEnv());
    open = await openGateway(house);
  });
  afterAll(async () => {
    await open?.gateway.close();
    await house?.close();
  });
  const newOrder = async (): Promise<string> => {
    await house.shop.reset();
    return extraOrder(next++);
  };
  const creditsOf = async (order: string) => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  const requests = async (): Promise<number> => (await house.shop.books()).requests[route] ?? 0;

  it('case-01: no answer in time, and the agent plans again under a new id with the arguments in another order: the same operation, to be waited for, and one effect', async () => {
    const order = await newOrder();
    const session = unique('r1');
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 60_000 });
    await house.shop.fault({ tool: 'get_credit_receipt', kind: 'drop_before_commit', times: 40 }); // while nobody can see it
    const first = await open.agent.credit({ session_id: session, call_id: 'c-1', arguments: { order_id: order } }, { prefer: 'wait=0' });
    expect(first).toMatchObject({ http: 202, disposition: 'unknown', next_action: 'wait' });
    const replan = (call: string): Promise<Sent> => open.agent.post('/v1/calls',
      `{"tool":"issue_credit","session_id":"${session}","call_id":"${call}","arguments":{"currency":"GBP","amount":2500.0,"order_id":"${order}"}}`, { prefer: 'wait=0' });
    await until(async () => (await open.agent.get(`/v1/operations/${first.operation_id}`)).detail?.includes('read back') === true, 10_000);
    expect(await replan('c-2')).toMatchObject({ http: 202, disposition: 'unknown', operation_id: first.operation_id, duplicate_of: 'c-1', next_action: 'wait' });
    const known = await open.agent.settled(first.operation_id as string);
    expect(known).toMatchObject({ disposition: 'executed', verified: true });
    expect(await replan('c-3')).toMatchObject({ http: 200, disposition: 'replayed', operation_id: first.operation_id, duplicate_of: 'c-1', result: known.result });
    expect(await creditsOf(order)).toHaveLength(1);
    expect(await requests()).toBe(1);
  });

  it('case-11: a run that is resumed goes through its finished steps again, any number of times: each step is done once', async () => {
    const [invoice, send] = [await newOrder(), extraOrder(next++)];
    const run = unique('r11');
    const step = (turn: string, call: string, order: string): Promise<Sent> => open.agent.credit({ session_id: run, turn_id: turn, call_id: call, arguments: { order_id: order } });
    const created = await step('t-1', 'create', invoice);
    expect(created).toMatchObject({ disposition: 'executed' });
    let sentOnce: Sent | undefined;
    for (let resume = 1; resume <= 3; resume++) {
      // as the host re-runs its node, and as a model that is asked again words its call anew
      expect(await step('t-1', 'create', invoice)).toMatchObject({ http: 200, disposition: 'replayed', operation_id: created.operation_id, result: created.result });
      expect(await step(`t-1/${resume}`, unique('create'), invoice)).toMatchObject({ http: 200, disposition: 'replayed', operation_id: created.operation_id, duplicate_of: 'create' });
      const sent = await step('t-2', 'send', send);
      sentOnce ??= sent;
      expect(sent).toMatchObject({ disposition: resume === 1 ? 'executed' : 'replayed', operation_id: sentOnce.operation_id });
    }
    for (const order of [invoice, send]) expect(await creditsOf(order)).toHaveLength(1);
    expect(await requests()).toBe(2);
  });

  it('case-39: what is stored for an approved call is changed before it is sent: it does not open in its place, and nothing is sent', async () => {
    const [small, large] = [await newOrder(), extraOrder(next++)];
    const session = unique('s');
    const park = (order: string, amount: number): Promise<Sent> => open.agent.credit({ session_id: session, call_id: unique('c'), arguments: { order_id: order, amount } });
    const [asked, other] = [await park(small, 10_001), await park(large, 40_000)];
    expect(asked).toMatchObject({ disposition: 'approval_required', approval: { summary: `Credit 10001 GBP to ${small}` } });
    const database = new pg.Client({ connectionString: house.databaseUrl });
    await database.connect();
    try {
      // The request of the large one in the place of the small one, which a person has read.
      await database.query(`update operations o set sealed_request = l.sealed_request from operations l where o.operation_id = $1 and l.operation_id = $2`, [asked.operation_id, other.operation_id]);
    } finally {
      await database.end();
    }
    const desk = open.control(house.keys.application);
    const approve = (answer: Sent, digest = answer.approval?.digest): Promise<Sent> =>
      desk.post(`/v1/approvals/${answer.approval?.id}/decision`, JSON.stringify({ decision: 'approve', reason: 'read it', expected_digest: digest }));
    expect(await approve(asked, other.approval?.digest)).toMatchObject({ http: 409 });
    await approve(asked);
    expect(await approve(other)).toMatchObject({ http: 200 });
    await until(async () => (await open.agent.get(`/v1/operations/${other.operation_id}`)).disposition === 'executed', 15_000);
    expect(await creditsOf(large)).toMatchObject([{ amount: 40_000, key: other.operation_id }]);
    expect(await creditsOf(small)).toEqual([]);
    expect(await requests()).toBe(1);
    expect((await open.agent.get(`/v1/operations/${asked.operation_id}`)).disposition).not.toBe('executed');
  });

  it('case-58: receipts hang neither on a session nor on a process: the same key in a new session, after a restart on another node, is replayed', async () => {
    const order = await newOrder();
    const key = { 'idempotency-key': unique('k-58') };
    const before = await openGateway(house);
    const pay = (by: Opened, session: string): Promise<Sent> => by.agent.credit({ session_id: session, call_id: unique('c'), arguments: { order_id: order } }, key);
    const paid = await pay(before, 'old-session'); // its answer is lost to the client with the connection
    await before.gateway.close();
    for (const session of ['old-session', 'new-session']) expect(await pay(open, session)).toMatchObject({ http: 200, disposition: 'replayed', operation_id: paid.operation_id, result: paid.result });
    expect(await creditsOf(order)).toHaveLength(1);
  });
});

describe('case-18: the Redis lock ends before the work does', () => {
  it('flushed twice while a call takes longer than its lock lives, and an equal one waits on the other replica: no abort, no second dispatch, one effect', async () => {
    const redis = await startRedis();
    const house = await openHouse({ REDIS_URL: redis.url });
    const both = await Promise.all([openGateway(house), openGateway(house)]);
    const probe = new Redis(redis.url);
    try {
      await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 4_500 }); // a lock lives for 3 s
      const session = unique('s');
      const answers = Promise.all(both.map(({ agent }, n) => agent.credit({ session_id: session, call_id: `c-${n}` })));
      const others = Promise.all(both.map(({ agent }, n) => agent.credit({ session_id: session, call_id: `o-${n}`, arguments: { amount: 100 } })));
      await until(async () => ((await house.shop.books()).requests[route] ?? 0) === 1, 5_000);
      for (let n = 0; n < 2; n++) {
        await probe.flushall();
        await new Promise((resolve) => setTimeout(resolve, 1_500));
      }
      const [one, two] = (await answers) as [Sent, Sent];
      expect([one, two].map(({ disposition }) => disposition).sort()).toEqual(['executed', 'replayed']);
      expect(two).toMatchObject({ operation_id: one.operation_id, result: one.result });
      expect((await others).map(({ disposition }) => disposition).sort()).toEqual(['executed', 'replayed']);
      const { credits, requests } = await house.shop.books();
      expect(credits.map(({ amount }) => amount).sort()).toEqual([100, 2500]);
      expect(requests[route]).toBe(2);
    } finally {
      probe.disconnect();
      await Promise.all(both.map(({ gateway }) => gateway.close()));
      await redis.stop();
      await house.close();
    }
  });
});

describe('at a service that answers as it is told', () => {
  let service: Scripted;
  let house: House;
  let open: Opened;
  beforeAll(async () => {
    service = new Scripted();
    await service.listen();
    process.env['SCRIPTED_URL'] = service.url;
    house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: contractsOf(1), SCRIPTED_URL: service.url });
    open = await openGateway(house, {}, { upstream: (upstream) => service.around(upstream) });
  });
  afterAll(async () => {
    await open?.gateway.close();
    await house?.close();
    await service?.close();
  });

  const lost: Turn = { by: { wire: ({ socket }) => void socket?.resetAndDestroy() }, takesEffect: true };
  const dropped: Turn = { ...lost, takesEffect: false };
  const refusing = (status: number): Turn => ({ takesEffect: false, by: { wire: (response) => void response.writeHead(status, { 'content-type': 'application/json' }).end('{"code":"OTHER"}') } });
  const call = (cell: string, setup: Setup, headers: Record<string, string> = {}): Promise<Sent> =>
    open.agent.call({ session_id: cell, call_id: 'c-1', tool: writeTool(0, setup, false), arguments: { cell } }, headers);

  it.each([
    ['readback', [{ http: 200, disposition: 'executed' }, { http: 200, disposition: 'replayed' }]],
    ['neither', [{ http: 202, disposition: 'review' }, { http: 202, disposition: 'review' }]],
  ] as const)('case-02: at a service without keys (%s) the answer is lost, and the client library sends its identical request again: one request, one effect', async (setup, told) => {
    const cell = `case-02-${setup}`;
    service.script(cell, [lost], false);
    const key = { 'idempotency-key': unique('k-2') };
    for (const answer of told) expect(await call(cell, setup, key)).toMatchObject(answer);
    expect(service.books(cell)).toEqual({ sent: 1, effects: 1 });
  });

  it('case-04: never sent, sent and lost, and refused are three answers: failed with nothing sent, found or unknown until it is read back, rejected', async () => {
    service.script('refused', [1, 2, 3].map(() => ({ by: { unsent: 'refused' as const }, takesEffect: false })), false);
    expect(await call('refused', 'readback')).toMatchObject({ http: 502, disposition: 'failed', code: 'UPSTREAM_UNREACHABLE', next_action: 'retry', outcome: 'not_committed' });
    expect(service.books('refused')).toEqual({ sent: 0, effects: 0 });

    service.script('lost', [lost], false);
    expect(await call('lost', 'readback')).toMatchObject({ http: 200, disposition: 'executed', verified: true });
    expect(service.books('lost')).toEqual({ sent: 1, effects: 1 });
    service.script('dropped', [dropped], false);
    const early = await call('dropped', 'readback', { prefer: 'wait=0' }); // absence is proven only after the window
    expect(early).toMatchObject({ http: 202, disposition: 'unknown', next_action: 'wait' });
    expect(await open.agent.settled(early.operation_id as string)).toMatchObject({ http: 200, disposition: 'executed', verified: true });
    expect(service.books('dropped')).toEqual({ sent: 2, effects: 1 });

    service.script('rejected', [refusing(422)], false);
    expect(await call('rejected', 'readback')).toMatchObject({ http: 422, disposition: 'rejected', code: 'UPSTREAM_REJECTED', outcome: 'rejected' });
    expect(service.books('rejected')).toEqual({ sent: 1, effects: 0 });
  });

  it.each([412, 409])('case-55: a %d on the first attempt is the caller’s to refresh or to repair, and is never tried again; on the retry of a lost write it may be of our own write', async (status) => {
    service.script(`first-${status}`, [refusing(status)], false);
    expect(await call(`first-${status}`, 'both')).toMatchObject(status === 412 ? { http: 412, disposition: 'version_conflict', next_action: 'refresh' } : { http: 422, disposition: 'rejected' });
    expect(service.books(`first-${status}`)).toEqual({ sent: 1, effects: 0 });
    service.script(`later-${status}`, [lost, refusing(status)], false);
    expect(await call(`later-${status}`, 'key')).toMatchObject({ http: 200, disposition: 'executed', outcome: 'committed' });
    expect(service.books(`later-${status}`)).toEqual({ sent: 3, effects: 1 });
  });
});
