/**
 * What a contract annotates, what is called by a secret's name, and what looks like a secret reach the service and stand nowhere that is written
 * down or shown to anybody else, however the call ended; and the request that recovery needs is gone once nothing can need it.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fingerprintSecret } from '../../src/telemetry/fingerprint.js';
import { type House, openHouse, pepper, type Sent, spawnGateway, type Spawned, unique } from '../support/gateway.js';
import { everyRow } from '../support/rows.js';

const annotated = '4111-CANARY-card';
const named = 'CANARY plain words';
const shaped = 'sk-CANARY0note';
const contract = `
callgate: 1
service: vault
upstream: { base_url: "\${VAULT_URL}", limits: { deadline: 3s } }
tools:
  pay:
    version: 1.0.0
    effect: write
    purpose: Pay.
    args:
      type: object
      properties:
        { amount: { type: integer }, card: { type: string, maxLength: 40 }, password: { type: string, maxLength: 40 }, note: { type: string, maxLength: 80 } }
      required: [amount, card, password, note]
    preconditions: [ { id: positive, check: args.amount > 0, otherwise: { code: NOT_POSITIVE, message: "Not by {args.card}.", next: ask } } ]
    redact: [/args/card]
    http:
      { method: POST, path: /pay, headers: { Idempotency-Key: "{operation.id}" }, body: { amount: args.amount, card: args.card, password: args.password, note: args.note } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a payment, never: [] }
    approval:
      - { when: args.amount >= 2000, by: reviewer, expires: 1s, summary: "Pay {args.amount} by {args.card}, {args.note}" }
      - { when: args.amount >= 1000, by: reviewer, summary: "Pay {args.amount} by {args.card}, {args.note}" }
    public: [message, echo]
    errors: [ { when: status == 422, outcome: rejected, code: NO, next: ask } ]
    compensate: { tool: take_back, args: { payment: result.payment_id, card: args.card } }
    retry: { attempts: 3, elapsed: 2m }
    verify: on_ambiguity
    result: { type: object, properties: { payment_id: { type: string }, card: { type: string } }, required: [payment_id] }
  take_back:
    version: 1.0.0
    effect: write
    purpose: Take a payment back.
    args: { type: object, properties: { payment: { type: string, maxLength: 40 }, card: { type: string, maxLength: 40 } }, required: [payment, card] }
    redact: [/args/card]
    http: { method: POST, path: /take-back, headers: { Idempotency-Key: "{operation.id}" }, body: { payment: args.payment, card: args.card } }
    idempotency: { honoured: true, window: 24h }
    effects: { creates: a refund, never: [] }
    verify: on_ambiguity
    result: { type: object, properties: { payment_id: { type: string } }, required: [payment_id] }
policies: all.cedar
`;

/** By the amount, how the service answers; a request under way is held until it is let go. */
const answers: Record<number, number> = { 20: 422, 30: 500, 31: 500, 40: 429 };

describe('what is recorded of a call with secrets', () => {
  let house: House;
  let service: Server;
  let db: pg.Client;
  const folder = mkdtempSync(join(tmpdir(), 'callgate-recorded-'));
  const shadow = mkdtempSync(join(tmpdir(), 'callgate-shadow-'));
  const given: string[] = [];
  const held = { times: 0 };
  beforeAll(async () => {
    service = createServer(async (request, response) => {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      given.push(text);
      const { amount } = JSON.parse(text) as { amount?: number };
      if (amount === 50 && ++held.times === 1) return; // never answered: its gateway dies
      const status = answers[amount ?? 0] ?? 200;
      response.writeHead(status, { 'content-type': 'application/json', ...(status === 429 ? { 'retry-after': '0' } : {}) })
        .end(JSON.stringify(status === 200 ? { payment_id: `P-${amount}`, card: annotated } : { message: `no: ${text}`, echo: `card ${annotated} and ${shaped}` }));
    });
    await once(service.listen(0, '127.0.0.1'), 'listening');
    writeFileSync(join(folder, 'vault.yaml'), contract);
    writeFileSync(join(folder, 'all.cedar'), '@id("everything")\npermit (principal, action, resource);\n');
    writeFileSync(join(shadow, 'none.cedar'), '@id("nothing")\nforbid (principal, action == Action::"pay", resource);\n');
    house = await openHouse({
      CALLGATE_CONTRACTS_FOLDER: folder, CALLGATE_CONTRACTS_SHADOW_POLICIES: shadow, CALLGATE_LOG_LEVEL: 'trace',
      VAULT_URL: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
      CALLGATE_RECONCILE_DEADLINE: '2m', CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms', CALLGATE_RECONCILE_BACKOFF_FIRST: '100ms',
      CALLGATE_EXECUTION_LEASE: '1s', CALLGATE_EXECUTION_SEND_WINDOW: '1s',
      CALLGATE_RECEIPTS_SEAL_INTERVAL: '50ms',
    });
    db = new pg.Client({ connectionString: house.databaseUrl });
    await db.connect();
  });
  afterAll(async () => {
    await db.end();
    service.closeAllConnections();
    service.close();
    await house.close();
    rmSync(folder, { recursive: true });
    rmSync(shadow, { recursive: true });
  });

  const pay = (gateway: Spawned, amount: number, more: object = {}, prefer = 'wait=5'): Promise<Sent> => gateway.agent.call({
    session_id: 's-1', call_id: unique('c'), tool: 'pay', arguments: { amount, card: annotated, password: named, note: `call me, ${shaped} ok`, ...more },
  }, { prefer });
  const operation = async (id: string | null): Promise<{ state: string; review_id: string | null }> => {
    const { rows: [row] } = await db.query<{ state: string; review_id: string | null }>('select state, review_id from operations where operation_id = $1', [id]);
    return row ?? { state: '', review_id: null };
  };
  const stateOf = async (id: string | null): Promise<string> => (await operation(id)).state;
  const becomes = (id: string | null, state: string) => expect.poll(() => stateOf(id), { timeout: 30_000 }).toBe(state);
  type Waiting = { id: string; digest: string };
  const decide = async (gateway: Spawned, what: 'approvals' | 'reviews', of: Sent, verdict: object): Promise<void> => {
    const headers = { authorization: `Bearer ${house.keys.reviewer}`, 'content-type': 'application/json' };
    const id = what === 'approvals' ? of.approval?.id : (await operation(of.operation_id)).review_id;
    const { digest } = (await (await fetch(`${gateway.controlUrl}/v1/${what}/${id}`, { headers })).json()) as Waiting;
    const response = await fetch(`${gateway.controlUrl}/v1/${what}/${id}/decision`, {
      method: 'POST', headers,
      body: JSON.stringify({ expected_digest: digest, reason: `said ${annotated} and ${shaped}`, ...(what === 'reviews' ? { evidence: 'ticket 1' } : {}), ...verdict }),
    });
    expect([response.status, await response.text()]).toEqual([200, expect.anything()]);
  };

  it('shows none of it in any output or row, and the request is dropped whichever way the call ended', async () => {
    const first = await spawnGateway(house);
    const recovered = pay(first, 50, {}, 'wait=0');
    const recoveredId = (await recovered).operation_id;
    await expect.poll(() => held.times, { timeout: 5_000 }).toBe(1);
    await first.kill9();
    const gateway = await spawnGateway(house);
    const done = await pay(gateway, 10);
    expect(done).toMatchObject({ disposition: 'executed' });
    const undone = await gateway.agent.call({ session_id: 's-1', tool: 'take_back', arguments: done.compensate?.arguments as object });
    expect(undone).toMatchObject({ disposition: 'executed' });
    expect(await pay(gateway, 20)).toMatchObject({ disposition: 'rejected' });
    expect(await pay(gateway, -1)).toMatchObject({ disposition: 'invalid_arguments' });
    expect(await pay(gateway, 11, { card: 7 })).toMatchObject({ code: 'INVALID_ARGUMENTS' });
    const limited = await pay(gateway, 40);
    const [abandoned, settled] = [await pay(gateway, 30, {}, 'wait=0'), await pay(gateway, 31, {}, 'wait=0')];
    const [refusedByPerson, cancelled, expired] = [await pay(gateway, 1_000), await pay(gateway, 1_001), await pay(gateway, 2_000)];
    await decide(gateway, 'approvals', refusedByPerson, { decision: 'reject' });
    await gateway.agent.post(`/v1/operations/${cancelled.operation_id}/cancel`, '{}');
    for (const id of [abandoned.operation_id, settled.operation_id]) await becomes(id, 'review');
    await decide(gateway, 'reviews', abandoned, { decision: 'abandon' });
    await decide(gateway, 'reviews', settled, { decision: 'committed', result: { payment_id: 'P-31', card: annotated } });
    await becomes(recoveredId, 'committed');
    await becomes(expired.operation_id, 'cancelled');
    const ended: [Sent | { operation_id: string | null }, string][] = [
      [{ operation_id: recoveredId }, 'committed'], [done, 'committed'], [undone, 'committed'], [abandoned, 'abandoned'], [settled, 'committed'],
      [refusedByPerson, 'cancelled'], [cancelled, 'cancelled'], [expired, 'cancelled'],
    ];
    for (const [{ operation_id: id }, state] of ended) expect([id, await stateOf(id)]).toEqual([id, state]);
    expect(['rate_limited', 'rejected', 'failed']).toContain(await stateOf(limited.operation_id));
    expect((await db.query('select operation_id, state from operations where sealed_request is not null')).rows).toEqual([]);

    const unsealed = 'select 1 from receipts r where not exists (select 1 from receipt_chain c where c.receipt_id = r.id)';
    await expect.poll(async () => (await db.query(unsealed)).rows.length, { timeout: 10_000 }).toBe(0);
    const out = await outputs(gateway);
    await gateway.stop();
    out.set('log', gateway.stdout() + first.stdout()).set('stderr', gateway.stderr()).set('rows', await everyRow(house.databaseUrl));
    for (const secret of [annotated, named, shaped]) {
      expect(given.join(), 'the service was given it').toContain(secret);
      const around = (text: string): string => text.slice(Math.max(0, text.indexOf(secret) - 200), text.indexOf(secret) + 40);
      const where = [...out].filter(([, text]) => text.includes(secret)).map(([name, text]) => `${name}: …${around(text)}`);
      expect(where, secret).toEqual([]);
    }
    // matched by the keyed hash, by whichever replica wrote it
    const mark = fingerprintSecret(pepper, annotated);
    const by = (id: string | null): string => out.get(`/v1/operations/${id}`) ?? '';
    for (const id of [recoveredId, done.operation_id, abandoned.operation_id]) expect(by(id)).toContain(mark);
    expect(out.get('log')).toContain('the shadow policies would have decided this otherwise');
  }, 90_000);

  async function outputs(gateway: Spawned): Promise<Map<string, string>> {
    const get = async (path: string, key = house.keys.reviewer): Promise<string> =>
      (await fetch(gateway.controlUrl + path, { headers: { authorization: `Bearer ${key}` } })).text();
    const out = new Map<string, string>();
    const lists = [
      '/v1/approvals', '/v1/approvals?state=rejected', '/v1/reviews', '/v1/reviews?state=decided', '/v1/operations?limit=500', '/v1/receipts?limit=500',
    ];
    for (const path of [...lists, '/v1/contracts', '/metrics']) out.set(path, await get(path));
    out.set('export', await get('/v1/receipts/export', house.keys.auditor));
    const tables = [['receipts', 'id'], ['operations', 'operation_id'], ['approvals', 'id'], ['reviews', 'id']] as const;
    for (const [table, column] of tables) {
      const { rows } = await db.query<{ id: string }>(`select ${column} as id from ${table} where tenant = 'acme'`);
      expect(rows.length, table).toBeGreaterThan(1);
      for (const { id } of rows) out.set(`/v1/${table}/${id}`, await get(`/v1/${table}/${id}`));
    }
    for (const [name, text] of out) expect(text.length, name).toBeGreaterThan(2);
    return out;
  }
});
