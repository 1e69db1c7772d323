import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** In whose name Postgres runs. */
export interface Account {
  name: string;
  /** Put before the command. */
  prefix: readonly string[];
  /** The uid to spawn with, where Node itself changes it. */
  uid?: number;
  /** The owner, seen from here, that the cluster's files must have; absent: no choice, they are ours. */
  owner?: number;
}

/** Runs a program in the name of the account to its end. Failing to start counts as a result, since probing expects it. */
export async function run(
  account: Account, command: readonly string[], env: NodeJS.ProcessEnv, input = '',
): Promise<{ ok: boolean; lines: string[] }> {
  const [program, ...rest] = [...account.prefix, ...command] as [string, ...string[]];
  const child = spawn(program, rest, { env, cwd: '/', ...(account.uid === undefined ? {} : { uid: account.uid, gid: account.uid }) });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', (line) => lines.push(line));
  child.stdin.on('error', () => undefined).end(input);
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ ok: false, lines: [error.message] }));
    child.once('close', (code) => resolve({ ok: code === 0, lines }));
  });
}
