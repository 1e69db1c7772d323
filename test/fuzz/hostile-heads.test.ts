/**
 * Whatever bytes arrive at the listeners: an answer that clients know, or a connection that ends; no incident, no stall, nothing sent twice for
 * one request, and whoever behaves is served meanwhile. `FUZZ_RUNS` makes it longer, a failure prints the seed that repeats it, and what once
 * failed stays in `kept`.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { problems } from '../../src/errors.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { ambiguous, bytesOf, damagedHeads, type Head } from './heads.js';
import { exchange, holding, type Reply } from './sockets.js';

const runs = Number(process.env['FUZZ_RUNS'] ?? 400);
/** Of the whole process, client and fuzzer included. */
const longestMs = 50;

let house: House;
let open: Opened;
const ports = { agent: 0, control: 0 };
beforeAll(async () => {
  house = await openHouse({ CALLGATE_LOG_LEVEL: 'fatal' });
  open = await openGateway(house);
  Object.assign(ports, { agent: Number(new URL(open.gateway.agentUrl).port), control: Number(new URL(open.gateway.controlUrl).port) });
});
afterAll(async () => {
  await open.gateway.close();
  await house.close();
});

const proposal = JSON.stringify({ session_id: 's', call_id: 'c', tool: 'issue_credit', arguments: { order_id: 'O-999', amount: 1, currency: 'GBP' } });
const post = (target: string, body: string, key: string): Head => ({ method: 'POST', target, version: 'HTTP/1.1', fields: ['host: x', `authorization: Bearer ${key}`, 'content-type: application/json', `content-length: ${Buffer.byteLength(body)}`], lineEnd: '\r\n', body });
const get = (target: string, key: string): Head => ({ method: 'GET', target, version: 'HTTP/1.1', fields: ['host: x', `authorization: Bearer ${key}`], lineEnd: '\r\n', body: '' });
/** What clients of the time speak where a gateway has a door for it, and here has none. */
const mcp = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'issue_credit', arguments: { order_id: 'O-417', amount: 1, currency: 'GBP' }, _meta: { 'callgate/session_id': 's' } } });
const doors: Record<'agent' | 'control', () => Head[]> = {
  agent: () => [post('/v1/calls', proposal, house.keys.agent), get('/v1/tools', house.keys.agent), post('/v1/batches', '{"session_id":"s","calls":[]}', house.keys.agent), post('/mcp', mcp, house.keys.agent), post('/v1/calls', mcp, house.keys.agent), get('/v1/operations/op_x', house.keys.agent)],
  control: () => [get('/v1/receipts', house.keys.auditor), get('/healthz', house.keys.auditor), get('/docs', ''), post('/v1/callbacks/retail', '{}', ''), { ...post('/v1/sessions/s', '{}', house.keys.application), method: 'PUT' }],
};

const kept: Buffer[] = [
  Buffer.from('\r\n\r\n\r\n'), Buffer.from('GET / HTTP/1.1\r\n'), Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]), Buffer.from('GET /v1/tools\r\n\r\n'),
  Buffer.from('GET * HTTP/1.1\r\nhost: x\r\n\r\n'), Buffer.from('OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n'), Buffer.from('CONNECT elsewhere:443 HTTP/1.1\r\nhost: elsewhere\r\n\r\n'), Buffer.from('GET /v1/tools HTTP/1.1\r\n\r\n'), Buffer.from('POST /v1/calls HTTP/1.1\r\nhost: x\r\nexpect: 200-ok\r\n\r\n'),
];

/** Half a second: a pattern with two places for the same spaces. */
const spaces = ['prefer: a', 'prefer: wait=', 'content-type: application/json', 'authorization: Bearer a', 'traceparent: 00'].map((begin) => `${begin}${' '.repeat(15_000)}x`);

const spaced = (head: Head, field: string): Head => ({ ...head, fields: [...head.fields.filter((one) => !one.startsWith(field.slice(0, field.indexOf(':')))), field] });

const leaks = /\n {4}at |node:internal|node_modules|ECONN|HPE_|select .* from |insert into|postgres|\bcg_[0-9A-Za-z]{8}/i;
const statuses = new Set<number>([200, ...Object.values(problems).map(({ status }) => status)]);

async function survives(port: number, bytes: Buffer): Promise<Reply[]> {
  const measured = async (): Promise<{ replies: Reply[]; rest: string; cpuMs: number }> => {
    const before = process.cpuUsage();
    const heard = await exchange(port, bytes);
    const { user, system } = process.cpuUsage(before);
    return { ...heard, cpuMs: (user + system) / 1000 };
  };
  let heard = await measured();
  // A collection of garbage, or another worker of the machine, is not the input's doing: what is slow is slow again.
  for (let again = 0; heard.cpuMs > longestMs && again < 4; again++) heard = await measured();
  const shown = `${JSON.stringify(bytes.toString('latin1').slice(0, 400))} → ${heard.cpuMs} ms of CPU, ${JSON.stringify(heard).slice(0, 600)}`;
  expect(heard.cpuMs, shown).toBeLessThan(longestMs);
  expect(heard.rest, shown).toBe('');
  for (const { status, head, body } of heard.replies) {
    if (status === 100) continue; // continue: of HTTP, and not of ours
    expect(statuses.has(status) && status < 500, shown).toBe(true);
    expect(head + body, shown).not.toMatch(leaks);
    if (status >= 400 && body !== '') expect(problems, shown).toHaveProperty(((JSON.parse(body) as { type: string }).type).split('/').at(-1) as string);
  }
  return heard.replies;
}

describe.each(['agent', 'control'] as const)('bytes at the %s listener', (plane) => {
  it('are answered in known words, or the connection ends', async () => {
    const seen = new Map<number, number>();
    for (const head of doors[plane]()) expect((await exchange(ports[plane], bytesOf(head), 3_000)).replies[0]?.status, head.target).toBeLessThan(500);
    await fc.assert(fc.asyncProperty(damagedHeads(doors[plane]()), async (bytes) => {
      for (const { status } of await survives(ports[plane], bytes)) seen.set(status, (seen.get(status) ?? 0) + 1);
    }), { numRuns: runs, examples: [...kept, ...spaces.map((field) => bytesOf(spaced(doors[plane]()[0] as Head, field)))].map((bytes): [Buffer] => [bytes]) });
    expect(seen.size).toBeGreaterThan(2);
    expect(seen.get(400)).toBeGreaterThan(runs / 20);
    expect((await open.agent.get('/v1/tools')).http).toBe(200);
  }, 60_000 + runs * 300);

  it.each(ambiguous.map((fields): [string, string[]] => [JSON.stringify(fields.join(' | ')), fields]))('a request whose end two readers could see at two places is not followed by another: %s', async (_, fields) => {
    const within = bytesOf(post('/v1/calls', JSON.stringify({ session_id: 'smuggled', tool: 'get_order', arguments: { order_id: 'O-417' } }), house.keys.agent)).toString('latin1');
    const asked = async (): Promise<number> => (await house.shop.books()).requests['GET /orders/{id}'] ?? 0;
    const before = await asked();
    const { replies } = await exchange(ports[plane], Buffer.from(['POST /v1/calls HTTP/1.1', 'host: x', 'content-type: application/json', ...fields, '', `0\r\n\r\n${within}`].join('\r\n'), 'latin1'), 300);
    expect(replies.length).toBeLessThanOrEqual(1);
    for (const { status } of replies) expect([400, 401, 404]).toContain(status);
    expect(await asked()).toBe(before);
  });
});

describe('whoever takes more than a share', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const manyMiB = 96;
  /** Heap and buffers, after what is garbage is gone. */
  const held = (): number => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return (heapUsed + external) / 2 ** 20;
  };
  const served = async (): Promise<void> => {
    const other = open.as(house.keys.otherAgent);
    expect((await other.get('/v1/tools')).http).toBe(200);
    expect(await other.call({ session_id: unique('s'), tool: 'get_order', arguments: { order_id: 'O-417' } })).toMatchObject({ http: 200 });
    expect((await fetch(`${open.gateway.controlUrl}/healthz`)).status).toBe(200);
  };

  it.each([
    ['requests with keys that nobody has', (n: number) => `GET /v1/tools HTTP/1.1\r\nhost: x\r\nauthorization: Bearer cg_${n.toString(32).padStart(8, 'a')}_${'A'.repeat(43)}\r\n\r\n`, 'agent'],
    ['requests for a large answer', () => 'GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n', 'control'],
    ['calls', (n: number) => bytesOf(post('/v1/calls', JSON.stringify({ session_id: 'flood', call_id: `c${n}`, tool: 'get_order', arguments: { order_id: 'O-999' } }), house.keys.agent)).toString('latin1'), 'agent'],
  ] as const)('on one connection, without reading what is answered: %s', async (_, make, plane) => {
    const before = held();
    let most = 0;
    const socket = await holding(ports[plane], '');
    socket.pause();
    const closed = new Promise((resolve) => { socket.once('close', resolve); });
    for (let n = 0; n < 16 && !socket.destroyed; n++) {
      socket.write(Array.from({ length: 500 }, (__, m) => make(n * 500 + m)).join(''), 'latin1');
      await served();
      most = Math.max(most, held());
    }
    socket.destroy();
    await closed;
    expect(most - before).toBeLessThan(manyMiB);
  }, 120_000);

  it('many that begin and do not go on are served around, and cut off in their time', async () => {
    const begun = ['POST /v1/calls HTTP/1.1\r\nhost: x\r\nx: ', 'G', '', `${bytesOf({ ...post('/v1/calls', proposal, house.keys.agent), body: '' }).toString('latin1')}{`];
    const sockets = await Promise.all(Array.from({ length: 600 }, (_, n) => holding(n % 3 === 0 ? ports.control : ports.agent, begun[n % 4] as string)));
    const before = held();
    const open = new Set(sockets);
    for (const socket of sockets) socket.on('error', () => undefined).on('close', () => open.delete(socket)).resume();
    const dripping = setInterval(() => open.forEach((socket) => socket.write('y')), 500);
    const began = performance.now();
    while (open.size > 0 && performance.now() - began < 60_000) {
      await served();
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
    clearInterval(dripping);
    expect(open.size).toBe(0);
    expect(held() - before).toBeLessThan(manyMiB);
  }, 120_000);
});
