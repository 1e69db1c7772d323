import { execFileSync, spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { isAlive } from './launched.js';

const script = fileURLToPath(new URL('../../scripts/with-install.mjs', import.meta.url));
let folder: string;

const write = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);

/** A project with one dependency inside it, and a compiler that counts how often it ran. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'callgate-install-'));
  for (const name of ['scripts', 'src', 'compiler/bin']) await mkdir(join(folder, name), { recursive: true });
  await cp(script, join(folder, 'scripts', 'with-install.mjs'));
  await write('package.json', JSON.stringify({ name: 'p', version: '1.0.0', devDependencies: { typescript: 'file:./compiler' } }));
  await write('compiler/package.json', JSON.stringify({ name: 'typescript', version: '1.0.0', bin: { tsc: 'bin/tsc' } }));
  await write('compiler/bin/tsc', `#!/usr/bin/env node
    const fs = require('node:fs');
    if (fs.readFileSync(${JSON.stringify(join(folder, 'src/a.ts'))}, 'utf8').includes('wrong')) process.exit(2);
    fs.mkdirSync(${JSON.stringify(join(folder, 'dist'))}, { recursive: true });
    fs.appendFileSync(${JSON.stringify(join(folder, 'dist/runs'))}, 'x');`);
  await write('tsconfig.json', JSON.stringify({ include: ['src'] }));
  await write('src/a.ts', '1');
  execFileSync('npm', ['install', '--package-lock-only', '--offline'], { cwd: folder, stdio: 'ignore' });
});
beforeEach(() => write('src/a.ts', '1'));
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Ended { code: number | null; signal: NodeJS.Signals | null; errors: string }

function start(...command: string[]) {
  const child = spawn(process.execPath, [join(folder, 'scripts', 'with-install.mjs'), ...command], {
    cwd: folder, env: { ...process.env, NODE_ENV: 'production' },
  });
  let errors = '';
  child.stderr.on('data', (text: Buffer) => { errors += String(text); });
  const ended = new Promise<Ended>((resolve) => child.once('close', (code, signal) => resolve({ code, signal, errors })));
  const lines = createInterface({ input: child.stdout });
  return { child, ended, line: () => new Promise<string>((resolve) => lines.once('line', resolve)) };
}

const runs = async (): Promise<number> => (await readFile(join(folder, 'dist', 'runs'), 'utf8')).length;

test('a fresh clone is installed, development packages included, and an installed one is left alone', async () => {
  await rm(join(folder, 'node_modules'), { recursive: true, force: true });
  const first = await start('node', '-e', '0').ended;
  expect(first).toMatchObject({ code: 0, errors: expect.stringContaining('Installing') as string });
  expect(JSON.parse(await readFile(join(folder, 'node_modules', '.package-lock.json'), 'utf8'))).toHaveProperty('packages');
  expect((await start('tsc').ended).errors).toBe('');
});

test('an install that was broken off, or a lock file that changed, is installed again', async () => {
  await rm(join(folder, 'node_modules', '.package-lock.json'), { force: true });
  expect((await start('node', '-e', '0').ended).errors).toContain('Installing');
  const lock = await readFile(join(folder, 'package-lock.json'), 'utf8');
  await write('compiler/package.json', JSON.stringify({ name: 'typescript', version: '1.0.1', bin: { tsc: 'bin/tsc' } }));
  await write('package-lock.json', lock.replace(/("compiler": \{\s+"name": "typescript",\s+"version": ")1.0.0/, '$11.0.1'));
  expect(await readFile(join(folder, 'package-lock.json'), 'utf8')).not.toBe(lock);
  expect((await start('node', '-e', '0').ended).errors).toContain('Installing');
  expect((await start('node', '-e', '0').ended).errors).toBe('');
});

test('it compiles exactly when the sources changed in content, and a failed compilation is not remembered as done', async () => {
  await start('--build', 'node', '-e', '0').ended;
  const before = await runs();
  await write('src/a.ts', '1');
  await start('--build', 'node', '-e', '0').ended;
  expect(await runs()).toBe(before);
  await write('src/a.ts', '2');
  await start('--build', 'node', '-e', '0').ended;
  expect(await runs()).toBe(before + 1);
  await write('src/a.ts', 'wrong');
  for (let i = 0; i < 2; i++) {
    const failed = await start('--build', 'node', '-e', 'process.exit(0)').ended;
    expect(failed.code).toBe(2);
    expect(failed.errors).toContain('do not compile');
  }
});

test('the exit code of the command is the exit code, and a signal that ended it is the signal', async () => {
  expect(await start('node', '-e', 'process.exit(7)').ended).toMatchObject({ code: 7, signal: null });
  const suicide = 'process.kill(process.pid, "SIGTERM"); setTimeout(() => {}, 9e4)';
  expect(await start('node', '-e', suicide).ended).toMatchObject({ code: null, signal: 'SIGTERM' });
  // 126 where a folder on the PATH may not be searched.
  expect([126, 127]).toContain((await start('no-such-program').ended).code);
});

const counting = `
  let interrupts = 0;
  const end = () => { console.log('interrupts ' + interrupts); process.exit(3); };
  process.on('SIGINT', () => { if (++interrupts === 1) setTimeout(end, 600); });
  setInterval(() => {}, 9e4);
  console.log(process.pid);`;

test('a Ctrl-C that arrives twice, from the terminal and from npm, reaches the command once and is waited for', async () => {
  const { child, ended, line } = start('node', '-e', counting);
  await line();
  const said = line();
  // As a terminal does it: the whole foreground group.
  child.kill('SIGINT');
  setTimeout(() => child.kill('SIGINT'), 50);
  expect(await said).toBe('interrupts 1');
  expect(await ended).toMatchObject({ code: 3 });
});

test('the command is out of reach of the terminal’s own signal, and a second Ctrl-C of an impatient person passes', async () => {
  const { child, ended, line } = start('node', '-e', counting);
  const pid = Number(await line());
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => `${pid} (node) S 1 ${pid}`);
  expect(Number(stat.split(') ')[1]!.split(' ')[2])).toBe(pid);
  const said = line();
  child.kill('SIGINT');
  setTimeout(() => child.kill('SIGINT'), 400);
  expect(await said).toBe('interrupts 2');
  await ended;
});

test('killing it with -9 kills the command, so that nothing keeps the ports', async () => {
  const { child, line } = start('node', '-e', counting);
  const pid = Number(await line());
  child.kill('SIGKILL');
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 5_000 });
});
