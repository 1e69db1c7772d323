/** The replicas: the built gateway, each a process of its own with a wall clock of its own, killed, frozen, drained and started again. */
import { setTimeout as delay } from 'node:timers/promises';
import { type BoundProcess, spawnBound } from '../src/embedded/bound-process.js';
import { projectFile } from '../src/project.js';

export interface Replica { agentUrl: string; controlUrl: string }

export interface Fleet {
  /** Resolves when there is one. */
  someUp(): Promise<void>;
  /** One that is up, if any is; `n` chooses among them. */
  any(n: number): Replica;
  kill(n: number, pauseMs: number): Promise<void>;
  freeze(n: number, ms: number): Promise<void>;
  /** SIGTERM. @throws Error when it does not end with code 0. */
  drain(n: number, pauseMs: number): Promise<void>;
  /** The last lines of each that ended otherwise than it was told to. */
  unexpected(): string[];
  stop(): Promise<void>;
}

interface Place { up: (Replica & { process: BoundProcess; told: boolean }) | null; last: Replica }

/** A day wrong would be more than NTP ever leaves; minutes are what virtual machines wake up with. */
const skewsMs = [0, 7 * 60_000, -11 * 60_000, 90_000, -3_600_000];

export async function startFleet(size: number, env: Record<string, string>): Promise<Fleet> {
  const deaths: string[] = [];
  const places: Place[] = await Promise.all(Array.from({ length: size }, async (_, n) => {
    const up = await launch(env, skewsMs[n % skewsMs.length] as number, deaths);
    return { up, last: up };
  }));
  const at = (n: number): Place => places[n % size] as Place;
  const again = async (n: number, pauseMs: number): Promise<void> => {
    await delay(pauseMs);
    const up = await launchAgain(env, skewsMs[n % size % skewsMs.length] as number, deaths);
    Object.assign(at(n), { up, last: up });
  };
  const end = async (n: number, signal: NodeJS.Signals): Promise<string> => {
    const place = at(n);
    const { up } = place;
    if (!up) return 'away';
    place.up = null;
    up.told = true;
    up.process.signal(signal);
    return up.process.ended;
  };
  return {
    async someUp() {
      while (places.every(({ up }) => up === null)) await delay(50);
    },
    any(n) {
      const up = places.filter((place) => place.up !== null);
      return (up.length > 0 ? (up[n % up.length] as Place) : at(n)).last;
    },
    async kill(n, pauseMs) {
      await end(n, 'SIGKILL');
      await again(n, pauseMs);
    },
    async freeze(n, ms) {
      const { up } = at(n);
      up?.process.signal('SIGSTOP');
      await delay(ms);
      up?.process.signal('SIGCONT');
    },
    async drain(n, pauseMs) {
      const how = await end(n, 'SIGTERM');
      if (how !== 'exit code 0' && how !== 'away') deaths.push(`a replica that was told to stop ended with ${how}`);
      await again(n, pauseMs);
    },
    unexpected: () => deaths,
    async stop() {
      for (const [n] of places.entries()) await end(n, 'SIGKILL');
    },
  };
}

/** As whatever looks after processes does: one that cannot start yet, because Postgres is away, is started again. */
async function launchAgain(env: Record<string, string>, skewMs: number, deaths: string[]): ReturnType<typeof launch> {
  for (let tries = 0; ; tries++) {
    try {
      return await launch(env, skewMs, deaths);
    } catch (error) {
      if (tries === 60) throw error;
      await delay(500);
    }
  }
}

async function launch(env: Record<string, string>, skewMs: number, deaths: string[]): Promise<Replica & { process: BoundProcess; told: boolean }> {
  const lines: string[] = [];
  let ready: (urls: RegExpExecArray) => void = () => undefined;
  const isReady = new Promise<RegExpExecArray>((resolve) => { ready = resolve; });
  const started = await spawnBound([process.execPath, projectFile('bin', 'callgate.mjs'), 'serve'], {
    farewell: 'KILL',
    env: { PATH: process.env['PATH'], ...env, FAULTS_SKEW_MS: String(skewMs), NODE_OPTIONS: `--import=${projectFile('dist', 'faults', 'skewed-clock.js')}` },
    onLine: (line) => {
      if (lines.push(line) > 20) lines.shift();
      const urls = /agents at (http:\S+) and people at (http:\S+)/.exec(line);
      if (urls) ready(urls);
    },
  });
  const first = await Promise.race([isReady, started.ended]);
  if (typeof first === 'string') throw new Error(`a gateway ended (${first}) before it served:\n${lines.join('\n')}`);
  const replica = { agentUrl: first[1] as string, controlUrl: first[2] as string, process: started, told: false };
  void started.ended.then((how) => {
    if (!replica.told) deaths.push(`a replica ended by itself (${how}):\n${lines.join('\n')}`);
  });
  return replica;
}
