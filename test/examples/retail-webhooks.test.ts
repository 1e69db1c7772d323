import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startRetailService } from '../../examples/retail/service/server.js';
import type { Joints } from '../../src/main.js';
import { until } from '../recovery/process.js';
import { quickContracts, quickEnv } from '../recovery/quick.js';
import { signature, webhookSecret } from '../recovery/callbacks.js';
import { type House, openGateway, openHouse, type Opened, token as gatewayToken, unique } from '../support/gateway.js';
import { retailAt, token } from './retail.js';

/**
 * The example tells what became of what it had accepted, so that whoever tries the product sees an asynchronous service from end to end. If this is
 * lost, the callbacks of the documentation are never seen by anybody who follows it.
 */
describe('what the example tells by itself', () => {
  interface Heard { id: string; timestamp: string; signature: string; body: string }
  const heard: Heard[] = [];
  let answers: number[] = [];
  let ear: Server;
  const url = (): string => `http://127.0.0.1:${(ear.address() as AddressInfo).port}/events`;
  beforeAll(async () => {
    ear = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => { body += chunk.toString(); });
      request.on('end', () => {
        const header = (name: string): string => String(request.headers[name]);
        heard.push({ id: header('webhook-id'), timestamp: header('webhook-timestamp'), signature: header('webhook-signature'), body });
        response.writeHead(answers.shift() ?? 200).end();
      });
    });
    ear.listen(0, '127.0.0.1');
    await once(ear, 'listening');
  });
  beforeEach(() => {
    heard.length = 0;
    answers = [];
  });
  afterAll(async () => {
    ear.closeAllConnections();
    ear.close();
    await once(ear, 'close');
  });

  it('signed, once it is decided and not before, until somebody takes it, always under one id with the same bytes', async () => {
    const service = await startRetailService({ port: 0, token, webhooks: { secret: webhookSecret, url: url() } });
    const shop = retailAt(() => service.url);
    try {
      answers = [500, 503];
      await shop.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 50 });
      const key = shop.newKey();
      expect((await shop.credit(key)).status).toBe(202);
      await until(() => heard.length === 3, 10_000);
      const [credit] = (await shop.books()).credits;
      for (const event of heard) {
        expect(JSON.parse(event.body)).toEqual({ type: 'credit.created', data: { request_key: key, receipt_id: credit?.receipt_id, amount: 2500 } });
        expect(event.signature).toBe(signature(webhookSecret, event.id, event.timestamp, event.body));
        expect(Math.abs(Date.now() / 1000 - Number(event.timestamp))).toBeLessThan(30);
      }
      expect(new Set(heard.map(({ id, body }) => id + body)).size).toBe(1);
      expect((await shop.credit(shop.newKey())).status).toBe(201); // who is answered at once needs no event
      await shop.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 50 });
      const refused = shop.newKey();
      await shop.credit(refused, { amount: 5_000 });
      await until(() => heard.length === 4, 10_000);
      expect(JSON.parse(heard[3]?.body ?? '')).toEqual({ type: 'credit.refused', data: { request_key: refused, code: 'LIMIT' } });
    } finally {
      await service.close();
    }
  });

  it('what was still to be told when it ended is told by the next start, under the same id', async () => {
    const journal = join(mkdtempSync(join(tmpdir(), 'callgate-retail-')), 'journal');
    const start = () => startRetailService({ port: 0, token, journal, webhooks: { secret: webhookSecret, url: url() } });
    answers = Array.from({ length: 100 }, () => 500);
    const first = await start();
    const shop = retailAt(() => first.url);
    await shop.arm({ tool: 'issue_credit', kind: 'accept_202', ms: 10 });
    await shop.credit(shop.newKey());
    await until(() => heard.length > 0, 10_000);
    await first.close();
    answers = [];
    const before = heard.splice(0);
    const second = await start();
    await until(() => heard.length > 0, 10_000).finally(() => second.close());
    expect(heard[0]).toMatchObject({ id: before[0]?.id, body: before[0]?.body });
  });

  it('without a secret nobody is told, and where to is not taken', async () => {
    const service = await startRetailService({ port: 0, token });
    try {
      const response = await fetch(`${service.url}/_webhooks`, { method: 'POST', body: JSON.stringify({ url: url() }) });
      expect([response.status, await response.json()]).toEqual([400, { code: 'BAD_REQUEST', detail: expect.stringContaining('RETAIL_WEBHOOK_SECRET') }]);
    } finally {
      await service.close();
    }
  });
});

describe('the example and the gateway, end to end', () => {
  let house: House;
  let open: Opened;
  const sight = { blind: true };
  /** Nothing but an event can tell. */
  const joints: Joints = {
    upstream: (upstream) => ({
      send: (request, options) => (sight.blind && request.url.includes('/credits?') ? Promise.resolve({ kind: 'failure', sent: true, reason: 'reset', ms: 1 }) : upstream.send(request, options)),
      close: () => upstream.close(),
    }),
  };
  beforeAll(async () => {
    process.env['RETAIL_WEBHOOK_SECRET'] = webhookSecret;
    house = await openHouse(quickEnv({ RETAIL_WEBHOOK_SECRET: webhookSecret, CALLGATE_CONTRACTS_FOLDER: quickContracts([['    verify: always\n', '    verify: on_ambiguity\n'], ['deadline: 1h', 'deadline: 1s']]) }));
    open = await openGateway(house, {}, joints);
  });
  const tellGateway = (): Promise<Response> => fetch(`${house.service.url}/_webhooks`, { method: 'POST', body: JSON.stringify({ url: `${open.gateway.controlUrl}/v1/callbacks/retail` }) });
  afterEach(() => house.shop.reset());
  afterAll(async () => {
    await open.gateway.close();
    await house.close();
    delete process.env['RETAIL_WEBHOOK_SECRET'];
  });

  it('accepted, told, done: the answer has what the shop told, as its books have it', async () => {
    await tellGateway();
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 300 });
    const answer = await open.agent.credit({ session_id: unique('s'), call_id: 'c-1' });
    const [credit] = (await house.shop.books()).credits;
    expect(answer).toMatchObject({ http: 200, disposition: 'executed', outcome: 'committed', result: { receipt_id: credit?.receipt_id, amount: 2500 } });
    const operation = `/v1/operations/${answer.operation_id}`;
    const callbacks = async (): Promise<object[]> => ((await open.control().get(operation)) as unknown as { callbacks: object[] }).callbacks;
    await until(async () => JSON.stringify(await callbacks()).includes('"agrees"'), 10_000);
    expect(await callbacks()).toMatchObject([{ weighed: 'agrees' }]);
  });

  it('accepted, told that it was refused: ended with the code of the contract', async () => {
    await tellGateway();
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 400 });
    const waiting = open.agent.credit({ session_id: unique('s'), call_id: 'c-1' });
    await until(async () => (await house.shop.books()).requests['POST /orders/{id}/credits'] === 1, 5_000);
    await fetch(`${house.service.url}/orders/O-417/credits`, {
      method: 'POST', headers: { authorization: `Bearer ${gatewayToken}`, 'idempotency-key': unique('k') }, body: JSON.stringify({ amount: 4_000, currency: 'GBP', customer_id: 'C-17' }),
    });
    expect(await waiting).toMatchObject({ http: 422, disposition: 'rejected', code: 'CREDIT_REFUSED', next_action: 'escalate' });
  });

  it('late: told after the deadline of the acceptance, while it is in doubt, it is done, and was sent once', async () => {
    await fetch(`${house.service.url}/_webhooks`, { method: 'POST', body: JSON.stringify({ url: 'http://127.0.0.1:9/nobody' }) });
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 10 });
    const answer = await open.agent.credit({ session_id: unique('s'), call_id: 'c-1' });
    await until(async () => (await open.agent.get(`/v1/operations/${answer.operation_id}`)).disposition === 'unknown', 10_000);
    await tellGateway();
    expect(await open.agent.settled(answer.operation_id as string)).toMatchObject({ disposition: 'executed', outcome: 'committed' });
    expect((await house.shop.books()).requests['POST /orders/{id}/credits']).toBe(1);
  });
});
