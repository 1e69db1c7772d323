import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Joints } from '../../src/main.js';
import { type House, openGateway, openHouse, type Opened, type Sent, spawnGateway, unique } from '../support/gateway.js';
import { created, deliver, otherSecret, refused, webhookSecret } from './callbacks.js';
import { until } from './process.js';
import { quickContracts, quickEnv } from './quick.js';

/**
 * What a service tells by itself is evidence like what it says when it is asked: it settles what it accepted, wakes who waits, and whatever
 * the order in which it comes, it never makes a second effect nor denies a first. If this is lost, an accepted call is in doubt until
 * somebody asks, or anybody who can reach the listener decides what has happened.
 */
const route = 'POST /orders/{id}/credits';
const everyRead: [string, string] = ['    verify: always\n', '    verify: on_ambiguity\n'];

interface Sight { blind: boolean; beforeAnswer?: (() => Promise<void>) | undefined; beforeIntent?: ((key: string) => Promise<void>) | undefined }

describe('callbacks', () => {
  let house: House;
  let open: Opened;
  const sight: Sight = { blind: false };
  const joints: Joints = {
    upstream: (upstream) => ({
      async send(request, options) {
        if (sight.blind && request.url.includes('/credits?')) return { kind: 'failure', sent: true, reason: 'reset', ms: 1 };
        const exchange = await upstream.send(request, options);
        if (request.method === 'POST') await sight.beforeAnswer?.();
        return exchange;
      },
      close: () => upstream.close(),
    }),
    ledger: (ledger) => ({ ...ledger, reserve: async (intent) => {
      await sight.beforeIntent?.(intent.operation.upstreamKey);
      return ledger.reserve(intent);
    } }),
  };
  const tell = (event: object | string, delivery = {}) => deliver(open.gateway.controlUrl, event, delivery);
  const credit = (change: object = {}): Promise<Sent> => open.agent.credit({ session_id: unique('s'), call_id: 'c-1', ...change });
  const keyOfOpen = async (): Promise<string> => {
    let key = '';
    await until(async () => {
      key = (await rows<{ upstream_key: string }>(house, `select upstream_key from operations where state = 'accepted'`))[0]?.upstream_key ?? '';
      return key !== '';
    }, 10_000);
    return key;
  };
  const weighed = async (id: string): Promise<string | null> => (await rows<{ weighed: string | null }>(house, `select weighed from callbacks where event_id = '${id}'`))[0]?.weighed ?? null;

  beforeAll(async () => {
    process.env['RETAIL_WEBHOOK_SECRET'] = webhookSecret;
    house = await openHouse(quickEnv({ RETAIL_WEBHOOK_SECRET: webhookSecret, CALLGATE_CONTRACTS_FOLDER: quickContracts([everyRead]) }));
    open = await openGateway(house, {}, joints);
  });
  beforeEach(() => house.shop.reset());
  afterEach(() => Object.assign(sight, { blind: false, beforeAnswer: undefined, beforeIntent: undefined }));
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
    delete process.env['RETAIL_WEBHOOK_SECRET'];
  });

  it('an accepted call is settled by what the service tells, and whoever waits for it is answered then', async () => {
    sight.blind = true;
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 50 });
    const waiting = credit();
    const key = await keyOfOpen();
    const told = performance.now();
    expect(await tell(created(key))).toMatchObject({ http: 200, status: 'kept' });
    const answer = await waiting;
    expect(answer).toMatchObject({ http: 200, disposition: 'executed', outcome: 'committed', verified: false, result: { receipt_id: 'CR-TOLD', amount: 2500 } });
    expect(performance.now() - told).toBeLessThan(2_000); // its patience is 3 s, and nothing but the event could have told it
    const { items } = (await open.control().get('/v1/receipts?limit=1')) as unknown as { items: { callback: { body: object } }[] };
    expect(items[0]?.callback.body).toEqual(created(key));
    expect((await house.shop.books()).requests[route]).toBe(1);
  });

  it('without callbacks it is polled until it shows, and answered later under the same operation', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 700 });
    const first = await credit();
    const settled = first.disposition === 'pending' ? await open.agent.settled(first.operation_id as string) : first;
    expect(settled).toMatchObject({ outcome: 'committed', verified: true, operation_id: first.operation_id });
    expect((await house.shop.books()).credits).toHaveLength(1);
  });

  it('one that comes before the 202 is recorded, or before the intent is there, counts when that is', async () => {
    sight.blind = true;
    let key = '';
    sight.beforeIntent = async (upstreamKey) => {
      key = upstreamKey;
      expect(await tell(created(key), { id: 'evt-early-intent' })).toMatchObject({ http: 200, status: 'kept' });
    };
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 20 });
    expect(await credit()).toMatchObject({ disposition: 'executed', result: { receipt_id: 'CR-TOLD' }, operation_id: key });
    await until(async () => (await weighed('evt-early-intent')) === 'agrees', 15_000);

    await house.shop.reset();
    sight.beforeIntent = async (upstreamKey) => {
      key = upstreamKey;
    };
    sight.beforeAnswer = async () => void expect(await tell(created(key), { id: 'evt-before-202' })).toMatchObject({ status: 'kept' });
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 20 });
    expect(await credit()).toMatchObject({ disposition: 'executed', result: { receipt_id: 'CR-TOLD' } });
  });

  it('the same event again is acknowledged and does nothing, also with another body under its id', async () => {
    sight.blind = true; // or it is settled before it is told of
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 3_600_000 });
    const waiting = credit();
    const key = await keyOfOpen();
    expect(await tell(created(key), { id: 'evt-twice' })).toMatchObject({ http: 200, status: 'kept' });
    expect(await tell(created(key), { id: 'evt-twice' })).toMatchObject({ http: 200, status: 'repeated' });
    expect(await tell(refused(key), { id: 'evt-twice' })).toMatchObject({ http: 200, status: 'repeated' });
    expect(await waiting).toMatchObject({ disposition: 'executed' });
    await until(async () => (await weighed('evt-twice')) === 'agrees', 15_000);
    expect(await tell(refused(key), { id: 'evt-twice' })).toMatchObject({ http: 200, status: 'repeated' });
    expect(await rows(house, `select 1 from callbacks where event_id = 'evt-twice'`)).toHaveLength(1);
    expect(await open.agent.get(`/v1/operations/${key}`)).toMatchObject({ disposition: 'executed' });
  });

  it('a refusal after the acceptance ends it with the code of the contract, and frees the identity', async () => {
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 3_600_000 });
    const session = unique('s');
    const waiting = credit({ session_id: session });
    const key = await keyOfOpen();
    await tell(refused(key));
    expect(await waiting).toMatchObject({ http: 422, disposition: 'rejected', code: 'CREDIT_REFUSED', next_action: 'escalate', outcome: 'rejected', operation_id: key });
    expect((await house.shop.books()).credits).toHaveLength(0);
    const again = await credit({ session_id: session, call_id: 'c-2' });
    expect(again).toMatchObject({ disposition: 'executed' });
    expect(again.operation_id).not.toBe(key);
  });

  it('out of order: what contradicts a settled outcome goes to a person with a correcting receipt, whichever came first', async () => {
    const done = await credit();
    expect(done).toMatchObject({ disposition: 'executed' });
    await tell(refused(done.operation_id as string), { id: 'evt-late-refusal' });
    await until(async () => (await open.agent.get(`/v1/operations/${done.operation_id}`)).disposition === 'review', 10_000);
    expect(await weighed('evt-late-refusal')).toBe('contradicts');
    expect(await lastReceipt(open, done.operation_id as string)).toMatchObject({ reason: 'CONTRADICTED', corrects: done.receipts.effect, outcome: 'committed' });

    await house.shop.reset();
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 3_600_000 });
    const waiting = credit();
    const key = await keyOfOpen();
    await tell(refused(key));
    const ended = await waiting;
    expect(ended).toMatchObject({ disposition: 'rejected' });
    await tell(created(key), { id: 'evt-late-effect' });
    await until(async () => (await open.agent.get(`/v1/operations/${key}`)).disposition === 'review', 10_000);
    expect(await lastReceipt(open, key)).toMatchObject({ reason: 'CONTRADICTED', corrects: ended.receipts.effect, outcome: 'committed' });
    // Nothing equal runs while a person has it, and further events are further evidence.
    expect(await open.agent.credit({ session_id: ended.call_id as string, call_id: 'other', intent_id: unique('i') })).toMatchObject({ disposition: 'executed' });
    await tell(created(key), { id: 'evt-once-more' });
    await until(async () => (await weighed('evt-once-more')) === 'agrees', 10_000);
  });

  it('what agrees with a settled outcome is noted and changes nothing', async () => {
    const done = await credit();
    await tell(created(done.operation_id as string, 2500, 'CR-ANOTHER'), { id: 'evt-agrees' });
    await tell({ type: 'credit.printed', data: { request_key: done.operation_id } }, { id: 'evt-progress' });
    await until(async () => (await weighed('evt-agrees')) === 'agrees' && (await weighed('evt-progress')) === 'says_nothing', 10_000);
    expect(await open.agent.get(`/v1/operations/${done.operation_id}`)).toMatchObject({ disposition: 'executed', result: done.result, receipts: done.receipts });
    const story = (await open.control().get(`/v1/operations/${done.operation_id}`)) as unknown as { callbacks: object[] };
    expect(story.callbacks).toMatchObject([{ event_id: 'evt-agrees', weighed: 'agrees' }, { event_id: 'evt-progress', weighed: 'says_nothing' }]);
  });

  it('another amount than was meant proves nothing', async () => {
    sight.blind = true;
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 3_600_000 });
    const waiting = credit();
    const key = await keyOfOpen();
    await tell(created(key, 9_900));
    expect(await waiting).toMatchObject({ disposition: 'pending', outcome: 'accepted' });
    await tell(refused(key));
    expect(await open.agent.settled(key)).toMatchObject({ disposition: 'rejected' });
  });

  it('an answer that was lost is settled by an event, and not sent again', async () => {
    sight.blind = true;
    await house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    const waiting = credit();
    let key = '';
    await until(async () => {
      key = (await house.shop.books()).credits[0]?.key ?? '';
      return key !== '';
    }, 10_000);
    await tell(created(key));
    expect(await waiting).toMatchObject({ disposition: 'executed', result: { receipt_id: 'CR-TOLD' } });
    expect((await house.shop.books()).requests[route]).toBe(1);
  });

  it('believes only the secret of that service, lately, over these very bytes; tells nobody which services there are', async () => {
    const key = (await credit()).operation_id as string;
    const before = await rows(house, 'select count(*) from callbacks');
    const event = refused(key);
    for (const [name, delivery] of Object.entries({
      'another secret': { secret: otherSecret }, 'too old': { at: Date.now() - 301_000 }, 'of the future': { at: Date.now() + 302_000 },
      'no id': { headers: { 'webhook-id': null } }, 'no time': { headers: { 'webhook-timestamp': null } }, 'no signature': { headers: { 'webhook-signature': null } },
      'another id': { headers: { 'webhook-id': 'evt-forged' } }, 'another time': { headers: { 'webhook-timestamp': String(Math.floor(Date.now() / 1000) + 30) } },
      'an unknown service': { service: 'nobody' }, 'a path': { service: 'retail%2f..' }, 'a key of the control plane': { secret: otherSecret, headers: { authorization: `Bearer ${house.keys.admin}` } },
    })) expect([name, await tell(event, delivery)]).toEqual([name, expect.objectContaining({ http: 401, code: 'CALLBACK_NOT_VERIFIED' })]);
    expect(await rows(house, 'select count(*) from callbacks')).toEqual(before);
    expect(await open.agent.get(`/v1/operations/${key}`)).toMatchObject({ disposition: 'executed' });
  });

  it('two secrets hold while one replaces the other', async () => {
    const key = (await credit()).operation_id as string;
    process.env['RETAIL_WEBHOOK_SECRET'] = otherSecret;
    process.env['RETAIL_WEBHOOK_SECRET_BEFORE'] = webhookSecret;
    expect(await tell(created(key), { secret: webhookSecret })).toMatchObject({ http: 200 });
    expect(await tell(created(key), { secret: otherSecret })).toMatchObject({ http: 200 });
    delete process.env['RETAIL_WEBHOOK_SECRET_BEFORE'];
    expect(await tell(created(key), { secret: webhookSecret })).toMatchObject({ http: 401 });
    process.env['RETAIL_WEBHOOK_SECRET'] = '';
    expect(await tell(created(key))).toMatchObject({ http: 503, code: 'CALLBACK_UNAVAILABLE', retryAfter: expect.stringMatching(/^\d+$/) as string });
    process.env['RETAIL_WEBHOOK_SECRET'] = webhookSecret;
  });

  it('secrets come from a mounted file or a command as well, rotate there without a restart, and the one before may be gone', async () => {
    const key = (await credit()).operation_id as string;
    const folder = mkdtempSync(join(tmpdir(), 'callgate-webhook-secrets-'));
    const put = (text: string): void => writeFileSync(join(folder, 'webhook'), `${text}\n`);
    put(webhookSecret);
    const from: [string, string] = ['secret_from: env:RETAIL_WEBHOOK_SECRET, previous_secret_from: env:RETAIL_WEBHOOK_SECRET_BEFORE', 'secret_from: file:webhook, previous_secret_from: command:webhook-before'];
    const other = await openGateway(house, {
      CALLGATE_CONTRACTS_FOLDER: quickContracts([everyRead, from]), CALLGATE_UPSTREAM_SECRETS_FOLDER: folder, CALLGATE_UPSTREAM_COMMANDS_FOLDER: folder,
    });
    const there = async (secret: string): Promise<number> => (await deliver(other.gateway.controlUrl, created(key), { secret })).http;
    try {
      expect([await there(webhookSecret), await there(otherSecret)]).toEqual([200, 401]); // there is no such command
      put(otherSecret);
      expect([await there(webhookSecret), await there(otherSecret)]).toEqual([401, 200]);
      writeFileSync(join(folder, 'webhook-before'), `#!/bin/sh\necho ${webhookSecret}\n`, { mode: 0o755 });
      await expect.poll(() => there(webhookSecret), { timeout: 5_000 }).toBe(200); // one that fails is run once a second
      expect(await there(otherSecret)).toBe(200);
      put('whsec_short');
      expect(await there(otherSecret)).toBe(503);
      rmSync(join(folder, 'webhook'));
      expect(await there(otherSecret)).toBe(503);
    } finally {
      await other.gateway.close();
      rmSync(folder, { recursive: true });
    }
  });

  it('bodies are bounded and read strictly, whoever signed them; what is about nothing of ours is not kept', async () => {
    const before = await rows(house, 'select count(*) from callbacks');
    expect(await tell('{"type":')).toMatchObject({ http: 400, code: 'MALFORMED_JSON' });
    expect(await tell('{"type":1,"type":2}')).toMatchObject({ http: 400, code: 'DUPLICATE_KEY' });
    expect(await tell(`${'['.repeat(100)}${']'.repeat(100)}`)).toMatchObject({ http: 400, code: 'TOO_DEEP' });
    expect(await tell(JSON.stringify({ pad: 'x'.repeat(300_000) }))).toMatchObject({ http: 413, code: 'BODY_TOO_LARGE' });
    for (const data of [{}, { request_key: 7 }, { request_key: 'order-7' }, { request_key: `op_${'a'.repeat(32)}'; drop table callbacks; --` }, null]) {
      expect(await tell({ type: 'credit.created', data })).toMatchObject({ http: 200, status: 'ignored' });
    }
    expect(await tell({ type: 'order.delivered', __proto__: { data: {} } })).toMatchObject({ status: 'ignored' });
    expect(await rows(house, 'select count(*) from callbacks')).toEqual(before);
    expect(await tell(created(`op_${'0'.repeat(32)}`, 1, '\u0000\ud800'))).toMatchObject({ http: 200, status: 'kept' });
  });

  it('an event finds the tenant by the key of the operation, and touches nothing of another', async () => {
    const mine = await credit();
    const theirs = open.as(house.keys.otherTenant);
    const story = await open.control().get(`/v1/operations/${mine.operation_id}`);
    await tell(refused(mine.operation_id as string), { id: 'evt-of-acme' });
    await until(async () => (await weighed('evt-of-acme')) === 'contradicts', 10_000);
    expect(await rows(house, `select distinct tenant from callbacks where event_id = 'evt-of-acme'`)).toEqual([{ tenant: 'acme' }]);
    expect(await theirs.get(`/v1/operations/${mine.operation_id}`)).toMatchObject({ http: 404 });
    expect(story).toMatchObject({ http: 200 });
  });

  it('kill -9 right after the acknowledgement: another replica follows the event to its end', async () => {
    const first = await spawnGateway(house);
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 3_600_000 });
    const call = { session_id: unique('s'), call_id: 'c-1' };
    void first.agent.credit(call).catch(() => undefined);
    const key = await keyOfOpen();
    expect(await deliver(first.controlUrl, refused(key), { id: 'evt-acknowledged' })).toMatchObject({ http: 200, status: 'kept' });
    await first.kill9();
    await until(async () => (await open.agent.get(`/v1/operations/${key}`)).disposition === 'rejected', 20_000);
    await until(async () => (await weighed('evt-acknowledged')) === 'agrees', 20_000);
    expect((await house.shop.books()).requests[route]).toBe(1);
  }, 60_000);
});

async function rows<Row extends object>(house: House, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: house.databaseUrl });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

async function lastReceipt(open: Opened, operation: string): Promise<object> {
  const { receipts } = (await open.control().get(`/v1/operations/${operation}`)) as unknown as { receipts: object[] };
  return receipts.at(-1) as object;
}
