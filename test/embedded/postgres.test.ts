import { chmod, chown, mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { startEmbeddedPostgres } from '../../src/embedded/postgres.js';
import { ask, installedPackage, isAlive, launch, openWorkshop, packageWithoutLinks, type Launched, type Workshop } from './launched.js';

const isRoot = process.getuid?.() === 0;
const stranger = 65534;
let workshop: Workshop;
let counter = 0;
const running: Launched[] = [];

beforeAll(async () => { workshop = await openWorkshop(); });
afterEach(async () => { for (const one of running.splice(0)) await one.end('SIGTERM'); });
afterAll(() => workshop.remove());

const freshFolder = (): string => join(workshop.folder, `data-${counter++}`);

async function start(options: Parameters<typeof launch>[1], surroundings?: Parameters<typeof launch>[2]): Promise<Launched> {
  const launched = await launch(workshop, options, surroundings);
  running.push(launched);
  return launched;
}

async function killWithoutGoodbye(launched: Launched): Promise<void> {
  running.splice(running.indexOf(launched), 1);
  await launched.end('SIGKILL');
}

/** An orphan stays a zombie until process 1 collects it. */
async function expectGone(pid: number): Promise<void> {
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 5_000 });
}

/** Whoever owns the files, a start, a write, a stop and a second start work in these surroundings. */
async function expectLasting(options: Parameters<typeof launch>[1], surroundings?: Parameters<typeof launch>[2]): Promise<void> {
  const first = await launch(workshop, options, surroundings);
  await ask(first.url, 'create table kept as select 42 as answer');
  await first.end('SIGTERM');
  expect(isAlive(first.pid)).toBe(false);
  const second = await start(options, surroundings);
  expect(await ask(second.url, 'select answer from kept')).toBe(42);
}

test('the first start gives a durable UTF-8 database named callgate', async () => {
  const { url } = await start({ dataDir: freshFolder() });
  expect(await ask(url, 'select current_database()')).toBe('callgate');
  expect(await ask(url, 'show fsync')).toBe('on');
  expect(await ask(url, 'show synchronous_commit')).toBe('on');
  expect(await ask(url, 'show server_encoding')).toBe('UTF8');
  expect(await ask(url, `select upper('é') || lower('Ω')`)).toBe('Éω');
  expect(await ask(url, 'show server_version_num')).toMatch(/^18/);
});

test('what was written is there after stop and a second start, under the same password', async () => {
  const dataDir = freshFolder();
  const first = await startEmbeddedPostgres({ dataDir });
  await ask(first.url, 'create table kept as select 42 as answer');
  await Promise.all([first.stop(), first.stop()]);
  expect(isAlive(first.pid)).toBe(false);
  const second = await startEmbeddedPostgres({ dataDir });
  expect(new URL(second.url).password).toBe(new URL(first.url).password);
  expect(await ask(second.url, 'select answer from kept')).toBe(42);
  await second.stop();
});

test('another user of the machine gets in neither by a wrong password nor by reading the right one', async () => {
  const dataDir = freshFolder();
  const { url } = await start({ dataDir });
  const wrong = new URL(url);
  wrong.password = 'guess';
  await expect(ask(wrong.href, 'select 1')).rejects.toThrow(/password authentication failed/);
  expect(await ask(url, `select count(*)::int from pg_hba_file_rules where auth_method <> 'scram-sha-256'`)).toBe(0);
  expect(await ask(url, `select current_setting('listen_addresses') || current_setting('unix_socket_directories')`)).toBe('127.0.0.1');
  const file = join(dataDir, 'cluster', 'callgate.password');
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readFile(file, 'utf8')).toBe(new URL(url).password);
});

test('the given port is used, and one that is taken is named in the error', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const { port } = taken.address() as AddressInfo;
  const dataDir = freshFolder();
  await expect(start({ dataDir, port })).rejects.toThrow(new RegExp(`EmbeddedPostgresError: .*Port ${port} is taken`));
  await new Promise((resolve) => taken.close(resolve));
  expect(new URL((await start({ dataDir, port })).url).port).toBe(String(port));
});

test('Postgres dies with a Node process that was killed with -9, and the next start at once finds every commit', async () => {
  const dataDir = freshFolder();
  const first = await start({ dataDir });
  const client = new pg.Client({ connectionString: first.url });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('create table kept as select 42 as answer');
  await killWithoutGoodbye(first);
  const second = await start({ dataDir });
  await expectGone(first.pid);
  expect(await ask(second.url, 'select answer from kept')).toBe(42);
  await client.end().catch(() => undefined);
});

test('Postgres dies with a Node process that ends without calling stop', async () => {
  const { pid, end } = await launch(workshop, { dataDir: freshFolder() });
  await end('SIGINT');
  await expectGone(pid);
});

test('a pid file that a crash left behind does not keep the next start from recovering', async () => {
  const dataDir = freshFolder();
  const first = await start({ dataDir });
  await ask(first.url, 'create table kept as select 42 as answer');
  process.kill(first.pid, 'SIGKILL');
  await expectGone(first.pid);
  const second = await start({ dataDir });
  expect(await ask(second.url, 'select answer from kept')).toBe(42);
});

test('a pid file whose pid now belongs to another program is recognised as stale', async () => {
  const dataDir = freshFolder();
  await (await launch(workshop, { dataDir })).end('SIGTERM');
  const lockFile = join(dataDir, 'cluster', 'postmaster.pid');
  // This very test process: alive, and not a Postgres.
  await writeFile(lockFile, `${process.pid}\n${join(dataDir, 'cluster')}\n0\n1\n\n127.0.0.1\n\nready\n`, { mode: 0o600 });
  if (isRoot) await chown(lockFile, stranger, stranger);
  const { url } = await start({ dataDir });
  expect(await ask(url, 'select 1')).toBe(1);
});

test('a second start on a folder in use is refused with the pid of the first, which goes on undisturbed', async () => {
  const dataDir = freshFolder();
  const first = await start({ dataDir });
  await expect(start({ dataDir })).rejects.toThrow(new RegExp(`in use by a running Postgres, pid ${first.pid}, .*CALLGATE_DATA_DIR`));
  expect(await ask(first.url, 'select 1')).toBe(1);
});

test('of two first starts at the same moment one serves and the other is refused, with one password', async () => {
  const dataDir = freshFolder();
  const outcomes = await Promise.allSettled([start({ dataDir }), start({ dataDir })]);
  const served = outcomes.filter((outcome) => outcome.status === 'fulfilled');
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  expect(served).toHaveLength(1);
  expect(String(refused[0]?.reason)).toMatch(/is in use by/);
  expect(await ask(served[0]!.value.url, 'select 1')).toBe(1);
  expect(await readdir(dataDir)).toEqual(['cluster']);
});

const draftIn = async (folder: string): Promise<string | undefined> => (await readdir(folder)).find((name) => name.startsWith('draft-'));

test('a first start that was killed half-way leaves nothing in the way of the next', async () => {
  const dataDir = freshFolder();
  const cut = launch(workshop, { dataDir }).catch(() => undefined);
  await vi.waitFor(async () => expect(await draftIn(dataDir)).toBeDefined(), { interval: 5, timeout: 10_000 });
  const draft = (await draftIn(dataDir))!;
  process.kill(Number(draft.split('-')[1]), 'SIGKILL');
  await cut;
  const { url } = await start({ dataDir });
  expect(await ask(url, 'select 1')).toBe(1);
  expect(await readdir(dataDir)).toEqual(['cluster']);
});

test('neither secrets nor Postgres settings of our environment reach the server', async () => {
  const { url } = await start({ dataDir: freshFolder() }, { env: { SOME_TOKEN: 'secret', PGCLIENTENCODING: 'LATIN1', LC_ALL: 'xx_YY' } });
  await ask(url, 'create table seen (line text)');
  await ask(url, `copy seen from program 'env'`);
  expect(await ask(url, `select count(*)::int from seen where line ~ '^PATH='`)).toBe(1);
  expect(await ask(url, `select string_agg(line, ' ') from seen where line ~ 'secret|LATIN1|xx_YY'`)).toBeNull();
});

test('it works under umask 077', async () => {
  await expectLasting({ dataDir: freshFolder() }, { umask: '077' });
});

test('it works under a 0700 home whose path is longer than a unix socket may have', async () => {
  const home = join(workshop.folder, `home-${counter++}`);
  await mkdir(home, { mode: 0o700 });
  const deep = join(home, 'a-folder-with-a-long-name/'.repeat(6));
  await expectLasting({ dataDir: join(deep, 'postgres') }, { umask: '077' });
});

test.runIf(isRoot)('root under the 0700 home of another user can use it as well', async () => {
  const home = join(workshop.folder, `home-${counter++}`);
  await mkdir(home, { mode: 0o700 });
  await chown(home, 1234, 1234);
  await expectLasting({ dataDir: join(home, 'postgres') });
});

test.runIf(isRoot)('an ordinary user under umask 077 and a 0700 home can use it', async () => {
  const home = join(workshop.folder, `home-${counter++}`);
  await mkdir(home, { mode: 0o700 });
  const packageDir = await packageWithoutLinks(home);
  await chown(home, stranger, stranger);
  await expectLasting({ dataDir: join(home, 'postgres'), packageDir }, { uid: stranger, umask: '077' });
});

test.runIf(isRoot)('a folder of another user is refused in words, not with a stack of Postgres', async () => {
  const dataDir = freshFolder();
  await (await launch(workshop, { dataDir })).end('SIGTERM');
  const packageDir = await packageWithoutLinks(freshFolder());
  await expect(start({ dataDir, packageDir }, { uid: 1234 })).rejects.toThrow(/CALLGATE_DATA_DIR/);
});

test('libraries whose links npm did not make are found, and the links are made', async () => {
  const packageDir = await packageWithoutLinks(freshFolder());
  const { url } = await start({ dataDir: freshFolder(), packageDir });
  expect(await ask(url, 'select 1')).toBe(1);
  expect((await stat(join(packageDir, 'native', 'lib', 'libpq.so.5'))).isFile()).toBe(true);
});

test('libraries whose links npm did not make are found when the package cannot be written to', async () => {
  const packageDir = await packageWithoutLinks(freshFolder());
  const dataDir = freshFolder();
  await mkdir(dataDir);
  const uid = isRoot ? stranger : undefined;
  if (uid !== undefined) await chown(dataDir, uid, uid);
  await chmod(join(packageDir, 'native', 'lib'), 0o555);
  await expectLasting({ dataDir, packageDir }, uid === undefined ? {} : { uid });
  expect(await readdir(join(packageDir, 'native', 'lib'))).not.toContain('libpq.so.5');
  await chmod(join(packageDir, 'native', 'lib'), 0o755);
});

test('a package that is not there is answered with the reasons and DATABASE_URL as the way out', async () => {
  const packageDir = join(workshop.folder, 'absent');
  await expect(start({ dataDir: freshFolder(), packageDir })).rejects.toThrow(/cannot run here.*initdb.*DATABASE_URL/s);
});

test('the log is passed on line by line', async () => {
  const lines: string[] = [];
  const server = await startEmbeddedPostgres({ dataDir: freshFolder(), packageDir: installedPackage, log: (line) => lines.push(line) });
  await server.stop();
  expect(lines.some((line) => line.includes('ready to accept connections'))).toBe(true);
  expect(lines.at(-1)).toMatch(/database system is shut down/);
});
