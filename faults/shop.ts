/** The example service as a process of its own that keeps its books when it is killed. */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type BoundProcess, spawnBound } from '../src/embedded/bound-process.js';
import { freePort } from '../src/embedded/free-port.js';
import { projectFile } from '../src/project.js';
import type { Books } from './history.js';
import type { Stock } from './orders.js';
import type { UpstreamFault } from './plan.js';

export interface Shop {
  url: string;
  token: string;
  arm(fault: UpstreamFault): Promise<void>;
  books(): Promise<Books>;
  /** How often each kind of fault was met since the beginning. */
  met(): Promise<Record<string, number>>;
  /** What it has accepted is due while it is away, and happens when it is back. */
  kill(pauseMs: number): Promise<void>;
  reset(): Promise<void>;
  stop(): Promise<void>;
}

const token = 'token-of-the-fault-suite';

export async function startShop(folder: string, stock: Stock): Promise<Shop> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const before: Record<string, number> = {};
  const launch = (): Promise<BoundProcess> => launchService(folder, port, stock);
  let server = await launch();
  const ask = async (path: string, method = 'GET', body?: object): Promise<unknown> => {
    // It may be away for the moment: a backstage request is made again until it is heard.
    for (let tries = 0; ; tries++) {
      try {
        const response = await fetch(url + path, { method, ...(body ? { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } } : {}) });
        const said = await response.json();
        if (!response.ok) throw new Refused(JSON.stringify(said));
        return said;
      } catch (error) {
        if (error instanceof Refused || tries === 100) throw error;
        await delay(100);
      }
    }
  };
  const met = async (): Promise<Record<string, number>> => add({ ...before }, ((await ask('/_faults')) as { met: Record<string, number> }).met);
  return {
    url, token, met,
    async arm({ tool, kind, ms }) { await ask('/_faults', 'POST', { tool, kind, ms }); },
    books: async () => (await ask('/_books')) as Books,
    async kill(pauseMs) {
      Object.assign(before, await met());
      server.signal('SIGKILL');
      await server.ended;
      await delay(pauseMs);
      server = await launch();
    },
    async reset() {
      Object.assign(before, await met());
      await ask('/_reset', 'POST');
    },
    async stop() {
      server.signal('SIGKILL');
      await server.ended;
    },
  };
}

class Refused extends Error {}

function add(sums: Record<string, number>, more: Record<string, number>): Record<string, number> {
  for (const [kind, times] of Object.entries(more)) sums[kind] = (sums[kind] ?? 0) + times;
  return sums;
}

async function launchService(folder: string, port: number, stock: Stock): Promise<BoundProcess> {
  const lines: string[] = [];
  let ready = (): void => undefined;
  const isReady = new Promise<'ready'>((resolve) => { ready = () => resolve('ready'); });
  const server = await spawnBound([process.execPath, projectFile('dist', 'faults', 'service.js')], {
    farewell: 'KILL',
    env: {
      PATH: process.env['PATH'], PORT: String(port), RETAIL_TOKEN: token, RETAIL_JOURNAL: join(folder, 'service.journal'),
      FAULTS_DELIVERED: String(stock.delivered), FAULTS_PENDING: String(stock.pending),
    },
    onLine: (line) => {
      if (lines.push(line) > 20) lines.shift();
      if (line.startsWith('listening on')) ready();
    },
  });
  if (await Promise.race([isReady, server.ended]) !== 'ready') throw new Error(`the service did not start: ${lines.join('\n')}`);
  return server;
}
