import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Writable } from 'node:stream';

/**
 * Descriptor 3 is a pipe that only this Node process holds. However Node ends, kill -9 included, the pipe closes and the
 * watcher signals the program; a line on it tells the watcher that the program is gone and its pid may be another's by now.
 * The shell then becomes the program, so its pid is the program's and no wrapper is left to be killed in between; the watcher is
 * orphaned on purpose, because Postgres takes the death of a child that it does not know for a crash.
 * Rejected: `setpriv --pdeathsig`, which fires when the spawning *thread* ends, is lost when a uid changes after it, misses a
 * parent that is dead already, and does not exist on macOS.
 */
const guard = '( ( read _ <&3 || kill -s "$0" $$ ) >/dev/null 2>&1 & ); exec "$@" 3<&-';

export interface BoundOptions {
  /** Sent to the program when this process ends without having stopped it, without the `SIG`. */
  farewell: 'INT' | 'TERM' | 'KILL';
  env: NodeJS.ProcessEnv;
  uid?: number;
  /** Each line of standard output and standard error. */
  onLine: (line: string) => void;
}

export interface BoundProcess {
  readonly pid: number;
  signal(name: NodeJS.Signals): void;
  /** Resolves when the program has ended, with words for the log: `exit code 1`, `SIGKILL`. */
  readonly ended: Promise<string>;
}

/**
 * Starts a program that does not outlive this Node process. It gets a session of its own, so that Ctrl-C reaches us alone and the
 * order of shutting down is ours.
 * @throws when the program cannot be spawned at all; a program that is not found ends with exit code 127.
 */
export async function spawnBound(command: readonly string[], options: BoundOptions): Promise<BoundProcess> {
  const child = spawn('/bin/sh', ['-c', guard, options.farewell, ...command], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: true,
    cwd: '/',
    env: options.env,
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
  });
  const ended = untilEnded(child);
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream! }).on('line', options.onLine);
  await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
  return { pid: child.pid!, signal: (name) => void child.kill(name), ended };
}

function untilEnded(child: ChildProcess): Promise<string> {
  const life = child.stdio[3] as Writable;
  life.on('error', () => undefined);
  return new Promise((resolve) => {
    let how = '';
    child.once('exit', (code, signal) => {
      how = signal ?? `exit code ${code}`;
      life.end('gone\n');
    });
    // `close` comes after the last line of output, which is the one that says why.
    child.once('close', () => resolve(how));
  });
}
