import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { freePort } from '../../src/embedded/free-port.js';
import { projectFile } from '../../src/project.js';
import { freshDatabase } from '../support/servers.js';
import { buildImage, type Image } from './dockerfile.js';

const run = promisify(execFile);
const { devDependencies, optionalDependencies } = JSON.parse(readFileSync(projectFile('package.json'), 'utf8')) as Record<string, Record<string, string>>;
const secrets = {
  CALLGATE_SECRETS_KEY_PEPPER: 'q7Vb2xKd9fLw4sTn8mRz1cYh6gJp3eUa0iXo5BvW', CALLGATE_SECRETS_SEAL_KEY: 'Zt5nQ8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0Tq',
  CALLGATE_SECRETS_SIGNING_KEYS: 'q0nR8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0TqZt5m',
};

/** What is shipped is not what is developed on; if this is lost, the first that sees a missing file is an operator. */
describe('the image', () => {
  let image: Image;
  let contracts: string;
  beforeAll(() => {
    image = buildImage(projectFile());
    contracts = mkdtempSync(join(tmpdir(), 'callgate-contracts-'));
    cpSync(projectFile('examples', 'retail', 'contracts'), contracts, { recursive: true });
    setModes(image.root, 0o555, 0o444);
    setModes(contracts, 0o555, 0o444);
    chmodSync(dirname(image.root), 0o755);
  }, 400_000);
  afterAll(() => {
    for (const folder of [dirname(image.root), contracts]) {
      setModes(folder, 0o755, 0o644);
      rmSync(folder, { recursive: true, force: true });
    }
  });

  const app = (): string => join(image.root, image.workdir);
  /** Another user than the owner of the files, where we may become one. */
  const as = process.getuid?.() === 0 ? { uid: 1000, gid: 1000 } : {};
  const environment = (more: Record<string, string>): NodeJS.ProcessEnv => ({
    PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, HOME: '/nonexistent', ...image.env, CALLGATE_CONTRACTS_FOLDER: contracts, ...more,
  });
  const inImage = (command: string[], env: Record<string, string>): Promise<{ stdout: string }> =>
    run(command[0] as string, command.slice(1), { cwd: app(), env: environment(env), ...as });

  it('has a pinned base, an unprivileged numeric user, and commands that get signals', () => {
    expect(image.base).toBe('node:20-bookworm-slim');
    expect(image.user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(image.stopSignal).toBe('SIGTERM');
    expect([...image.entrypoint, ...image.command]).toEqual(['node', 'bin/callgate.mjs', 'serve']);
  });

  it('has what runs and nothing of what is developed with', () => {
    const packages = readdirSync(join(app(), 'node_modules'));
    expect(packages).toContain('fastify');
    for (const name of Object.keys({ ...devDependencies, ...optionalDependencies })) expect(existsSync(join(app(), 'node_modules', name)), name).toBe(false);
    expect(readdirSync(app()).sort()).toEqual(['LICENSE', 'bin', 'dist', 'migrations', 'node_modules', 'openapi.yaml', 'package.json', 'schemas']);
  });

  it('refuses to start without secrets, and says which', async () => {
    const started = inImage([...image.entrypoint, ...image.command], { DATABASE_URL: inject('databaseUrl') });
    await expect(started).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/CALLGATE_SECRETS_KEY_PEPPER[\s\S]*CALLGATE_SECRETS_SEAL_KEY/) });
  });

  it('migrates, serves, answers its own health check and stops on SIGTERM, as a stranger in a read-only folder', async () => {
    const port = String(await freePort());
    const env = {
      ...secrets, DATABASE_URL: await freshDatabase(inject('databaseUrl')), CALLGATE_AGENT_PORT: '0', CALLGATE_CONTROL_PORT: port, CALLGATE_LOG_LEVEL: 'error',
      CALLGATE_UPSTREAM_ALLOW_PRIVATE: 'retail=127.0.0.1',
    };
    expect((await inImage([...image.entrypoint, 'migrate'], env)).stdout).toMatch(/^applied 0001-/);
    const { stdout: key } = await inImage([...image.entrypoint, 'keys', 'create', '--tenant', 'acme', '--principal', 'a', '--role', 'auditor'], env);
    const before = snapshot(image.root);

    const [command = '', ...args] = [...image.entrypoint, ...image.command];
    const gateway = spawn(command, args, { cwd: app(), env: environment(env), stdio: ['ignore', 'ignore', 'pipe'], ...as });
    const exited = once(gateway, 'exit');
    await served(gateway);
    await expect(inImage(image.healthcheck, env)).resolves.toBeDefined();
    const receipts = await fetch(`http://127.0.0.1:${port}/v1/receipts`, { headers: { authorization: `Bearer ${key.trim()}` } });
    expect(receipts.status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
    gateway.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(snapshot(image.root)).toEqual(before);
    await expect(inImage(image.healthcheck, env)).rejects.toMatchObject({ code: 1 });
  });
});

function setModes(folder: string, ofFolders: number, ofFiles: number): void {
  chmodSync(folder, ofFolders);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) setModes(path, ofFolders, ofFiles);
    else if (entry.isFile()) chmodSync(path, ofFiles);
  }
}

function snapshot(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => !name.includes('node_modules')).sort();
}

async function served(gateway: ChildProcess): Promise<void> {
  let said = '';
  await new Promise<void>((resolve, reject) => {
    gateway.stderr?.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes('is serving agents')) resolve();
    });
    gateway.once('exit', (code) => reject(new Error(`the gateway ended with ${code}: ${said}`)));
  });
}
