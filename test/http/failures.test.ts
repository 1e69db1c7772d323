import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { drain } from '../../src/http/drain.js';
import type { Answer } from '../../src/model.js';
import { as, executed, json, listen } from './listeners.js';

/** Writes raw bytes and gives everything that comes back until the connection ends. */
function raw(port: number, ...writes: string[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => (received += chunk)).on('error', () => undefined).on('close', () => resolve(received));
    for (const [index, text] of writes.entries()) setTimeout(() => socket.write(text), index * 60);
  });
}

const proposal = (body: string) =>
  `POST /v1/calls HTTP/1.1\r\nhost: x\r\nauthorization: Bearer cg_agent\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

describe('what nobody foresaw', () => {
  it('is INTERNAL with an incident id: the stack is in the log under that id and nothing of it in the answer', async () => {
    const { agent, logged } = await listen({ door: { propose: async () => { throw new Error('CANARY password=hunter2 at db.internal'); } } });
    const response = await fetch(`${agent}/v1/calls`, { method: 'POST', headers: { ...as('agent'), ...json }, body: '{}' });
    const text = await response.text();
    const { code, incident_id } = JSON.parse(text) as Answer & { incident_id: string };
    expect([response.status, code]).toEqual([500, 'INTERNAL']);
    expect(text).not.toMatch(/CANARY|hunter2|internal:|\.ts|\bat /);
    expect(incident_id).toMatch(/^inc_/);
    expect(logged).toEqual([{ message: expect.any(String), fields: expect.objectContaining({ incident_id, err: expect.objectContaining({ message: expect.stringContaining('CANARY') }) }) }]);
    expect(JSON.stringify(logged)).not.toContain('cg_agent');
  });

  it('something thrown that is no Error is INTERNAL too', async () => {
    const { agent } = await listen({ door: { tools: () => { throw 'text'; } } });
    expect((await fetch(`${agent}/v1/tools`, { headers: as('agent') })).status).toBe(500);
  });

  it.each<[string, string, RequestInit]>([
    ['an unknown path', '/nope', {}], ['another method', '/v1/calls', { method: 'GET' }], ['a body that nobody takes', '/nope', { method: 'POST', body: 'text' }],
    ['bad percent-encoding', '/v1/operations/%zz', {}], ['an endless segment', `/v1/operations/${'a'.repeat(1_600)}`, {}], ['a prototype name', '/__proto__', {}],
  ])('%s is a problem document with 404', async (_what, path, init) => {
    const { agent, control, logged } = await listen();
    for (const base of [agent, control]) {
      const response = await fetch(base + path, init);
      expect([response.status, response.headers.get('content-type')]).toEqual([404, 'application/problem+json']);
      expect(((await response.json()) as Answer).code).toBe('ROUTE_NOT_FOUND');
    }
    expect(logged).toEqual([]);
  });

  it('labels metrics with the template of the route, never with what a caller wrote', async () => {
    const { agent, samples } = await listen();
    await fetch(`${agent}/v1/operations/op_secret`, { headers: as('agent') });
    await fetch(`${agent}/secret`);
    expect(samples.map(({ plane, route, status }) => [plane, route, status])).toEqual([['agent', '/v1/operations/:id', 200], ['agent', 'unmatched', 404]]);
    expect(samples.every(({ seconds }) => seconds >= 0 && seconds < 5)).toBe(true);
  });
});

describe('bytes that are no HTTP', () => {
  it.each<[string, string]>([
    ['garbage', 'CANARY\r\n\r\n'],
    ['a head over 16 KiB', `GET / HTTP/1.1\r\nhost: x\r\nx-long: ${'a'.repeat(20_000)}\r\n\r\n`],
    ['a length that is said twice', 'POST /v1/calls HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n'],
  ])('%s is answered 400 as a problem document that repeats nothing, and the connection ends', async (_what, bytes) => {
    const { agentPort } = await listen();
    const received = await raw(agentPort, bytes);
    expect(received).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(received).toContain('content-type: application/problem+json');
    expect(JSON.parse(received.split('\r\n\r\n')[1] ?? '')).toMatchObject({ code: 'MALFORMED_HTTP', status: 400 });
    expect(received).not.toContain('CANARY');
  });

  it.each<[string, string]>([
    ['a request without a host', 'GET /v1/tools HTTP/1.1\r\n\r\n'],
    ['an expectation that nobody meets', 'GET /v1/tools HTTP/1.1\r\nhost: x\r\nexpect: 200-ok\r\n\r\n'],
  ])('%s, which HTTP lets a server refuse, is refused in the same words', async (_what, bytes) => {
    const { agentPort } = await listen();
    const received = await raw(agentPort, bytes);
    expect(received).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(received.split('\r\n\r\n')[1] ?? '')).toMatchObject({ code: 'MALFORMED_HTTP', status: 400 });
  });

  it('a head that trickles in is given up after its time, with 400 and never 408, which clients re-send', async () => {
    const { agentPort } = await listen({ limits: { headersTimeoutMs: 200, requestTimeoutMs: 400 } });
    const received = await raw(agentPort, 'POST /v1/calls HTTP/1.1\r\n', 'host: x\r\n');
    expect(received).toMatch(/^HTTP\/1\.1 400 /);
    expect(received).toContain('MALFORMED_HTTP');
  });

  it('behind a running call they cut the connection: a 400 would pass for the answer to the call', async () => {
    let release = (): void => undefined;
    const running = new Promise<void>((resolve) => { release = resolve; });
    const { agentPort, logged } = await listen({ door: { propose: async () => { await running; return executed; } } });
    const received = await raw(agentPort, proposal('{}'), 'CANARY\r\n\r\n');
    release();
    expect(received).toBe('');
    expect(logged).toEqual([]);
  });

  it('a body that is cut off never reaches the gate and is no incident', async () => {
    let asked = false;
    const { agentPort, logged } = await listen({ door: { propose: async () => { asked = true; return executed; } } });
    await new Promise<void>((resolve) => {
      const socket = connect(agentPort, '127.0.0.1', () => {
        socket.write(proposal('{"session_id":"s"}').slice(0, -5));
        setTimeout(() => socket.destroy(), 50);
      });
      socket.on('close', () => setTimeout(resolve, 50));
    });
    expect([asked, logged]).toEqual([false, []]);
  });

  it('a connection beyond the limit is closed and those within it go on', async () => {
    const { agentPort, agent } = await listen({ limits: { connections: 1 } });
    const held = connect(agentPort, '127.0.0.1');
    await new Promise((resolve) => held.once('connect', resolve));
    await expect(fetch(`${agent}/v1/tools`, { headers: as('agent') })).rejects.toThrow();
    const received = new Promise<string>((resolve) => held.once('data', (chunk) => resolve(String(chunk))));
    held.write('GET /v1/tools HTTP/1.1\r\nhost: x\r\nauthorization: Bearer cg_agent\r\n\r\n');
    expect(await received).toMatch(/^HTTP\/1\.1 200 /);
    held.destroy();
  });

  it('a listener that closes lets a running call end with its answer', async () => {
    let [arrive, release] = [(): void => undefined, (): void => undefined];
    const arrived = new Promise<void>((resolve) => { arrive = resolve; });
    const running = new Promise<void>((resolve) => { release = resolve; });
    const { agent, agentApp } = await listen({ door: { propose: async () => { arrive(); await running; return executed; } } });
    const response = fetch(`${agent}/v1/calls`, { method: 'POST', headers: { ...as('agent'), ...json }, body: '{}' });
    await arrived;
    const closed = drain(agentApp, 10_000);
    release();
    expect(await (await response).json()).toEqual(executed);
    await closed;
  });

  it('a client that stopped in the middle of a body cannot keep a closing listener open', async () => {
    const { agentPort, agentApp } = await listen();
    const begun = once(agentApp.server, 'request');
    const socket = connect(agentPort, '127.0.0.1');
    socket.on('error', () => undefined).write(proposal('{"session_id":"s"}').slice(0, -5));
    await begun;
    const started = performance.now();
    await drain(agentApp, 100);
    expect(performance.now() - started).toBeLessThan(2000);
  });
});
