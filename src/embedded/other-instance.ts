import { readFile, readlink, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgresError } from './failure.js';

interface Instance { pid: number; port: string; stopping: boolean }

/** A Postgres whose Callgate was killed a moment ago is about to be told so; one that is told finishes its checkpoint first. */
const graceMs = 1_000;
const stoppingMs = 30_000;

/**
 * Makes sure that no Postgres runs on this cluster: waits for one that is ending, and clears a pid file that a crash left.
 * @throws EmbeddedPostgresError naming the pid of an instance that is alive and stays.
 */
export async function ensureAlone(cluster: string): Promise<void> {
  const startedAt = performance.now();
  for (;;) {
    const other = await instanceOn(cluster);
    if (other === null) return;
    if (performance.now() - startedAt > (other.stopping ? stoppingMs : graceMs)) throw inUse(cluster, other);
    await sleep(50);
  }
}

export function inUse(cluster: string, other: { pid: number; port: string } | null): EmbeddedPostgresError {
  const who = other === null ? 'a Postgres that has just started' : `a running Postgres, pid ${other.pid}, port ${other.port}`;
  const stop = other === null ? '' : ` or \`kill -INT ${other.pid}\``;
  return new EmbeddedPostgresError(
    `The data folder ${cluster} is in use by ${who}; probably another Callgate runs on it. `
    + `Stop that one (Ctrl-C in its terminal,${stop}), or choose another folder with CALLGATE_DATA_DIR.`);
}

/** The live Postgres that the cluster's pid file names, if any. */
export async function instanceOn(cluster: string): Promise<Instance | null> {
  const file = join(cluster, 'postmaster.pid');
  const lines = (await readFile(file, 'utf8').catch(() => '')).split('\n').map((line) => line.trim());
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0 || !isAlive(pid)) return null;
  if (await isPostgresOn(cluster, pid)) return { pid, port: lines[3] || 'unknown', stopping: lines[7] === 'stopping' };
  // The pid belongs to some other program by now (usual when a container restarts), and Postgres would take that for its like.
  await rm(file, { force: true });
  return null;
}

/** A postmaster works in its data folder. Where the system does not tell, a live pid has to be believed. */
async function isPostgresOn(cluster: string, pid: number): Promise<boolean> {
  if (process.platform !== 'linux') return true;
  const works = await readlink(`/proc/${pid}/cwd`).catch(() => null);
  return works === await realpath(cluster);
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
