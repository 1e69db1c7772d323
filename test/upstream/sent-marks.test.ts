import { once } from 'node:events';
import { Pool } from 'undici';
import { describe, expect, it } from 'vitest';
import { attemptHeader, watchAttempt, watchedAttempts } from '../../src/upstream/sent-marks.js';
import { FaultServer, mintAttempt, reply } from './fault-server.js';

const request = (pool: Pool, attempt: string, others: Record<string, string> = {}) =>
  pool.request({ method: 'POST', path: '/', headers: { ...others, [attemptHeader]: attempt }, body: '{}' }).then(({ body }) => body.dump());

describe('sent marks', () => {
  it('name the attempt in the head, also on one reused connection with the others queued behind it', async () => {
    const server = await FaultServer.start();
    const pool = new Pool(server.origin, { connections: 1, pipelining: 1 });
    const attempts = Array.from({ length: 6 }, mintAttempt);
    const marks = attempts.map(watchAttempt);
    const seen: boolean[][] = [];
    server.onRequest = ({ socket }) => {
      seen.push(marks.map(({ sent }) => sent));
      reply(socket, '{}');
    };
    await Promise.all(attempts.map((attempt) => request(pool, attempt)));
    expect(server.connections).toBe(1);
    expect(seen).toEqual(attempts.map((_, n) => attempts.map((__, m) => m <= n)));
    for (const mark of marks) mark.release();
    expect(watchedAttempts()).toBe(0);
    await pool.close();
    await server.close();
  });

  it('are not set by another header that quotes the attempt, nor by a prefix of it', async () => {
    const server = await FaultServer.start();
    const pool = new Pool(server.origin, { connections: 1 });
    const [attempt, longer] = [mintAttempt(), `${mintAttempt()}0`];
    const marks = [watchAttempt(attempt), watchAttempt(longer.slice(0, -1)), watchAttempt(longer)];
    await request(pool, longer, { 'x-note': `callgate-attempt: ${attempt}`, 'x-callgate-attempt': attempt });
    expect(marks.map(({ sent }) => sent)).toEqual([false, false, true]);
    for (const mark of marks) mark.release();
    await pool.close();
    await server.close();
  });

  it('stay unset while connecting fails', async () => {
    const server = await FaultServer.start();
    const { origin } = server;
    await server.close();
    const pool = new Pool(origin);
    const attempt = mintAttempt();
    const mark = watchAttempt(attempt);
    await expect(request(pool, attempt)).rejects.toThrow('ECONNREFUSED');
    expect(mark.sent).toBe(false);
    mark.release();
    await pool.close();
  });

  it('of two watchers of one attempt, the release of the first does not blind the second', async () => {
    const server = await FaultServer.start();
    const pool = new Pool(server.origin);
    const attempt = mintAttempt();
    const [first, second] = [watchAttempt(attempt), watchAttempt(attempt)];
    first.release();
    server.onRequest = ({ socket }) => socket.end();
    await Promise.allSettled([request(pool, attempt), once(pool, 'connect')]);
    expect(second.sent).toBe(true);
    second.release();
    expect(watchedAttempts()).toBe(0);
    await pool.close();
    await server.close();
  });
});
