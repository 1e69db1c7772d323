import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Credentials } from '../../src/upstream/credentials.js';
import type { Exchange, SendOptions, Upstream } from '../../src/upstream/exchange.js';
import { openEgress, readAllowedUpstreams } from '../../src/upstream/egress.js';
import { createUpstream } from '../../src/upstream/sender.js';
import { watchedAttempts } from '../../src/upstream/sent-marks.js';
import { FaultServer, get, mintAttempt, planFor, post, reply, sleep } from './fault-server.js';

/** The credential of a test, and its place in a plan. */
let credential: () => string | Promise<string> = () => 'none';
let notTaken = 0;
const secrets: Credentials = { read: (_, { prefix }) => { const value = credential(); return typeof value === 'string' ? prefix + value : value; }, refused: () => { notTaken++; } };
const authOf = (header: string, prefix = '') => ({ header, source: { from: 'env' as const, name: 'TOKEN' }, prefix });

let server: FaultServer;
let upstream: Upstream;

beforeEach(async () => {
  server = await FaultServer.start();
  upstream = createUpstream({ credentials: secrets, egress: openEgress({ allowed: readAllowedUpstreams('retail=127.0.0.0/8') }), maxResponseBytes: 64 * 1024, maxHeaderBytes: 8 * 1024 });
});

afterEach(async () => {
  await server.close();
  await upstream.close();
  expect(watchedAttempts()).toBe(0);
});

const options = (overrides: Partial<SendOptions> = {}): SendOptions => ({
  upstream: planFor(server.origin), attempt: mintAttempt(), deadlineMs: 2000, ...overrides,
});

/** Sends a POST and holds `sent` against the server's own books, now and a little later. */
async function postAndAudit(overrides: Partial<SendOptions> = {}): Promise<Exchange> {
  const sendOptions = options(overrides);
  const exchange = await upstream.send(post(sendOptions.upstream.origin), sendOptions);
  await audit(sendOptions.attempt, exchange);
  return exchange;
}

async function audit(attempt: string, exchange: Exchange): Promise<void> {
  await sleep(30);
  if (!exchange.sent) expect(server.bytes).not.toContain(attempt);
  expect(server.times(attempt)).toBeLessThanOrEqual(1);
}

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await new Promise((resolve) => { setImmediate(resolve); });
}

const failure = (reason: string, sent: boolean) => ({ kind: 'failure', reason, sent, ms: expect.any(Number) as number });

describe('before a byte leaves, a failure proves that nothing was sent', () => {
  it('connection refused', async () => {
    const unused = await FaultServer.start();
    const { origin } = unused;
    await unused.close();
    expect(await postAndAudit({ upstream: planFor(origin) })).toEqual(failure('refused', false));
  });

  it('a name that does not resolve', async () => {
    expect(await postAndAudit({ upstream: planFor('http://no-such-host.invalid:80'), deadlineMs: 5000 })).toEqual(failure('dns', false));
  });

  it('a connection that is never accepted', async () => {
    const full = await fullBacklog();
    const exchange = await upstream.send(post(full.origin), options({ upstream: planFor(full.origin, { connectTimeoutMs: 200 }) }));
    expect(exchange).toEqual(failure('connect_timeout', false));
    expect(exchange.ms).toBeLessThan(1500);
    await full.release();
  });

  it('a deadline that ends while connecting, and the request is not sent when the connection comes at last', async () => {
    const full = await fullBacklog();
    const sendOptions = options({ upstream: planFor(full.origin, { connectTimeoutMs: 10_000 }), deadlineMs: 150 });
    const exchange = await upstream.send(post(full.origin), sendOptions);
    expect(exchange).toEqual(failure('deadline', false));
    expect(exchange.ms).toBeLessThan(1000);
    expect(await full.release()).not.toContain(sendOptions.attempt);
  });

  it('TLS spoken to a plain port', async () => {
    server.onConnection = (socket) => socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    expect(await postAndAudit({ upstream: planFor(`https://127.0.0.1:${server.port}`) })).toEqual(failure('tls', false));
  });

  it('a peer that closes during the TLS handshake', async () => {
    server.onConnection = (socket) => socket.destroy();
    expect(await postAndAudit({ upstream: planFor(`https://127.0.0.1:${server.port}`) })).toEqual(failure('reset', false));
  });

  it('a missing credential, without a connection', async () => {
    credential = () => { throw new Error('RETAIL_TOKEN is not set'); };
    expect(await postAndAudit({ upstream: planFor(server.origin, { auth: authOf('Authorization') }) })).toEqual(failure('no_credential', false));
    credential = () => Promise.reject(new Error('the command `token` ended with 3'));
    expect(await postAndAudit({ upstream: planFor(server.origin, { auth: authOf('Authorization') }) })).toEqual(failure('no_credential', false));
    expect(server.connections).toBe(0);
  });

  it('a fence or a deadline that had passed already, without a connection', async () => {
    expect(await postAndAudit({ sendBefore: performance.now() - 1 })).toEqual(failure('fence_passed', false));
    expect(await postAndAudit({ deadlineMs: 0 })).toEqual(failure('deadline', false));
    expect(server.connections).toBe(0);
  });

  it('a URL outside the origin, to which the credential does not belong', async () => {
    for (const url of ['http://127.0.0.1:1/credits', `${server.origin}0/credits`, `${server.origin}@evil.invalid/`, `${server.origin}.evil.invalid/`]) {
      const exchange = await upstream.send({ method: 'POST', url, headers: {}, body: '{}' }, options());
      expect(exchange).toEqual(failure('protocol', false));
    }
    expect(server.connections).toBe(0);
  });

  it('a header that HTTP cannot carry, and an origin that is none', async () => {
    const bad = { ...post(server.origin), headers: { 'x-note': 'a\r\nx-injected: 1' } };
    expect(await upstream.send(bad, options())).toEqual(failure('protocol', false));
    expect(await upstream.send(post('ftp://127.0.0.1'), options({ upstream: planFor('ftp://127.0.0.1') }))).toEqual(failure('protocol', false));
    expect(server.bytes).toBe('');
  });

  it('a closed sender', async () => {
    await upstream.send(get(server.origin), options());
    await upstream.close();
    expect(await postAndAudit()).toEqual(failure('fence_passed', false));
  });
});

describe('once bytes may have left, a failure never claims the opposite', () => {
  it('reset after accept, before the server read anything', async () => {
    server.onConnection = (socket) => {
      socket.pause();
      socket.resetAndDestroy();
    };
    const exchange = await postAndAudit();
    expect(exchange).toMatchObject({ kind: 'failure', reason: 'reset' });
  });

  it.each(['reset', 'end'] as const)('%s after the request was read whole', async (how) => {
    server.onRequest = ({ socket }) => (how === 'reset' ? socket.resetAndDestroy() : socket.end());
    expect(await postAndAudit()).toEqual(failure('reset', true));
    expect(server.arrivals).toHaveLength(1);
  });

  it.each(['POST', 'GET'] as const)('reset on a reused connection, with no second send of the %s', async (method) => {
    server.onRequest = ({ socket, nthOfConnection }) => (nthOfConnection === 1 ? reply(socket, '{}') : socket.resetAndDestroy());
    const plan = planFor(server.origin, { concurrency: 1 });
    const rendered = method === 'POST' ? post(server.origin) : get(server.origin);
    for (let round = 0; round < 5; round++) {
      const first = options({ upstream: plan });
      const second = options({ upstream: plan });
      expect(await upstream.send(rendered, first)).toMatchObject({ kind: 'response', status: 200 });
      const exchange = await upstream.send(rendered, second);
      expect(exchange).toEqual(failure('reset', true));
      await audit(second.attempt, exchange);
      expect(server.times(second.attempt)).toBe(1);
    }
    expect(server.connections).toBe(5);
  });

  it('an idle connection closed by the server at the moment of reuse: whichever wins, nothing is sent twice', async () => {
    server.onRequest = ({ socket, nthOfConnection }) => {
      reply(socket, '{}');
      if (nthOfConnection === 1) setImmediate(() => socket.end());
    };
    const plan = planFor(server.origin, { concurrency: 1 });
    for (let round = 0; round < 40; round++) {
      for (const rendered of [post(server.origin), get(server.origin)]) {
        const sendOptions = options({ upstream: plan });
        const exchange = await upstream.send(rendered, sendOptions);
        if (exchange.kind === 'response') expect(server.times(sendOptions.attempt)).toBe(1);
        if (!exchange.sent) expect(server.times(sendOptions.attempt)).toBe(0);
        expect(server.times(sendOptions.attempt)).toBeLessThanOrEqual(1);
        if (round % 3 === 0) await sleep(1);
      }
    }
  });

  it('a head that never comes', async () => {
    server.onRequest = () => {};
    const exchange = await postAndAudit({ deadlineMs: 150 });
    expect(exchange).toEqual(failure('deadline', true));
    expect(exchange.ms).toBeGreaterThanOrEqual(145);
    expect(exchange.ms).toBeLessThan(1500);
  });

  it('a head that drips in for ever, header by header', async () => {
    server.onRequest = ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const drip = setInterval(() => socket.write('x-drip: 1\r\n'), 20);
      socket.on('close', () => clearInterval(drip));
    };
    expect(await postAndAudit({ deadlineMs: 200 })).toEqual(failure('deadline', true));
  });

  it('an answer that is not HTTP, and one whose head is too large', async () => {
    server.onRequest = ({ socket }) => socket.write('SSH-2.0-OpenSSH_9.2\r\n');
    expect(await postAndAudit()).toEqual(failure('protocol', true));
    for (const head of [`x-large: ${'x'.repeat(20_000)}\r\n`, 'x:1\r\n'.repeat(5_000)]) {
      server.onRequest = ({ socket }) => socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n`);
      expect(await postAndAudit()).toEqual(failure('protocol', true));
    }
  });

  it('a shutdown waits for what is in flight', async () => {
    let arrived: (socket: Socket) => void = () => undefined;
    const socket = new Promise<Socket>((resolve) => { arrived = resolve; });
    server.onRequest = (request) => arrived(request.socket);
    const pending = postAndAudit();
    const held = await socket;
    const closed = upstream.close();
    reply(held, '{"late":1}');
    await closed;
    expect(await pending).toMatchObject({ kind: 'response', body: { json: { late: 1 } } });
  });
});

describe('what waits in a queue and is given up is never sent', () => {
  /** One connection, held busy by a first request until `finish` is called. */
  async function busy() {
    const plan = planFor(server.origin, { concurrency: 1 });
    let held: Socket | undefined;
    server.onRequest = ({ socket, nthOfConnection }) => {
      if (nthOfConnection === 1) held = socket;
      else reply(socket, '{"nth":2}');
    };
    const first = upstream.send(post(server.origin), options({ upstream: plan }));
    while (!held) await sleep(1);
    const socket = held;
    return { plan, first, finish: () => reply(socket, '{}') };
  }

  it('a queued POST that meets its deadline, while others behind it still go out on the same connection', async () => {
    const { plan, first, finish } = await busy();
    const doomed = options({ upstream: plan, deadlineMs: 60 });
    const patient = options({ upstream: plan });
    const [given, later] = [upstream.send(post(server.origin), doomed), upstream.send(post(server.origin), patient)];
    expect(await given).toEqual(failure('deadline', false));
    finish();
    expect(await first).toMatchObject({ kind: 'response' });
    expect(await later).toMatchObject({ kind: 'response', body: { json: { nth: 2 } } });
    expect(server.bytes).not.toContain(doomed.attempt);
    expect(server.connections).toBe(1);
  });

  it('a queued POST whose fence passes before its turn', async () => {
    const { plan, first, finish } = await busy();
    const fenced = options({ upstream: plan, sendBefore: performance.now() + 50 });
    const pending = upstream.send(post(server.origin), fenced);
    await sleep(80);
    finish();
    await first;
    expect(await pending).toEqual(failure('fence_passed', false));
    expect(await upstream.send(post(server.origin), options({ upstream: plan }))).toMatchObject({ kind: 'response' });
    expect(server.bytes).not.toContain(fenced.attempt);
    expect(server.connections).toBe(1);
  });

  it('queued POSTs when the connection they wait for is reset: only the one that was written counts as sent', async () => {
    const plan = planFor(server.origin, { concurrency: 1 });
    let broken = false;
    server.onRequest = ({ socket }) => {
      if (broken) reply(socket, '{}');
      else setTimeout(() => socket.resetAndDestroy(), 30);
      broken = true;
    };
    const sends = Array.from({ length: 5 }, () => options({ upstream: plan }));
    const exchanges = await Promise.all(sends.map((sendOptions) => upstream.send(post(server.origin), sendOptions)));
    expect(exchanges[0]).toEqual(failure('reset', true));
    for (const exchange of exchanges.slice(1)) expect(exchange).toMatchObject({ kind: 'response', status: 200 });
    for (const { attempt } of sends) expect(server.times(attempt)).toBe(1);
  });
});

describe('marks belong to their own attempt', () => {
  it('50 at once, half withheld in the queue and half cut after arrival: each is told apart', async () => {
    const plan = planFor(server.origin, { concurrency: 3 });
    server.onRequest = ({ socket, body }) => setTimeout(() => {
      const { n } = JSON.parse(body) as { n: number };
      if (n % 4 === 0 || n === 25) socket.resetAndDestroy();
      else reply(socket, body);
    }, 8);
    const sends = Array.from({ length: 50 }, (_, n) => options({ upstream: plan, deadlineMs: n % 2 ? 3000 : 12 + n, attempt: `mixed-${n}-${Math.random()}` }));
    const exchanges = await Promise.all(sends.map((sendOptions, n) => upstream.send(post(server.origin, `{"n":${n}}`), sendOptions)));
    await sleep(50);
    exchanges.forEach((exchange, n) => {
      const attempt = sends[n]?.attempt ?? '';
      expect(server.times(attempt), `attempt ${n}: ${JSON.stringify(exchange)}`).toBe(exchange.sent ? 1 : 0);
      if (exchange.kind === 'response' && 'json' in exchange.body) expect(exchange.body.json).toEqual({ n });
    });
    expect(exchanges.filter(({ sent }) => !sent).length).toBeGreaterThan(5);
    expect(exchanges.filter(({ sent, kind }) => sent && kind === 'failure').length).toBeGreaterThan(0);
    expect(exchanges.filter(({ kind }) => kind === 'response').length).toBeGreaterThan(20);
  });

  it('50 in parallel on reused connections, half of the second round reset: all of it was sent, once each', async () => {
    const plan = planFor(server.origin, { concurrency: 50 });
    server.onRequest = ({ socket, body }) => (body.includes('"kill"') ? socket.resetAndDestroy() : reply(socket, body));
    for (const round of ['warm', 'kill']) {
      const sends = Array.from({ length: 50 }, () => options({ upstream: plan }));
      const exchanges = await Promise.all(sends.map((sendOptions, n) =>
        upstream.send(post(server.origin, JSON.stringify({ n, as: n % 2 ? round : 'warm' })), sendOptions)));
      exchanges.forEach((exchange, n) => {
        expect(exchange.sent).toBe(true);
        expect(server.times(sends[n]?.attempt ?? '')).toBe(1);
        expect(exchange.kind).toBe(round === 'kill' && n % 2 ? 'failure' : 'response');
      });
    }
  });

  it('a contract cannot take the place of the attempt header or of the credential', async () => {
    credential = () => 'real';
    const sendOptions = options({ upstream: planFor(server.origin, { auth: authOf('Authorization', 'Bearer ') }) });
    await upstream.send({ ...post(server.origin), headers: { 'callgate-attempt': 'forged', authorization: 'Bearer forged' } }, sendOptions);
    const head = server.arrivals[0]?.head ?? '';
    expect(head).not.toContain('forged');
    expect(head).toContain(`\r\ncallgate-attempt: ${sendOptions.attempt}`);
    expect(head).toContain('\r\nauthorization: Bearer real');
  });
});

describe('what goes out', () => {
  it('sends the rendered bytes: path untouched, JSON headers only with a body, one user agent', async () => {
    await upstream.send(post(server.origin, '{"a":"é"}', '/a/%2e%2e/b?x=%2F&y'), options());
    await upstream.send({ ...get(server.origin, '?q'), headers: { accept: 'application/hal+json', 'if-match': '"7"' } }, options());
    const [first, second] = server.arrivals.map(({ head }) => `${head}\r\n`);
    expect(first).toMatch(/^POST \/a\/%2e%2e\/b\?x=%2F&y HTTP\/1\.1\r\n/);
    expect(first).toContain('content-type: application/json\r\n');
    expect(first).toContain('accept: application/json\r\n');
    expect(first).toContain('user-agent: callgate\r\n');
    expect(Buffer.from(server.arrivals[0]?.body ?? '', 'latin1').toString()).toBe('{"a":"é"}');
    expect(second).toMatch(/^GET \/\?q HTTP\/1\.1\r\n/);
    expect(second).not.toMatch(/content-type|content-length/);
    expect(second).toContain('accept: application/hal+json\r\n');
    expect(second).toContain('if-match: "7"\r\n');
  });

  it('reads the credential at each send', async () => {
    let token = 0;
    credential = () => `t${++token}`;
    const plan = planFor(server.origin, { auth: authOf('X-Api-Key') });
    await upstream.send(get(server.origin), options({ upstream: plan }));
    await upstream.send(get(server.origin), options({ upstream: plan }));
    expect(server.arrivals.map(({ head }) => /x-api-key: (\S+)/.exec(head)?.[1])).toEqual(['t1', 't2']);
  });

  it('waits for a credential within the deadline and before the fence, and not a byte leaves after either', async () => {
    const plan = planFor(server.origin, { auth: authOf('X-Api-Key') });
    credential = () => sleep(60).then(() => 'late');
    expect(await postAndAudit({ upstream: plan })).toMatchObject({ kind: 'response', status: 200 });
    expect(await postAndAudit({ upstream: plan, deadlineMs: 30 })).toEqual(failure('deadline', false));
    expect(await postAndAudit({ upstream: plan, sendBefore: performance.now() + 30 })).toEqual(failure('fence_passed', false));
    expect(server.arrivals).toHaveLength(1);
  });

  it('a 401 is told to where the credential came from, and is the answer all the same', async () => {
    credential = () => 'old';
    server.onRequest = ({ socket }) => reply(socket, '{}', '401 Unauthorized');
    notTaken = 0;
    expect(await postAndAudit({ upstream: planFor(server.origin, { auth: authOf('X-Api-Key') }) })).toMatchObject({ status: 401 });
    expect([notTaken, server.arrivals.length]).toEqual([1, 1]);
  });
});

describe('what comes back', () => {
  const answer = async (raw: string, then: 'keep' | 'end' | 'reset' = 'keep', overrides: Partial<SendOptions> = {}) => {
    server.onRequest = ({ socket }) => {
      socket.write(raw, 'latin1', () => {
        if (then === 'end') socket.end();
        // The peer's kernel discards unread bytes on a reset, so let them be read: by turns of the event loop, which both share.
        if (then === 'reset') void turns(50).then(() => socket.resetAndDestroy());
      });
    };
    const exchange = await postAndAudit(overrides);
    if (exchange.kind !== 'response') throw new Error(`no response but ${JSON.stringify(exchange)}`);
    return exchange;
  };
  const json = 'content-type: application/json\r\n';

  it('status, lower-case headers with repeats joined, and the parsed body', async () => {
    const exchange = await answer(`HTTP/1.1 201 Created\r\n${json}ETag: "7"\r\nX-A: 1\r\nX-A: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\ncontent-length: 9\r\n\r\n{"id":42}`);
    expect(exchange).toMatchObject({ sent: true, status: 201, body: { json: { id: 42 } }, headers: { etag: '"7"', 'x-a': '1, 2', 'set-cookie': 'a=1, b=2' } });
  });

  it.each([
    ['204', 'HTTP/1.1 204 No Content\r\n\r\n', { json: null }],
    ['an empty 200', 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n', { json: null }],
    ['cut JSON', `HTTP/1.1 200 OK\r\n${json}content-length: 5\r\n\r\n{"a":`, { unreadable: 'malformed' }],
    ['duplicate keys', `HTTP/1.1 200 OK\r\n${json}content-length: 13\r\n\r\n{"a":1,"a":2}`, { unreadable: 'malformed' }],
    ['case-29: an integer that a double cannot carry, as its exact text', `HTTP/1.1 200 OK\r\n${json}content-length: 16\r\n\r\n9007199254740993`, { json: '9007199254740993' }],
    ['ill-formed UTF-8', `HTTP/1.1 200 OK\r\n${json}content-length: 3\r\n\r\n"\xff"`, { unreadable: 'malformed' }],
    ['nesting beyond 64', `HTTP/1.1 200 OK\r\n${json}content-length: 130\r\n\r\n${'['.repeat(65)}${']'.repeat(65)}`, { unreadable: 'malformed' }],
    ['bad JSON of another JSON type', 'HTTP/1.1 422 X\r\ncontent-type: application/problem+json; charset=utf-8\r\ncontent-length: 1\r\n\r\n{', { unreadable: 'malformed' }],
    ['HTML', 'HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>', { unreadable: 'not_json' }],
    ['JSON under another type', 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}', { json: {} }],
    ['JSON under no type', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}', { json: {} }],
    ['chunks', `HTTP/1.1 200 OK\r\n${json}transfer-encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n`, { json: { a: 1 } }],
    ['early hints before the answer', `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n${json}content-length: 2\r\n\r\n{}`, { json: {} }],
  ])('%s', async (_, raw, body) => {
    expect((await answer(raw)).body).toEqual(body);
  });

  it.each([
    ['half of the announced length, then the end', `HTTP/1.1 200 OK\r\n${json}content-length: 100\r\n\r\n{"a":1}`, 'end', 'truncated'],
    ['half of the announced length, then a reset', `HTTP/1.1 200 OK\r\n${json}content-length: 100\r\n\r\n{"a":1}`, 'reset', 'truncated'],
    ['chunks with trailers without end', `HTTP/1.1 200 OK\r\n${json}transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n0\r\n${'x-more: 1\r\n'.repeat(4_000)}`, 'keep', 'truncated'],
    ['chunks without their end', `HTTP/1.1 200 OK\r\n${json}transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n`, 'end', 'truncated'],
    ['a body cut without a length', `HTTP/1.1 200 OK\r\n${json}connection: close\r\n\r\n{"a":`, 'end', 'malformed'],
  ] as const)('%s: the response stands, its body does not', async (_, raw, then, unreadable) => {
    expect(await answer(raw, then)).toMatchObject({ status: 200, body: { unreadable } });
  });

  it('a body over the bound is cut off, not collected', async () => {
    let stopped = 0;
    server.onRequest = ({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\n${json}transfer-encoding: chunked\r\n\r\n`);
      const flood = setInterval(() => socket.write(`4000\r\n${'x'.repeat(0x4000)}\r\n`), 1);
      socket.on('close', () => {
        clearInterval(flood);
        stopped++;
      });
    };
    expect(await postAndAudit()).toMatchObject({ status: 200, body: { unreadable: 'too_large' } });
    await expect.poll(() => stopped, { timeout: 5_000 }).toBe(1);
  });

  it('a body that drips past the deadline: the status is known, the body is not, and the drip cannot extend it', async () => {
    server.onRequest = ({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\n${json}content-length: 1000\r\n\r\n`);
      const drip = setInterval(() => socket.write(' '), 20);
      socket.on('close', () => clearInterval(drip));
    };
    const exchange = await postAndAudit({ deadlineMs: 200 });
    expect(exchange).toMatchObject({ kind: 'response', status: 200, body: { unreadable: 'deadline' } });
    expect(exchange.ms).toBeLessThan(1500);
  });

  it('a redirect is an answer, not an instruction', async () => {
    const other = await FaultServer.start();
    const exchange = await answer(`HTTP/1.1 302 Found\r\nlocation: ${other.origin}/\r\ncontent-length: 0\r\n\r\n`);
    expect(exchange).toMatchObject({ status: 302, headers: { location: `${other.origin}/` } });
    expect(other.connections + server.arrivals.length).toBe(1);
    await other.close();
  });

  it('a 100 that nobody asked for costs the answer but never the truth: sent, once', async () => {
    server.onRequest = ({ socket }) => socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
    expect(await postAndAudit()).toEqual(failure('protocol', true));
    expect(server.arrivals).toHaveLength(1);
  });

  it('an answer that comes before the request was fully written', async () => {
    server.onHead = (socket) => {
      socket.pause();
      reply(socket, '{"early":true}', '413 Content Too Large');
    };
    const large = JSON.stringify({ blob: 'x'.repeat(20 * 1024 * 1024) });
    const sendOptions = options();
    expect(await upstream.send(post(server.origin, large), sendOptions)).toMatchObject({ sent: true, status: 413, body: { json: { early: true } } });
    expect(server.arrivals).toHaveLength(0);
    expect(server.times(sendOptions.attempt)).toBe(1);
  });

  it('an unasked answer on an idle connection is nobody’s answer', async () => {
    const plan = planFor(server.origin, { concurrency: 1 });
    server.onRequest = ({ socket, body, nthOfConnection }) => {
      reply(socket, body);
      if (nthOfConnection === 1) reply(socket, '{"n":"smuggled"}');
    };
    for (let n = 0; n < 10; n++) {
      const exchange = await upstream.send(post(server.origin, `{"n":${n}}`), options({ upstream: plan }));
      if (exchange.kind === 'response') expect(exchange.body).toEqual({ json: { n } });
    }
  });
});

/** A listener whose thread sleeps with its accept queue full: the kernel drops every further SYN. */
async function fullBacklog() {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     const received = [];
     const server = require('node:net').createServer((socket) => socket.on('error', () => {}).on('data', (chunk) => received.push(chunk)));
     server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       setTimeout(() => {
         parentPort.postMessage('asleep');
         Atomics.wait(workerData, 0, 0);
         setTimeout(() => parentPort.postMessage(Buffer.concat(received).toString('latin1')), 1500);
       }, 20);
     });`,
    { eval: true, workerData: gate },
  );
  const [port] = (await once(worker, 'message')) as [number];
  await once(worker, 'message');
  const fillers: Socket[] = [];
  for (let stuck = false; !stuck;) {
    const filler = connect(port, '127.0.0.1').on('error', () => {});
    fillers.push(filler);
    stuck = await Promise.race([once(filler, 'connect').then(() => false), sleep(700).then(() => true)]);
  }
  return {
    origin: `http://127.0.0.1:${port}`,
    /** Lets the listener accept at last; gives every byte that it was ever sent. */
    async release(): Promise<string> {
      const bytes = once(worker, 'message') as Promise<[string]>;
      Atomics.store(gate, 0, 1);
      Atomics.notify(gate, 0);
      const [text] = await bytes;
      for (const filler of fillers) filler.destroy();
      await worker.terminate();
      return text;
    },
  };
}
