/** The gateway as its users run it, a process of its own that can be killed, on a Postgres of its own, in front of the store. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startEmbeddedPostgres } from '../../../src/embedded/postgres.js';
import { projectFile } from '../../../src/project.js';
import type { Edition } from '../domain/records.js';
import type { RetailData } from '../domain/store.js';
import { startTauService, type TauService } from '../service/server.js';

export interface House {
  service: TauService;
  gateway: GatewayProcess;
  agentKey: string;
  applicationKey: string;
  close(): Promise<void>;
}

const run = promisify(execFile);
const command = projectFile('bin', 'callgate.mjs');

export async function openHouse(edition: Edition, data: RetailData): Promise<House> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-acceptance-'));
  const closing: (() => Promise<unknown>)[] = [async () => rmSync(folder, { recursive: true, force: true })];
  const close = async (): Promise<void> => {
    for (const step of closing.splice(0).reverse()) await step();
  };
  try {
    const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
    closing.push(postgres.stop);
    const token = randomBytes(16).toString('hex');
    const service = await startTauService({ edition, data, port: 0, token });
    closing.push(() => service.close());
    const env = environment(postgres.url, contractsFolder(edition, folder), service.url, token);
    await run(process.execPath, [command, 'migrate'], { env });
    const agentKey = await createKey(env, 'agent', '--role', 'agent', '--assert-subject');
    const applicationKey = await createKey(env, 'application', '--role', 'application');
    const gateway = new GatewayProcess(env);
    closing.push(() => gateway.stop());
    await gateway.start();
    return { service, gateway, agentKey, applicationKey, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Shorter than the defaults, so that a killed gateway's work is taken up in seconds; what is concluded from what stays the same. */
function environment(databaseUrl: string, contracts: string, serviceUrl: string, token: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env['PATH'], CALLGATE_MODE: 'development', DATABASE_URL: databaseUrl, CALLGATE_CONTRACTS_FOLDER: contracts, CALLGATE_LOG_LEVEL: 'fatal', CALLGATE_UPSTREAM_ALLOW_PRIVATE: 'tau-retail=127.0.0.1',
    CALLGATE_SECRETS_KEY_PEPPER: randomBytes(32).toString('hex'), CALLGATE_SECRETS_SEAL_KEY: randomBytes(32).toString('hex'),
    CALLGATE_AGENT_PORT: '0', CALLGATE_CONTROL_PORT: '0', CALLGATE_EXECUTION_LEASE: '1s', CALLGATE_EXECUTION_SEND_WINDOW: '500ms',
    // The conversations were recorded without budgets; what they were refused is judged, not how often.
    CALLGATE_BUDGETS_PROPOSALS: '1000', CALLGATE_BUDGETS_TURNS: '100000',
    CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms', CALLGATE_RECONCILE_BACKOFF_FIRST: '100ms', TAU_RETAIL_URL: serviceUrl, TAU_RETAIL_TOKEN: token,
  };
}

/** The store here acts at once or not at all, so the ten seconds of the contracts, after which absence counts, are more than it needs. */
function contractsFolder(edition: Edition, parent: string): string {
  const folder = join(parent, 'contracts');
  cpSync(projectFile('examples', 'tau-retail', 'contracts', edition), folder, { recursive: true });
  const file = join(folder, 'retail.yaml');
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/settle_after: \w+/g, 'settle_after: 300ms').replaceAll(/deadline: \w+/g, 'deadline: 2s'));
  return folder;
}

async function createKey(env: NodeJS.ProcessEnv, principal: string, ...more: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, [command, 'keys', 'create', '--tenant', 'store', '--principal', principal, ...more], { env });
  return stdout.trim();
}

export class GatewayProcess {
  agentUrl = '';
  controlUrl = '';
  kills = 0;
  #child: ChildProcess | undefined;
  #exited: Promise<unknown> = Promise.resolve();
  #starting: Promise<void> | undefined;

  constructor(private readonly env: NodeJS.ProcessEnv) {}

  /** Does nothing while it runs; whoever asks while it starts waits for that start. */
  start(): Promise<void> {
    if (this.#child) return Promise.resolve();
    this.#starting ??= this.#spawn().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #spawn(): Promise<void> {
    const child = spawn(process.execPath, [command, 'serve'], { env: this.env, stdio: ['ignore', 'ignore', 'pipe'] });
    const exited = once(child, 'exit');
    let said = '';
    const urls = await new Promise<RegExpExecArray>((resolve, reject) => {
      child.stderr.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        const match = /agents at (http:\S+) and people at (http:\S+)/.exec(said);
        if (match) resolve(match);
      });
      void exited.then(() => reject(new Error(`the gateway ended before it served:\n${said}`)));
    });
    [, this.agentUrl = '', this.controlUrl = ''] = urls;
    this.#child = child;
    this.#exited = exited;
  }

  /** kill -9, and no more of it afterwards. */
  async kill(): Promise<void> {
    if (!this.#child) return;
    this.kills++;
    this.#child.kill('SIGKILL');
    this.#child = undefined;
    await this.#exited;
  }

  async stop(): Promise<void> {
    this.#child?.kill('SIGTERM');
    this.#child = undefined;
    await this.#exited;
  }
}
