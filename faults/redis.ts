/** A redis-server on a port that stays the same: killed, started again, emptied and frozen. */
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { type BoundProcess, spawnBound } from '../src/embedded/bound-process.js';
import { freePort } from '../src/embedded/free-port.js';

export interface Redis {
  url: string;
  kill(pauseMs: number): Promise<void>;
  flush(): Promise<void>;
  freeze(ms: number): Promise<void>;
  stop(): Promise<void>;
}

/** @throws Error where there is no redis-server. */
export async function startRedis(): Promise<Redis> {
  const port = await freePort();
  let server = await launch(port);
  return {
    url: `redis://127.0.0.1:${port}`,
    async kill(pauseMs) {
      server.signal('SIGKILL');
      await server.ended;
      await delay(pauseMs);
      server = await launch(port);
    },
    flush: () => new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write('FLUSHALL\r\n'));
      socket.once('data', () => {
        socket.end();
        resolve();
      }).once('error', reject);
    }),
    async freeze(ms) {
      server.signal('SIGSTOP');
      await delay(ms);
      server.signal('SIGCONT');
    },
    async stop() {
      server.signal('SIGKILL');
      await server.ended;
    },
  };
}

async function launch(port: number): Promise<BoundProcess> {
  let ready = (): void => undefined;
  const isReady = new Promise<'ready'>((resolve) => { ready = () => resolve('ready'); });
  const server = await spawnBound(['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', tmpdir()], {
    farewell: 'KILL', env: { PATH: process.env['PATH'], LC_ALL: 'C' },
    onLine: (line) => { if (line.includes('Ready to accept connections')) ready(); },
  });
  const first = await Promise.race([isReady, server.ended]);
  if (first !== 'ready') throw new Error(`redis-server did not start (${first}): install it (apt-get install redis-server).`);
  return server;
}
