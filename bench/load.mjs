/**
 * The load generator: a closed loop of `clients` connections over plain sockets, in a process of its own (see `run.mjs`). It parses no more
 * of an answer than its length, its status and whether an expected text is in it, so that it is never what is being measured.
 */
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { percentiles } from './figures.mjs';

const headEnd = Buffer.from('\r\n\r\n');

/**
 * @param job `{urls, method, path, headers, body, expect, clients, seconds, prefix, first?, keys?, calls?}`: `$n` in path, headers and body becomes
 *   `prefix` and the number of the call, which runs from `first`, or round and round over `keys` of them; it ends after `seconds` or `calls`.
 *   The clients are dealt over the `urls`.
 * @returns `{calls, errors, firstError, seconds, latencyMs: {p50, p95, p99}, cpuSeconds}`
 */
export async function run(job) {
  const servers = job.urls.map((url) => new URL(url));
  const render = renderer(job);
  const latencies = [];
  const tally = { errors: 0, firstError: null };
  let next = 0;
  const cpu = process.cpuUsage();
  const started = performance.now();
  const until = started + job.seconds * 1000;
  const calls = job.calls ?? Infinity;

  await Promise.all(Array.from({ length: job.clients }, (_, n) => client({
    host: servers[n % servers.length].hostname, port: Number(servers[n % servers.length].port), expect: Buffer.from(job.expect),
    nextRequest: () => (performance.now() < until && next < calls ? render(next++) : null),
    answered: (ms) => { latencies.push(ms); },
    failed: (why) => { tally.errors++; tally.firstError ??= why; },
  })));

  const used = process.cpuUsage(cpu);
  return {
    calls: latencies.length, ...tally, seconds: (performance.now() - started) / 1000,
    latencyMs: percentiles(latencies), cpuSeconds: (used.user + used.system) / 1e6,
  };
}

function renderer({ method, path, headers, body, prefix, keys, first = 0 }) {
  const head = [`${method} ${path} HTTP/1.1`, 'host: 127.0.0.1', ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join('\r\n');
  return (n) => {
    const number = `${prefix}${first + (keys ? n % keys : n)}`;
    const text = body.replaceAll('$n', number);
    const length = body === '' ? '' : `\r\ncontent-length: ${text.length}`;
    return `${head.replaceAll('$n', number)}${length}\r\n\r\n${text}`;
  };
}

/** One connection, one call at a time, until there is no next one. */
function client({ host, port, expect, nextRequest, answered, failed }) {
  return new Promise((resolve) => {
    const socket = connect({ host, port, noDelay: true });
    let pending = null;
    let sentAt = 0;
    const next = () => {
      const request = nextRequest();
      if (request === null) return socket.end();
      sentAt = performance.now();
      return socket.write(request, 'latin1');
    };
    socket.on('connect', next);
    socket.on('data', (chunk) => {
      pending = pending ? Buffer.concat([pending, chunk]) : chunk;
      const answer = complete(pending);
      if (!answer) return;
      const bytes = pending;
      pending = null;
      if (answer.status === 200 && bytes.includes(expect)) answered(performance.now() - sentAt);
      else failed(bytes.toString('latin1').slice(0, 600));
      next();
    });
    socket.on('error', (error) => failed(error.message));
    socket.on('close', resolve);
  });
}

function complete(bytes) {
  const end = bytes.indexOf(headEnd);
  if (end < 0) return null;
  const head = bytes.latin1Slice(0, end);
  const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  return bytes.length < end + 4 + length ? null : { status: Number(head.slice(9, 12)) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.on('message', async (job) => process.send(await run(job)));
  process.on('disconnect', () => process.exit());
}
