/**
 * Runs a command of the project on a fresh clone as on a used one:
 *   node scripts/with-install.mjs [--build] COMMAND [ARGUMENT...]
 * installs what package-lock.json says unless it is installed, with --build compiles unless nothing changed, then runs COMMAND
 * (node_modules/.bin is on its PATH) and ends as it ends. Plain Node: it runs before anything is installed.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const at = (...parts) => join(root, ...parts);
const readOr = (fallback, ...parts) => {
  try { return readFileSync(at(...parts), 'utf8'); } catch { return fallback; }
};

/** npm writes its own record of the tree as the last act of an install, so a record that is there tells of a complete one. */
function installed() {
  const wanted = JSON.parse(readFileSync(at('package-lock.json'), 'utf8')).packages;
  const present = JSON.parse(readOr('{}', 'node_modules', '.package-lock.json')).packages ?? {};
  return Object.entries(wanted).every(([path, { version, integrity, optional }]) => {
    if (path === '') return true;
    const found = present[path];
    // Optional packages of other platforms stay away.
    if (found === undefined) return optional === true;
    return found.version === version && found.integrity === integrity;
  });
}

/** By content: times of modification lie after a checkout, a copy or a restored cache. */
function sourcesDigest() {
  const hash = createHash('sha256');
  const files = ['package-lock.json', 'tsconfig.json'];
  for (const folder of JSON.parse(readFileSync(at('tsconfig.json'), 'utf8')).include) {
    for (const name of readdirSync(at(folder), { recursive: true })) {
      if (/\.[cm]?ts$|\.json$/.test(name)) files.push(join(folder, name));
    }
  }
  for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(at(file))).update('\0');
  return hash.digest('hex');
}

async function build() {
  const digest = sourcesDigest();
  if (readOr('', 'dist', '.built-from') === digest) return;
  await mustRun([process.execPath, at('node_modules', 'typescript', 'bin', 'tsc'), '-p', root], 'The sources do not compile.');
  writeFileSync(at('dist', '.built-from'), digest);
}

/**
 * The child gets a session of its own. In ours it would get Ctrl-C from the terminal, from npm and from us, and take the second
 * for impatience. The watcher (see src/embedded/bound-process.ts) kills the child's group when we are killed, so that
 * killing us is killing it.
 */
const guard = '( ( read _ <&3 || kill -s KILL -- -$$ ) >/dev/null 2>&1 & ); exec "$@" 3<&-';

function run(command) {
  const child = spawn('/bin/sh', ['-c', guard, 'with-install', ...command], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    detached: true,
    env: { ...process.env, PATH: `${at('node_modules', '.bin')}${delimiter}${process.env.PATH ?? ''}` },
  });
  const life = child.stdio[3].on('error', () => undefined);
  const forwarding = forwardSignals(child);
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      life.end('gone\n');
      forwarding.stop();
      resolve({ code, signal });
    });
  });
}

/** One Ctrl-C arrives here up to twice, from the terminal and from npm; two of them from a person are further apart. */
const sameKeystrokeMs = 300;

function forwardSignals(child) {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
  const last = new Map();
  const forward = (signal) => {
    const again = performance.now() - (last.get(signal) ?? -Infinity) < sameKeystrokeMs;
    last.set(signal, performance.now());
    if (!again) child.kill(signal);
  };
  for (const signal of signals) process.on(signal, forward);
  return { stop: () => signals.forEach((signal) => process.off(signal, forward)) };
}

async function mustRun(command, failure) {
  const result = await run(command);
  if (result.code === 0) return;
  if (result.signal === null) console.error(`\n${failure}`);
  endAs(result);
}

function endAs({ code, signal }) {
  if (signal !== null) process.kill(process.pid, signal);
  process.exit(code ?? 1);
}

const [first, ...rest] = process.argv.slice(2);
const command = first === '--build' ? rest : [first, ...rest];
if (command[0] === undefined) {
  console.error('usage: node scripts/with-install.mjs [--build] COMMAND [ARGUMENT...]');
  process.exit(2);
}
if (!installed()) {
  console.error('Installing the packages of package-lock.json …');
  await mustRun(['npm', 'ci', '--no-audit', '--no-fund', '--prefer-offline', '--include=dev', '--prefix', root],
    'The packages could not be installed; npm says why above. Without a network, fill the npm cache once with `npm ci`.');
}
if (first === '--build') await build();
endAs(await run(command));
