import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { secretWeakness } from '../../src/config/secrets.js';
import { loadConfig } from '../../src/config/index.js';
import { migrateDatabase } from '../../src/cli/migrate.js';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/embedded/postgres.js';
import { projectFile } from '../../src/project.js';
import { blocks, page } from '../docs/pages.js';
import { type House, openGateway, openHouse, type Opened } from '../support/gateway.js';
import { readInstructions } from './dockerfile.js';

interface Service {
  image: string; read_only?: boolean; user?: string; tmpfs?: string[]; cap_drop?: string[]; security_opt?: string[]; ports?: string[]; volumes?: string[]; networks: string[];
  environment?: Record<string, string>; depends_on?: Record<string, { condition: string }>; healthcheck?: object; entrypoint?: string[]; command?: string[];
}
const text = readFileSync(projectFile('docker-compose.yml'), 'utf8');
const compose = parse(text, { merge: true }) as { services: Record<string, Service>; networks: Record<string, { internal?: boolean }>; volumes: object };
const services = Object.entries(compose.services);
/** Interpolated by compose; comments are not. */
const variables = [...text.replaceAll(/^ *#.*$/gm, '').matchAll(/\$\{?(\w+)([^}]*)\}?/g)];

/** An environment as compose would fill it in. */
function filled(environment: Record<string, string>): Record<string, string> {
  const random = ['q0nR8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0TqZt5m', 'Rk3vXw9QmT5zLp7NcB2dGh8JsYf4Ue6A', 'b1HnVq8ZxWc3MlKj5PoIu7YtRe2SgDf9'];
  return Object.fromEntries(Object.entries(environment).map(([name, value]) =>
    [name, name.endsWith('_SIGNING_KEYS') ? random[0] as string : name.startsWith('CALLGATE_SECRETS_') ? random.pop() as string : value.replaceAll(/\$\{[^}]*\}/g, 'x')]));
}

/** No engine is needed for any of this; it protects the promise that the file starts nothing weak or open. */
describe('docker-compose.yml', () => {
  it('has no default secret: every variable is required, and deploy/make-env.sh makes each, strong enough for production', () => {
    expect(variables.length).toBeGreaterThan(0);
    for (const [whole, , operator] of variables) expect(operator, whole).toMatch(/^:\?/);
    const made = execFileSync('sh', [projectFile('deploy', 'make-env.sh')], { encoding: 'utf8' });
    const secrets = new Map([...made.matchAll(/^([A-Z_]+)=(.+)$/gm)].map((match) => [match[1] as string, match[2] as string]));
    expect([...secrets.keys()].sort()).toEqual([...new Set(variables.map(([, name]) => name as string))].sort());
    for (const [name, secret] of secrets) {
      expect(secretWeakness(secret), name).toBeNull();
      expect(encodeURIComponent(secret), `${name} stands in a URL`).toBe(secret);
    }
    expect(new Set(secrets.values()).size).toBe(secrets.size);
  });

  it.each(services)('%s runs read-only, without capabilities, and is reachable from this machine alone', (_, service) => {
    expect(service.read_only).toBe(true);
    expect(service.cap_drop).toEqual(['ALL']);
    expect(service.security_opt).toEqual(['no-new-privileges:true']);
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    for (const network of service.networks) expect(compose.networks).toHaveProperty(network);
    if (service.ports === undefined) expect(service.networks).toEqual(['inside']);
  });

  it('starts the gateway only after the schema is there, and gives it a configuration that production accepts', () => {
    const { gateway, migrate } = compose.services as { gateway: Service; migrate: Service };
    expect(gateway.depends_on?.['migrate']).toEqual({ condition: 'service_completed_successfully' });
    expect(migrate.command).toEqual(['migrate', '--grant', 'callgate_gateway']);
    expect(compose.networks['inside']).toEqual({ internal: true });
    for (const { environment = {} } of [gateway, migrate]) {
      const loaded = loadConfig({ env: filled(environment), production: true, folder: '/nowhere' });
      expect('problems' in loaded ? loaded.problems : []).toEqual([]);
    }
  });

  it('runs nothing of ours as root: the image says its user, and no service says another', () => {
    const user = readInstructions(projectFile('Dockerfile')).filter(({ name }) => name === 'USER');
    expect(user).toEqual([{ name: 'USER', args: '1000:1000' }]);
    for (const [name, service] of services) {
      if (service.image === 'callgate') expect(service.user, name).toBeUndefined();
      else expect(service.user, name).toMatch(/^(postgres|redis)$/);
    }
  });

  it('names only files and folders that exist', () => {
    for (const [name, { volumes = [] }] of services) {
      for (const volume of volumes) {
        const [source = ''] = volume.split(':');
        if (source.startsWith('.')) expect(existsSync(projectFile(source)), `${name}: ${source}`).toBe(true);
        else expect(compose.volumes).toHaveProperty(source);
      }
    }
    const script = compose.services['example']?.entrypoint?.[1] ?? '';
    expect(script).toMatch(/^dist\/.*\.js$/);
    expect(existsSync(projectFile(script.replace(/^dist\//, '').replace(/\.js$/, '.ts')))).toBe(true);
  });
});

/** "Append-only" is true of what is shipped, or it is a sentence on a page. The steps of the file, on a Postgres of its own. */
describe('the database that it sets up', () => {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-compose-'));
  const as = (postgres: EmbeddedPostgres, name: 'gateway' | 'migrate'): string => {
    const { username, password, pathname, port } = new URL(filled(compose.services[name]?.environment ?? {})['DATABASE_URL'] as string);
    expect(port).toBe('5432');
    return Object.assign(new URL(postgres.url), { username, password, pathname }).href;
  };
  let postgres: EmbeddedPostgres;
  let gateway: pg.Client;
  let house: House;
  let open: Opened;
  beforeAll(async () => {
    postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') });
    // what the image does: POSTGRES_USER is a superuser, and owns POSTGRES_DB
    const { POSTGRES_USER: owner = '', POSTGRES_DB: database = '' } = compose.services['postgres']?.environment ?? {};
    const admin = new pg.Client({ connectionString: postgres.url });
    await admin.connect();
    await admin.query(`do $$ begin create role ${owner} superuser login; exception when duplicate_object then null; end $$`);
    await admin.query(`alter role ${owner} superuser login password 'x'`);
    if (new URL(postgres.url).pathname !== `/${database}`) await admin.query(`create database ${database} owner ${owner}`);
    await admin.end();
    const [script = ''] = compose.services['postgres']?.volumes?.find((volume) => volume.includes('/docker-entrypoint-initdb.d/'))?.split(':') ?? [];
    const first = new pg.Client({ connectionString: as(postgres, 'migrate') });
    await first.connect();
    for (const statement of readFileSync(projectFile(script), 'utf8').replaceAll(/^(--|\\).*$/gm, '').replaceAll(/:'(\w+)'/g, `'x'`).split(';')) {
      if (statement.trim() !== '') await first.query(statement);
    }
    await first.end();
    vi.stubEnv('DATABASE_URL', as(postgres, 'migrate'));
    vi.stubEnv('CALLGATE_TEST_RUN', undefined);
    await migrateDatabase(compose.services['migrate']?.command?.slice(1) ?? []);
    vi.unstubAllEnvs();

    house = await openHouse({}, async () => as(postgres, 'migrate'));
    open = await openGateway(house, { DATABASE_URL: as(postgres, 'gateway') });
    gateway = new pg.Client({ connectionString: as(postgres, 'gateway') });
    await gateway.connect();
  }, 120_000);
  afterAll(async () => {
    await open.gateway.close();
    await gateway.end();
    await house.close();
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('is enough for a call as the gateway is connected, and not for changing or deleting what it wrote', async () => {
    expect(await open.agent.credit({ arguments: { amount: 300 } })).toMatchObject({ disposition: 'executed', verified: true });
    expect((await gateway.query('select 1 from receipts')).rows.length).toBeGreaterThanOrEqual(2);
    for (const table of ['receipts', 'receipt_chain', 'receipt_checkpoints']) {
      const changes = [`update ${table} set tenant = 'x'`, `delete from ${table}`, `truncate ${table}`, `drop table ${table}`, `alter table ${table} disable trigger all`];
      for (const statement of changes) {
        expect([statement, await gateway.query(statement).then(() => 'it was done', (error: { code: string }) => error.code)]).toEqual([statement, '42501']);
      }
    }
    for (const statement of ['set role callgate', 'alter role callgate_gateway superuser', 'create role another']) {
      await expect(gateway.query(statement), statement).rejects.toThrow(/permission denied|must be|Only roles/i);
    }
  });

  it('can give it another role and cut the old one off, by the steps of docs/rotation.md', async () => {
    const [made = '', cut = ''] = blocks(page('docs/rotation.md').text, 'sql');
    const owner = new pg.Client({ connectionString: as(postgres, 'migrate') });
    await owner.connect();
    await owner.query(made);
    vi.stubEnv('DATABASE_URL', as(postgres, 'migrate'));
    vi.stubEnv('CALLGATE_TEST_RUN', undefined);
    await migrateDatabase(['--grant', 'callgate_gateway_2']);
    vi.unstubAllEnvs();
    const [, password = ''] = /password '([^']+)'/.exec(made) ?? [];
    const url = Object.assign(new URL(as(postgres, 'gateway')), { username: 'callgate_gateway_2', password }).href;
    const other = await openGateway(house, { DATABASE_URL: url });
    gateway.on('error', () => undefined); // each of its ends is one
    const lost = once(gateway, 'error');
    await owner.query(cut);
    await owner.end();
    expect((await lost)[0]).toMatchObject({ code: '57P01' });
    await expect(new pg.Client({ connectionString: as(postgres, 'gateway') }).connect()).rejects.toThrow(/password authentication failed|does not exist/);
    expect(await other.agent.credit({ arguments: { amount: 301 } })).toMatchObject({ disposition: 'executed' });
    expect(await open.agent.credit({ session_id: 's-cut', arguments: { amount: 302 } })).toMatchObject({ http: 503, code: 'UNAVAILABLE' });
    await other.gateway.close();
  }, 60_000);

  it('is not given the owner’s password where agents can reach', () => {
    for (const [name, { environment = {} }] of services) {
      if (!['migrate', 'postgres'].includes(name)) expect(JSON.stringify(environment), name).not.toContain('${POSTGRES_PASSWORD');
    }
  });
});
