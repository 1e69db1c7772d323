import { connect } from 'node:net';
import { expect, inject, test, vi } from 'vitest';
import { freshDatabase, startRedis } from '../support/servers.js';
import { ask, isAlive } from './launched.js';

const hasRedis = inject('redisUrl') !== null;

test('every fresh database is empty and apart from the others', async () => {
  const [one, other] = await Promise.all([freshDatabase(inject('databaseUrl')), freshDatabase(inject('databaseUrl'))]);
  await ask(one, 'create table mine as select 1');
  expect(await ask(one, `select to_regclass('mine') is not null`)).toBe(true);
  expect(await ask(other, `select to_regclass('mine') is null`)).toBe(true);
});

function ping(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write('PING\r\n'));
    socket.once('error', reject).once('data', (answer) => { resolve(String(answer)); socket.destroy(); });
  });
}

test.runIf(hasRedis)('the provided Redis answers', async () => {
  expect(await ping(inject('redisUrl')!)).toBe('+PONG\r\n');
});

test.runIf(hasRedis)('a Redis of one’s own can be killed by its pid without harm to the provided one', async () => {
  const redis = await startRedis();
  expect(await ping(redis.url)).toBe('+PONG\r\n');
  process.kill(redis.pid, 'SIGKILL');
  await vi.waitFor(() => expect(isAlive(redis.pid)).toBe(false));
  await expect(ping(redis.url)).rejects.toThrow(/ECONNREFUSED/);
  expect(await ping(inject('redisUrl')!)).toBe('+PONG\r\n');
  await redis.stop();
});
