import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { give } from './account.js';
import type { Binaries } from './binaries.js';
import { EmbeddedPostgresError, quote } from './failure.js';
import { isAlive } from './other-instance.js';
import { run, type Account } from './run.js';

export const database = 'callgate';
const superuser = 'callgate';
const passwordFile = 'callgate.password';

export interface Cluster {
  /** Postgres' own data folder. */
  dir: string;
  password: string;
}

/** Opens the cluster of a data folder, or makes it at the first start: UTF-8, one superuser, one database. */
export async function openCluster(dataDir: string, binaries: Binaries, account: Account): Promise<Cluster> {
  const dir = join(dataDir, 'cluster');
  if (await readPassword(dir) === null) {
    await removeAbandoned(dataDir);
    await publish(await create(dataDir, binaries, account), dir);
  }
  const password = await readPassword(dir);
  if (password === null) {
    throw new EmbeddedPostgresError(
      `The folder ${dir} was not made by Callgate: it has no ${passwordFile}. Choose another folder with CALLGATE_DATA_DIR.`);
  }
  await give(dir, account);
  return { dir, password };
}

export function connectionUrl(cluster: Cluster, port: number): string {
  return `postgres://${superuser}:${cluster.password}@127.0.0.1:${port}/${database}`;
}

/** Other users of the machine reach 127.0.0.1 as well; the password keeps them out. */
async function readPassword(cluster: string): Promise<string | null> {
  return readFile(join(cluster, passwordFile), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw new EmbeddedPostgresError(
      `The data folder ${cluster} cannot be read (${error.code}), probably because another user made it. `
      + 'Run as that user, or choose another folder with CALLGATE_DATA_DIR.', { cause: error });
  });
}

/**
 * Everything is made in a folder of its own and renamed when complete, so that a start which is killed half-way leaves nothing
 * that looks like a cluster, and of two first starts at the same moment one wins.
 * @returns the new folder.
 */
async function create(dataDir: string, binaries: Binaries, account: Account): Promise<string> {
  const draft = await mkdtemp(join(dataDir, `draft-${process.pid}-`));
  const [dir, secret] = [join(draft, 'cluster'), join(draft, passwordFile)];
  await mkdir(dir, { mode: 0o700 });
  await writeFile(secret, randomBytes(24).toString('base64url'), { mode: 0o600 });
  // Another uid passes through the draft, which is ours, to the two that are its own.
  await chmod(draft, account.owner ? 0o711 : 0o700);
  for (const path of [dir, secret]) await give(path, account);
  // The builtin locale provider sorts the same on every platform; the libraries of the system have no say.
  await must(account, binaries, [
    binaries.initdb, '-D', dir, '-U', superuser, `--pwfile=${secret}`, '--auth=scram-sha-256', '--encoding=UTF8',
    '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--no-instructions',
  ]);
  await must(account, binaries, [binaries.postgres, '--single', '-D', dir, 'postgres'], `create database ${database}\n`);
  await rename(secret, join(dir, passwordFile));
  return draft;
}

async function must(account: Account, binaries: Binaries, command: string[], input?: string): Promise<void> {
  const { ok, lines } = await run(account, command, binaries.env, input);
  // Single-user mode ends with code 0 after a statement that failed.
  if (!ok || lines.some((line) => /\b(ERROR|FATAL|PANIC):/.test(line))) {
    throw new EmbeddedPostgresError(`The embedded Postgres could not make its data folder (as ${account.name}):\n${quote(lines)}`);
  }
}

async function publish(draft: string, dir: string): Promise<void> {
  try {
    await rename(join(draft, 'cluster'), dir);
  } catch (error) {
    // Another start was first; its cluster is complete.
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function removeAbandoned(dataDir: string): Promise<void> {
  for (const name of await readdir(dataDir)) {
    const maker = /^draft-(\d+)-/.exec(name)?.[1];
    if (maker !== undefined && !isAlive(Number(maker))) await rm(join(dataDir, name), { recursive: true, force: true });
  }
}
