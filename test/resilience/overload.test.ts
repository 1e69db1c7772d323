import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../recovery/process.js';
import { changedContracts } from '../recovery/quick.js';
import { type CallBody, type House, openHouse, type Sent, type Spawned, spawnGateway, unique } from '../support/gateway.js';

/**
 * What waits in line is bounded, and costs little. If this is lost, one slow order takes the memory of the process, and with it every call of everybody.
 */
describe('more calls than one replica takes', () => {
  const limit = 1_000;
  const beyond = 50;
  let house: House;
  let gateway: Spawned;
  beforeAll(async () => {
    house = await openHouse({ CALLGATE_CONTRACTS_FOLDER: changedContracts([['deadline: 5s }', 'deadline: 2m }']]), CALLGATE_LIMITS_IN_FLIGHT: String(limit), CALLGATE_CALLERS_PRINCIPAL_CONCURRENT: '10000' });
    gateway = await spawnGateway(house);
  });
  afterAll(async () => {
    gateway?.process.kill('SIGKILL');
    await house?.close();
  });

  const residentBytes = (): number => 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.process.pid}/status`, 'utf8'))?.[1]);
  const credit = (amount: number): CallBody => ({ session_id: unique('s'), call_id: 'c', tool: 'issue_credit', arguments: { order_id: 'O-417', amount, currency: 'GBP' } });

  it('are told 503 at once and reach nobody; those in line are few bytes each, and leave it when they hang up', async () => {
    const warm = await Promise.all(Array.from({ length: 200 }, () => gateway.agent.call({ session_id: unique('w'), tool: 'get_order', arguments: { order_id: 'O-420' } })));
    expect(warm[0]).toMatchObject({ disposition: 'executed' });
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 100_000 });
    void gateway.agent.call(credit(100), { prefer: 'wait=45' }).catch(() => undefined);
    await until(async () => (await house.shop.books()).credits.length === 1, 10_000);
    const before = residentBytes();

    const gone = new AbortController();
    const send = (n: number): Promise<Response> => fetch(`${gateway.agentUrl}/v1/calls`, {
      method: 'POST', signal: gone.signal, body: JSON.stringify(credit(n)), headers: { authorization: `Bearer ${house.keys.agent}`, 'content-type': 'application/json', prefer: 'wait=45' },
    });
    const told: (Sent & { retryAfter: string | null })[] = [];
    const waiting = Array.from({ length: limit - 1 + beyond }, (_, n) => send(n + 1).then(async (response) => {
      told.push({ ...(await response.json() as Sent), http: response.status, retryAfter: response.headers.get('retry-after') });
    }).catch(() => undefined));
    await until(() => told.length === beyond, 30_000);
    for (const answer of told) expect(answer).toMatchObject({ http: 503, disposition: 'unavailable', code: 'OVERLOADED', next_action: 'retry', retryAfter: expect.stringMatching(/^[1-9]\d*$/) as string });
    // Reads and probes are for everybody still.
    expect((await fetch(`${gateway.controlUrl}/readyz`)).status).toBe(200);
    expect(await gateway.agent.get('/v1/operations/op_none')).toMatchObject({ http: 404 });
    await until(async () => (await house.shop.books()).requests['GET /orders/{id}'] !== undefined, 10_000);
    const each = (residentBytes() - before) / (limit - 1);
    console.log(`${limit - 1} calls in line: ${Math.round(each / 1024)} KiB each, the process ${Math.round(residentBytes() / 1024 / 1024)} MiB`);
    expect(each).toBeLessThan(150 * 1024);
    expect(told).toHaveLength(beyond);

    gone.abort();
    await Promise.all(waiting);
    await until(async () => (await gateway.agent.call({ session_id: unique('s'), tool: 'get_order', arguments: { order_id: 'O-420' } })).disposition === 'executed', 20_000);
    const { credits, requests } = await house.shop.books();
    expect(credits).toHaveLength(1);
    expect(requests['POST /orders/{id}/credits']).toBe(1);
  }, 90_000);
});
