/**
 * A whole gateway in front of a whole example service, for tests: real Postgres, real sockets, the example's own books.
 * In this process for most tests; `spawnGateway` runs the built one as a process of its own, to be killed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, inject } from 'vitest';
import { type RetailService, startRetailService } from '../../examples/retail/service/server.js';
import { loadConfig } from '../../src/config/index.js';
import { keyDigest, keyPrefix, type KeyRecord, mintKey } from '../../src/identity/api-keys.js';
import { createPool } from '../../src/ledger/connection.js';
import { openKeys } from '../../src/ledger/keys.js';
import { migrate } from '../../src/ledger/migrate.js';
import { type Gateway, type Joints, startGateway } from '../../src/main.js';
import type { Answer } from '../../src/model.js';
import { projectFile } from '../../src/project.js';
import { freshDatabase } from './servers.js';

export const pepper = 'pepper-for-tests-0123456789abcdefghij';
export const sealKey = 'seal-for-tests-0123456789abcdefghijkl';
export const token = 'token-for-tests';

export interface Sent extends Answer { http: number; header(name: string): string | null }
export interface CallBody { [member: string]: unknown }

export class Agent {
  constructor(readonly url: string, readonly key: string) {}

  /** A well-formed issue_credit for O-417, with whatever the test changes. */
  async credit(change: CallBody = {}, headers: Record<string, string> = {}): Promise<Sent> {
    const { arguments: args, ...rest } = change;
    return this.call({
      session_id: 's-1', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 2500, currency: 'GBP', ...(args as object) }, ...rest,
    }, headers);
  }

  call(body: CallBody, headers: Record<string, string> = {}): Promise<Sent> {
    return this.post('/v1/calls', JSON.stringify(body), headers);
  }

  /** Any bytes. */
  async post(path: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Sent> {
    return read(await fetch(this.url + path, {
      method: 'POST', body, headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json', ...headers },
    }));
  }

  async put(path: string, body: object): Promise<Sent> {
    return read(await fetch(this.url + path, {
      method: 'PUT', body: JSON.stringify(body), headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' },
    }));
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<Sent> {
    return read(await fetch(this.url + path, { headers: { authorization: `Bearer ${this.key}`, ...headers } }));
  }

  /** Asks until the operation is settled, or the time is up. */
  async settled(operationId: string, ms = 30_000): Promise<Sent> {
    const until = performance.now() + ms;
    for (;;) {
      const answer = await this.get(`/v1/operations/${operationId}`, { prefer: 'wait=5' });
      const open = ['unknown', 'pending', 'in_progress'].includes(answer.disposition) || answer.next_action === 'verify';
      if (!open || performance.now() > until) return answer;
    }
  }
}

async function read(response: Response): Promise<Sent> {
  const text = await response.text();
  return Object.assign(JSON.parse(text) as Answer, { http: response.status, header: (name: string) => response.headers.get(name) });
}

export interface Books {
  credits: { order_id: string; amount: number; key: string; receipt_id: string }[];
  voids: unknown[];
  cancellations: unknown[];
  requests: Record<string, number>;
}

export class Shop {
  constructor(readonly url: string) {}
  async books(): Promise<Books> {
    return (await (await fetch(`${this.url}/_books`)).json()) as Books;
  }
  async fault(fault: { tool: string; kind: string; times?: number; ms?: number; retry_after?: number }): Promise<void> {
    const response = await fetch(`${this.url}/_faults`, { method: 'POST', body: JSON.stringify(fault), headers: { 'content-type': 'application/json' } });
    if (!response.ok) throw new Error(await response.text());
  }
  async reset(): Promise<void> {
    await fetch(`${this.url}/_reset`, { method: 'POST' });
  }
}

/** The keys that every test gateway has; each opens one door. */
export interface TestKeys { agent: string; otherAgent: string; otherSubject: string; otherTenant: string; auditor: string; application: string; reviewer: string; secondReviewer: string; admin: string;
  /** A reviewer who is also the proposer of `agent`, and one who is its subject. */
  proposingReviewer: string; subjectReviewer: string;
}

function keyRecords(keys: TestKeys): KeyRecord[] {
  const record = (key: string, more: Partial<KeyRecord>): KeyRecord => ({
    prefix: keyPrefix(key) as string, digest: keyDigest(pepper, key), tenant: 'acme', principal: 'agent-1', roles: ['agent'], subject: 'C-17', purposes: ['refund'],
    tools: '*', grants: { assertSubject: false, ownKeys: true }, expiresAt: null, revokedAt: null, ...more,
  });
  return [
    record(keys.agent, {}),
    record(keys.otherAgent, { principal: 'agent-2' }),
    record(keys.otherSubject, { principal: 'agent-1', subject: 'C-18' }),
    record(keys.otherTenant, { tenant: 'globex', principal: 'agent-1', subject: 'C-90' }),
    record(keys.auditor, { principal: 'auditor', roles: ['auditor'], subject: null, purposes: [] }),
    record(keys.application, { principal: 'application', roles: ['application'], subject: null, purposes: [] }),
    record(keys.reviewer, { principal: 'reviewer-1', roles: ['reviewer'], subject: null, purposes: [] }),
    record(keys.secondReviewer, { principal: 'reviewer-2', roles: ['reviewer'], subject: null, purposes: [] }),
    record(keys.admin, { principal: 'admin', roles: ['admin'], subject: null, purposes: [] }),
    record(keys.proposingReviewer, { principal: 'agent-1', roles: ['reviewer'], subject: null, purposes: [] }),
    record(keys.subjectReviewer, { principal: 'C-17', roles: ['reviewer'], subject: null, purposes: [] }),
  ];
}

export interface House {
  shop: Shop;
  service: RetailService;
  databaseUrl: string;
  keys: TestKeys;
  /** Environment of a gateway in this house; `spawnGateway` and `openGateway` take it. */
  env: Record<string, string>;
  close(): Promise<void>;
}

/** An example service and a migrated database of its own, with keys, and no gateway yet. */
export async function openHouse(env: Record<string, string> = {}, database = (): Promise<string> => freshDatabase(inject('databaseUrl'))): Promise<House> {
  const webhookSecret = env['RETAIL_WEBHOOK_SECRET'];
  const service = await startRetailService({ port: 0, token, webhooks: webhookSecret ? { secret: webhookSecret, url: null } : null });
  const databaseUrl = await database();
  await migrate(databaseUrl, projectFile('migrations'));
  const keys: TestKeys = {
    agent: mintKey().key, otherAgent: mintKey().key, otherSubject: mintKey().key, otherTenant: mintKey().key, auditor: mintKey().key, application: mintKey().key,
    reviewer: mintKey().key, secondReviewer: mintKey().key, admin: mintKey().key, proposingReviewer: mintKey().key, subjectReviewer: mintKey().key,
  };
  const pool = createPool({ url: databaseUrl, preparedStatements: false, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 }, 1);
  for (const record of keyRecords(keys)) await openKeys(pool).saveKey(record);
  await pool.end();
  return {
    service, shop: new Shop(service.url), databaseUrl, keys,
    env: {
      DATABASE_URL: databaseUrl, CALLGATE_SECRETS_KEY_PEPPER: pepper, CALLGATE_SECRETS_SEAL_KEY: sealKey, CALLGATE_AGENT_PORT: '0', CALLGATE_CONTROL_PORT: '0',
      CALLGATE_CONTRACTS_FOLDER: projectFile('examples', 'retail', 'contracts'), CALLGATE_LOG_LEVEL: 'error', CALLGATE_DATABASE_POOL_SIZE: '5',
      // Few tests are about budgets; the others share sessions without counting.
      CALLGATE_BUDGETS_PROPOSALS: '1000', CALLGATE_BUDGETS_TURNS: '100000',
      RETAIL_URL: service.url, RETAIL_TOKEN: token, ...env,
    },
    close: () => service.close(),
  };
}

export interface Opened { gateway: Gateway; agent: Agent; as(key: string): Agent; control(key?: string): Agent }

/** Every service that the house's contracts name may be on this machine, and nowhere else inside. */
export function allowed(env: Record<string, string>): Record<string, string> {
  const folder = env['CALLGATE_CONTRACTS_FOLDER'] as string;
  const names = readdirSync(folder).filter((name) => /\.(ya?ml|json)$/.test(name))
    .flatMap((name) => /^\s*"?service"?: *"?([\w.-]+)/m.exec(readFileSync(join(folder, name), 'utf8'))?.[1] ?? []);
  return { CALLGATE_UPSTREAM_ALLOW_PRIVATE: names.map((name) => `${name}=127.0.0.0/8`).join(' ') };
}

/** A gateway in this process. */
export async function openGateway(house: House, env: Record<string, string> = {}, joints: Joints = {}): Promise<Opened> {
  const all = { ...allowed({ ...house.env, ...env }), ...house.env, ...env };
  const loaded = loadConfig({ env: all });
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems));
  Object.assign(process.env, { RETAIL_URL: house.service.url, RETAIL_TOKEN: token });
  const gateway = await startGateway(loaded.config, joints);
  return {
    gateway, agent: new Agent(gateway.agentUrl, house.keys.agent), as: (key) => new Agent(gateway.agentUrl, key),
    control: (key = house.keys.auditor) => new Agent(gateway.controlUrl, key),
  };
}

/** For the tests of a file or a group: a house with one gateway, opened before the first of them and closed after the last. */
export function retailGateway(): { readonly house: House; readonly opened: Opened } {
  let house: House;
  let opened: Opened;
  beforeAll(async () => {
    house = await openHouse();
    opened = await openGateway(house);
  });
  afterAll(async () => {
    await opened.gateway.close();
    await house.close();
  });
  return { get house() { return house; }, get opened() { return opened; } };
}

export interface Spawned { process: ChildProcess; agentUrl: string; controlUrl: string; agent: Agent; kill9(): Promise<void>; stop(): Promise<number | null>; stderr(): string; /** Its log, which is written out as well. */ stdout(): string }

/** The built gateway as a process of its own. `main` is another entry than the command, for tests that stand between rooms. */
export async function spawnGateway(house: House, env: Record<string, string> = {}): Promise<Spawned> {
  const child = spawn(process.execPath, [projectFile('bin', 'callgate.mjs'), 'serve'], {
    env: { PATH: process.env['PATH'] ?? '', ...allowed({ ...house.env, ...env }), ...house.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  let stdout = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
    process.stdout.write(chunk);
  });
  child.stderr?.on('data', (chunk: Buffer) => { stderr += chunk.toString(); });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const urls = await new Promise<RegExpExecArray>((resolve, reject) => {
    const look = (): void => {
      const match = /agents at (http:\S+) and people at (http:\S+)/.exec(stderr);
      if (match) resolve(match);
    };
    child.stderr?.on('data', look);
    void exited.then(() => reject(new Error(`the gateway ended before it served: ${stderr}`)));
  });
  const agentUrl = urls[1] as string;
  return {
    process: child, agentUrl, controlUrl: urls[2] as string, agent: new Agent(agentUrl, house.keys.agent), stderr: () => stderr, stdout: () => stdout,
    async kill9() {
      child.kill('SIGKILL');
      await exited;
    },
    async stop() {
      child.kill('SIGTERM');
      return (await exited)[0];
    },
  };
}

/** An id that no other test has. */
export function unique(prefix: string): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`;
}
