import { access, chmod, constants, mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { chooseAccount } from './account.js';
import { findBinaries, type Binaries } from './binaries.js';
import { spawnBound, type BoundProcess } from './bound-process.js';
import { connectionUrl, openCluster, type Cluster } from './cluster.js';
import { EmbeddedPostgresError, quote } from './failure.js';
import { freePort } from './free-port.js';
import { ensureAlone, instanceOn, inUse } from './other-instance.js';
import type { Account } from './run.js';

export interface EmbeddedPostgresOptions {
  /** Where the data live; made if absent. At most one Postgres runs on it. */
  dataDir: string;
  /** Absent: a free one, another at each start. */
  port?: number;
  /** Each line of the server's log. */
  log?: (line: string) => void;
  /** The folder of the npm package with the binaries; absent: the installed one for this platform. */
  packageDir?: string;
}

export interface EmbeddedPostgres {
  /** `postgres://…@127.0.0.1:PORT/callgate`, with the password of a superuser. */
  url: string;
  /** Of the postmaster itself. */
  pid: number;
  /** Breaks off open sessions, writes a checkpoint, and resolves when the server has ended. May be called again. */
  stop(): Promise<void>;
}

/**
 * Starts a real Postgres on 127.0.0.1 that lives as long as this process at most, and makes its data folder at the first start.
 * @throws EmbeddedPostgresError with what failed and how to mend it.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = await openFolder(options.dataDir);
  await ensureAlone(join(dataDir, 'cluster'));
  const binaries = await findBinaries(options.packageDir, dataDir);
  const account = await chooseAccount(binaries, dataDir);
  const cluster = await openCluster(dataDir, binaries, account);
  const log = options.log ?? (() => undefined);
  const { port, server } = await launch(cluster, binaries, account, options.port, log);
  return { url: connectionUrl(cluster, port), pid: server.pid, stop: stopper(server, log) };
}

/** As root, the account that Postgres runs in must be able to pass through; what is inside keeps its own modes. */
async function openFolder(path: string): Promise<string> {
  const dataDir = resolve(path);
  try {
    const made = await mkdir(dataDir, { recursive: true });
    if (made !== undefined) await chmod(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700);
    await access(dataDir, constants.W_OK | constants.X_OK);
    return dataDir;
  } catch (error) {
    throw new EmbeddedPostgresError(
      `The data folder ${dataDir} cannot be used: ${(error as Error).message}. Choose another one with CALLGATE_DATA_DIR.`,
      { cause: error });
  }
}

interface Launched { port: number; server: BoundProcess }
/** A standby takes reads only. */
const readyLine = /database system is ready to accept (read-only )?connections/;
const portTaken = /could not bind|Address already in use/;
const recoveryMs = 120_000;

/** A free port can be taken by another program between finding and using it, so a port of our own choice is chosen again. */
async function launch(
  cluster: Cluster, binaries: Binaries, account: Account, fixedPort: number | undefined, log: (line: string) => void,
): Promise<Launched> {
  for (let tries = 1; ; tries++) {
    const port = fixedPort ?? await freePort();
    const lines: string[] = [];
    const server = await startServer(cluster, binaries, account, port, (line) => {
      if (lines.push(line) > 40) lines.shift();
      log(line);
    });
    if (server !== null) return { port, server };
    const output = lines.join('\n');
    if (/lock file "postmaster.pid" already exists/.test(output)) throw inUse(cluster.dir, await instanceOn(cluster.dir));
    const mend = portTaken.test(output) ? `Port ${port} is taken: stop the program that has it or choose another port.\n` : '';
    if (mend === '' || fixedPort !== undefined || tries === 5) {
      throw new EmbeddedPostgresError(
        `The embedded Postgres did not start (as ${account.name}, data in ${cluster.dir}). ${mend}Its last words:\n${quote(lines)}`);
    }
  }
}

/** @returns null when the server ended, or was ended, before it was ready. */
async function startServer(
  cluster: Cluster, binaries: Binaries, account: Account, port: number, onLine: (line: string) => void,
): Promise<BoundProcess | null> {
  let ready = (): void => undefined;
  const isReady = new Promise<'ready'>((resolve) => { ready = () => resolve('ready'); });
  const server = await spawnBound([...account.prefix, ...serverCommand(cluster, binaries, port)], {
    farewell: 'INT',
    env: binaries.env,
    ...(account.uid === undefined ? {} : { uid: account.uid }),
    onLine: (line) => {
      onLine(line);
      if (readyLine.test(line)) ready();
    },
  });
  const timer = setTimeout(() => {
    onLine(`not ready after ${recoveryMs / 1000} s, given up`);
    server.signal('SIGQUIT');
  }, recoveryMs);
  const first = await Promise.race([isReady, server.ended]);
  clearTimeout(timer);
  return first === 'ready' ? server : null;
}

function serverCommand(cluster: Cluster, binaries: Binaries, port: number): string[] {
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    // A socket's path is limited to about 100 bytes, which a deep home exceeds.
    unix_socket_directories: '',
    fsync: 'on',
    synchronous_commit: 'on',
    logging_collector: 'off',
    log_line_prefix: '',
    timezone: 'UTC',
    log_timezone: 'UTC',
  };
  return [binaries.postgres, '-D', cluster.dir, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

const fastMs = 20_000;

/** Fast shutdown; when a backend does not heed it, immediate shutdown, which costs a recovery at the next start and no data. */
function stopper(server: BoundProcess, log: (line: string) => void): () => Promise<void> {
  let stopped: Promise<void> | undefined;
  void server.ended.then((how) => {
    if (stopped === undefined) log(`the embedded Postgres (pid ${server.pid}) ended by itself: ${how}`);
  });
  const stop = async (): Promise<void> => {
    server.signal('SIGINT');
    const timer = setTimeout(() => server.signal('SIGQUIT'), fastMs);
    await server.ended;
    clearTimeout(timer);
  };
  return () => stopped ??= stop();
}
