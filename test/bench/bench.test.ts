/** A benchmark that miscounts is worse than none: it is believed. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { percentiles, table } from '../../bench/figures.mjs';
import { run } from '../../bench/load.mjs';
import { projectFile } from '../../src/project.js';

let server: Server | undefined;
afterEach(() => new Promise<void>((resolve) => {
  if (!server) return resolve();
  server.closeAllConnections();
  server.close(() => resolve());
  server = undefined;
}));

async function serve(handle: (request: IncomingMessage, body: string, response: ServerResponse) => void): Promise<string> {
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => { body += chunk.toString(); }).on('end', () => handle(request, body, response));
  });
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const job = { method: 'POST', path: '/p/$n', headers: { 'x-key': 'k-$n' }, body: '{"id":"$n"}', expect: '"done"', clients: 4, seconds: 5, prefix: '7', first: 100, calls: 40 };

test('the load generator sends every number once, in path, header and body alike, and never more at a time than it has clients', async () => {
  const seen: string[] = [];
  let now = 0;
  let most = 0;
  const url = await serve((request, body, response) => {
    most = Math.max(most, ++now);
    const { id } = JSON.parse(body) as { id: string };
    if (request.url !== `/p/${id}` || request.headers['x-key'] !== `k-${id}`) response.statusCode = 400;
    seen.push(id);
    setTimeout(() => { now--; response.end('{"state":"done"}'); }, 2);
  });
  const result = await run({ ...job, url });
  expect(result).toMatchObject({ calls: 40, errors: 0 });
  expect(seen.sort()).toEqual(Array.from({ length: 40 }, (_, n) => `7${100 + n}`));
  expect(most).toBe(4);
});

test('an answer with another status or without the expected text is an error and no call', async () => {
  const url = await serve((_request, body, response) => {
    const id = Number((JSON.parse(body) as { id: string }).id);
    if (id % 4 === 0) response.statusCode = 500;
    response.end(id % 4 === 1 ? '{"state":"refused"}' : '{"state":"done"}');
  });
  expect(await run({ ...job, url })).toMatchObject({ calls: 20, errors: 20, firstError: expect.stringContaining('HTTP/1.1') });
});

test('an answer that comes in pieces is one answer, measured to its last byte', async () => {
  const url = await serve((_request, _body, response) => {
    response.setHeader('content-length', 16);
    response.write('{"state":');
    setTimeout(() => response.end('"done"}'), 20);
  });
  const result = await run({ ...job, url, calls: 3, clients: 1 });
  expect(result).toMatchObject({ calls: 3, errors: 0 });
  expect(result.latencyMs.p50).toBeGreaterThan(18);
});

test('percentiles are by nearest rank, and of nothing there are none', () => {
  const hundred = Array.from({ length: 100 }, (_, n) => 100 - n);
  expect(percentiles(hundred)).toEqual({ p50: 50, p95: 95, p99: 99 });
  expect(percentiles([])).toEqual({ p50: null, p95: null, p99: null });
  expect(table([['a', 'b'], ['long', '1']])).toBe('a     b\n----  -\nlong  1');
});

test('the whole of it runs: floors and the built gateway answer every call of every kind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'callgate-bench-test-'));
  try {
    const file = join(folder, 'result.json');
    await promisify(execFile)(process.execPath, [projectFile('bench', 'run.mjs'), '--json', file, '--clients', '2', '--seconds', '0.2', '--rounds', '1']);
    const { slices } = JSON.parse(await readFile(file, 'utf8')) as { slices: { system: string; kind: string; calls: number; errors: number }[] };
    expect(slices.map(({ system, kind }) => `${system} ${kind}`)).toEqual([
      'upstream write', 'proxy write', 'naive write', 'naive-prepared write', 'callgate write',
      'naive duplicate', 'naive-prepared duplicate', 'callgate duplicate', 'upstream read', 'proxy read', 'callgate read',
    ]);
    for (const { system, kind, calls, errors } of slices) expect({ system, kind, errors, some: calls > 0 }).toEqual({ system, kind, errors: 0, some: true });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 90_000);
