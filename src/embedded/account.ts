import { chown, lstat, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Binaries } from './binaries.js';
import { EmbeddedPostgresError, quote, useServer } from './failure.js';
import { run, type Account } from './run.js';

/**
 * Postgres refuses to run as root, and initdb refuses a uid without a name. No single way out works everywhere, so the ways are
 * tried in order of least privilege and the first that can run the programs and write in the data folder is taken:
 * another uid cannot pass a 0700 home or read a node_modules installed under umask 077; a user namespace keeps root's right to its own
 * files but is forbidden in most containers, and does not open the home of another user; a uid that keeps the one capability of
 * passing file modes does all of that but needs util-linux and the capability.
 */
async function candidates(): Promise<Account[]> {
  const nobody = await uidOfNobody();
  const namespace = ['unshare', '--user', `--map-user=${nobody}`, '--'];
  if (process.getuid?.() !== 0) {
    return [
      { name: 'the present user', prefix: [] },
      { name: 'a user namespace', prefix: namespace },
    ];
  }
  const capable = [
    'setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups', '--inh-caps=+dac_override', '--ambient-caps=+dac_override', '--',
  ];
  return [
    { name: 'nobody', prefix: [], uid: nobody, owner: nobody },
    { name: 'a user namespace', prefix: namespace, owner: 0 },
    { name: 'nobody with the capability DAC_OVERRIDE', prefix: capable, owner: nobody },
  ];
}

async function uidOfNobody(): Promise<number> {
  const users = await readFile('/etc/passwd', 'utf8').catch(() => '');
  const uid = Number(/^nobody:[^:]*:(\d+):/m.exec(users)?.[1]);
  return uid > 0 ? uid : 65534;
}

/** @throws EmbeddedPostgresError with the reason of every candidate that was tried. */
export async function chooseAccount(binaries: Binaries, dataDir: string): Promise<Account> {
  const reasons: string[] = [];
  for (const account of await candidates()) {
    const trial = await attempt(account, binaries, dataDir);
    if (trial === null) return account;
    reasons.push(`as ${account.name}:`, ...trial);
  }
  throw new EmbeddedPostgresError(
    `The embedded Postgres cannot run here. Tried in turn, with data in ${dataDir}:\n${quote(reasons)}\n`
    + `Run as an ordinary user who owns that folder, choose another folder with CALLGATE_DATA_DIR, ${useServer}.`);
}

const trialScript = 'test "$(id -u)" -ne 0 && id -un && "$0" --version && "$1" --version && : > "$2/written"';

/** @returns null when it works, else what it said. */
async function attempt(account: Account, binaries: Binaries, dataDir: string): Promise<string[] | null> {
  const scratch = await mkdtemp(join(dataDir, 'trial-'));
  try {
    await give(scratch, account);
    const trial = await run(account, ['/bin/sh', '-c', trialScript, binaries.initdb, binaries.postgres, scratch], binaries.env);
    return trial.ok ? null : trial.lines.slice(-3);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/**
 * Makes the account the owner of a file or folder and everything in it. The top comes last: it is what is looked at, so a chown
 * that was interrupted is done again.
 */
export async function give(path: string, account: Account): Promise<void> {
  const entry = await lstat(path);
  if (account.owner === undefined || entry.uid === account.owner) return;
  await giveTree(path, account.owner);
}

async function giveTree(path: string, owner: number): Promise<void> {
  const entry = await lstat(path);
  if (entry.isDirectory()) {
    for (const name of await readdir(path)) await giveTree(join(path, name), owner);
  }
  if (!entry.isSymbolicLink()) await chown(path, owner, owner);
}
