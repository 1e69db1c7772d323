/** A benchmark that miscounts is worse than none: it is believed. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { barsOf } from '../../bench/bars.mjs';
import { cellsOf } from '../../bench/cells.mjs';
import { percentiles, table } from '../../bench/figures.mjs';
import { run } from '../../bench/load.mjs';
import { record } from '../../bench/report.mjs';
import { stagesBetween } from '../../bench/stages.mjs';
import { projectFile } from '../../src/project.js';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(handle: (request: IncomingMessage, body: string, response: ServerResponse) => void): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => { body += chunk.toString(); }).on('end', () => handle(request, body, response));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
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
  const result = await run({ ...job, urls: [url] });
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
  expect(await run({ ...job, urls: [url] })).toMatchObject({ calls: 20, errors: 20, firstError: expect.stringContaining('HTTP/1.1') });
});

test('an answer that comes in pieces is one answer, measured to its last byte', async () => {
  const url = await serve((_request, _body, response) => {
    response.setHeader('content-length', 16);
    response.write('{"state":');
    setTimeout(() => response.end('"done"}'), 20);
  });
  const result = await run({ ...job, urls: [url], calls: 3, clients: 1 });
  expect(result).toMatchObject({ calls: 3, errors: 0 });
  expect(result.latencyMs.p50).toBeGreaterThan(18);
});

test('percentiles are by nearest rank, and of nothing there are none', () => {
  const hundred = Array.from({ length: 100 }, (_, n) => 100 - n);
  expect(percentiles(hundred)).toEqual({ p50: 50, p95: 95, p99: 99 });
  expect(percentiles([])).toEqual({ p50: null, p95: null, p99: null });
  expect(table([['a', 'b'], ['long', '1']])).toBe('a     b\n----  -\nlong  1');
});

test('clients are dealt over several servers', async () => {
  const asked = [0, 0];
  const urls = await Promise.all(asked.map((_, n) => serve((_request, _body, response) => {
    asked[n]!++;
    response.end('"done"');
  })));
  expect(await run({ ...job, urls, clients: 2 })).toMatchObject({ calls: 40, errors: 0 });
  expect(asked[0]! + asked[1]!).toBe(40);
  for (const each of asked) expect(each).toBeGreaterThan(0);
});

const slice = (system: string, kind: string, clients: number, calls: number, more: object = {}): object => ({
  system, kind, clients, round: 1, calls, errors: 0, seconds: 1, latencyMs: { p50: 1, p95: 2, p99: 10 }, cpuMs: { gateway: 0.5, engine: 0.2, upstream: 0.1, load: 0.1 }, rssBytes: 100e6, foreignCores: 0, ...more,
});
interface Bar { bar: number; what: string; measured: string; met: boolean }
const judged = (slices: object[], more: object = {}): Bar[] => barsOf({ cells: cellsOf(slices), guard: null, waiting: null, aborted: null, bytesPerOperation: null, ...more }) as Bar[];

test('rounds become medians, and how far they lie apart', () => {
  const cell = cellsOf([80, 100, 110].map((calls) => slice('naive', 'write', 64, calls))).get('naive write 64');
  expect(cell).toMatchObject({ rate: 100, spread: 0.3, latencyMs: { p99: 10 }, cpuMs: { engine: 0.2 } });
});

test('a bar is judged where both of its sides were measured, on its side of the line, and by the best setting of a peer', () => {
  expect(judged([slice('callgate', 'write', 64, 100)]).map(({ bar, met }) => [bar, met])).toEqual([[7, true]]);
  const write = (naive: number, p99: number): boolean[] =>
    judged([slice('naive', 'write', 64, naive), slice('callgate', 'write', 64, 100, { latencyMs: { p50: 1, p95: 2, p99 } })]).filter(({ bar }) => bar === 1).map(({ met }) => met);
  expect(write(100, 8)).toEqual([true, true]);
  expect(write(101, 8.1)).toEqual([false, false]);

  const peers = judged([slice('callgate', 'duplicate', 16, 100), slice('restate', 'duplicate', 16, 90), slice('restate-1', 'duplicate', 16, 110)]);
  expect(peers).toMatchObject([{ bar: 3, measured: '0.91 ×', met: false }]);
  expect(peers[0]?.what).toContain('restate-1');

  const p50 = (ms: number): object => ({ latencyMs: { p50: ms, p95: ms, p99: ms } });
  const one = (own: number): boolean | undefined => judged([
    slice('callgate', 'write', 1, 10, p50(own)), slice('naive-prepared', 'write', 1, 10, p50(1)), slice('upstream', 'read', 1, 10, p50(0.1)),
  ]).find(({ bar }) => bar === 2)?.met;
  expect([one(1.4), one(1.41)]).toEqual([true, false]);

  const guard = { cpuMs: { p50: 0.5, p99: 2.1 }, largest: [{ what: 'small', cpuMs: 1 }, { what: 'large', cpuMs: 51 }] };
  const rest = judged([slice('one-replica', 'replicas', 64, 100), slice('two-replicas', 'replicas', 64, 99)], { guard, waiting: { calls: 1000, bytes: 51e6 }, aborted: { alone: 2, together: 3 }, bytesPerOperation: 2049 });
  expect(rest.map(({ bar, met }) => `${bar} ${met}`)).toEqual(['5 true', '5 false', '5 false', '6 false', '7 false', '8 false', '8 true']);
});

test('what a call spends is told apart by the steps of its stages, and what is around them', () => {
  const before = { steps: { 'parse parse': 1 }, times: {}, httpSeconds: 10 };
  const after = { steps: { 'parse parse': 1.2, 'execute intent': 0.3 }, times: {}, httpSeconds: 11 };
  const spent = stagesBetween(before, after, 100);
  expect(spent['parse parse']).toBeCloseTo(2);
  expect(spent['execute intent']).toBeCloseTo(3);
  expect(spent['around them']).toBeCloseTo(5);
});

test('a report takes the place of the one before it, and nothing else of the page', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'callgate-bench-test-'));
  try {
    const file = join(folder, 'page.md');
    await writeFile(file, 'above\n<!-- measured -->\nthe one before\n<!-- /measured -->\nbelow\n');
    for (let n = 0; n < 2; n++) record(file, 'a | b', new Date(0));
    expect(await readFile(file, 'utf8')).toBe('above\n<!-- measured -->\n1970-01-01\n\n```\na | b\n```\n<!-- /measured -->\nbelow\n');
    await writeFile(file, 'no place');
    expect(() => record(file, 'a | b', new Date(0))).toThrow('no place for a report');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test('the whole of it runs: floors and the built gateway answer every call of every kind, and the exit code tells of the bars', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'callgate-bench-test-'));
  try {
    const file = join(folder, 'result.json');
    const ended = await promisify(execFile)(process.execPath, [projectFile('bench', 'run.mjs'), '--json', file, '--clients', '2', '--seconds', '0.2', '--rounds', '1', '--warm', '0.2'])
      .then(({ stdout }) => ({ code: 0, stdout }), (error: { code: number; stdout: string }) => error);
    const { slices, bars, guard, waiting } = JSON.parse(await readFile(file, 'utf8')) as {
      slices: { system: string; kind: string; calls: number; errors: number; stages?: Record<string, number> }[]; bars: Bar[]; guard: { calls: number }; waiting: { calls: number };
    };
    expect(slices.map(({ system, kind }) => `${system} ${kind}`)).toEqual([
      'upstream write', 'proxy write', 'naive write', 'naive-prepared write', 'callgate write',
      'naive duplicate', 'naive-prepared duplicate', 'callgate duplicate', 'callgate duplicate-wide', 'upstream read', 'proxy read', 'callgate read', 'one-replica replicas', 'two-replicas replicas',
    ]);
    for (const { system, kind, calls, errors } of slices) expect({ system, kind, errors, some: calls > 0 }).toEqual({ system, kind, errors: 0, some: true });
    const { stages } = slices.find(({ system, kind }) => system === 'callgate' && kind === 'write') ?? {};
    expect(stages?.['execute intent']).toBeGreaterThan(0);
    expect(Object.values(stages ?? {}).every((ms) => ms >= 0), JSON.stringify(stages)).toBe(true);
    expect([guard.calls, waiting.calls]).toEqual([1000, 1000]);
    // Bars of 64 clients or one were not measured, and those that were measured decide.
    expect([...new Set(bars.map(({ bar }) => bar))]).toEqual([5, 6, 7, 8]);
    const missed = bars.filter(({ met }) => !met);
    expect(ended.code).toBe(missed.length > 0 ? 1 : 0);
    for (const { bar } of missed) expect(ended.stdout.trimEnd().split('\n').at(-1)).toContain(`bar ${bar}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 240_000);
