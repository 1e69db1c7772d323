import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Config, type ConfigProblem, describeProblems, loadConfig } from '../../src/config/index.js';

let folder: string;
beforeAll(() => { folder = mkdtempSync(join(tmpdir(), 'config-')); });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Env = Record<string, string>;

function load(yaml: string | null, env: Env = {}, production?: boolean): { config?: Config; problems?: ConfigProblem[] } {
  if (yaml !== null) writeFileSync(join(folder, 'my.yaml'), yaml);
  return loadConfig({ env, folder, ...(yaml === null ? {} : { file: 'my.yaml' }), ...(production === undefined ? {} : { production }) });
}

function configOf(yaml: string | null, env: Env = {}): Config {
  const { config, problems } = load(yaml, env);
  if (!config) throw new Error(describeProblems(problems ?? []));
  return config;
}

const problemsOf = (yaml: string | null, env: Env = {}, production?: boolean) => load(yaml, env, production).problems ?? [];

describe('values', () => {
  test('without file and environment, the defaults of semantics.md section 10 hold', () => {
    const config = configOf(null);
    expect(config.mode).toBe('development');
    expect(config.limits).toEqual({ bodyBytes: 262_144, argumentsBytes: 65_536, depth: 32, inFlight: 2_000, callsPerBatch: 20, resultBytes: 65_536 });
    expect(config.execution).toEqual({
      leaseMs: 15_000, patienceMs: 10_000, patienceMaxMs: 45_000, sendWindowMs: 5_000, upstreamDeadlineMs: 10_000, connectTimeoutMs: 2_000,
      attempts: 3, elapsedMs: 30_000, retryRatio: 0.1,
    });
    expect(config.budgets).toEqual({ executionsPerSession: 50, executionsPerPrincipalPerDay: 10_000, proposals: 3, turns: 32 });
    expect(config.approvals).toEqual({ expiresMs: 900_000, dispatchTries: 10, reviewDeadlineMs: 86_400_000 });
    expect(config.reconcile.deadlineMs).toBe(3_600_000);
    expect(config.retention.payloadsMs).toBe(30 * 86_400_000);
    const plain = { tlsCertFile: null, tlsKeyFile: null, tlsClientCaFile: null, tlsClientRequired: false };
    expect([config.agent, config.control]).toEqual([{ host: '127.0.0.1', port: 8080, ...plain }, { host: '127.0.0.1', port: 9090, ...plain }]);
    expect([config.database.url, config.redis.url, config.secrets.keyPepper]).toEqual([null, null, null]);
  });

  test('the file says what differs, in its own units', () => {
    const config = configOf('limits: { body: 1MiB, depth: 8 }\nexecution:\n  lease: 2m\n  retry_ratio: 0.5\ndatabase: { url: "postgres://db/x", prepared_statements: false }\n');
    expect(config.limits).toMatchObject({ bodyBytes: 1_048_576, depth: 8, argumentsBytes: 65_536 });
    expect(config.execution).toMatchObject({ leaseMs: 120_000, retryRatio: 0.5 });
    expect(config.database).toMatchObject({ url: 'postgres://db/x', preparedStatements: false });
  });

  test('the environment wins over the file, and a systematic name over a common one', () => {
    const yaml = 'agent: { port: 1000 }\nlog: { level: warn }\ndatabase: { url: "postgres://file/x" }\n';
    const config = configOf(yaml, { PORT: '2000', CALLGATE_AGENT_PORT: '3000', LOG_LEVEL: 'DEBUG', DATABASE_URL: 'postgres://env/x', REDIS_URL: 'rediss://r' });
    expect(config.agent.port).toBe(3000);
    expect(config.log.level).toBe('debug');
    expect(config.database.url).toBe('postgres://env/x');
    expect(config.redis.url).toBe('rediss://r');
  });

  test('the variables that the development set-up documents', () => {
    const config = configOf(null, { CALLGATE_AGENT_PORT: '1', CALLGATE_CONTROL_PORT: '2', CALLGATE_EXAMPLE_PORT: '3', CALLGATE_DATA_DIR: 'here', OTEL_SERVICE_NAME: 'mine', OTEL_TRACES_SAMPLER: 'always_on' });
    expect([config.agent.port, config.control.port, config.example.port]).toEqual([1, 2, 3]);
    expect(config.data.dir).toBe(join(folder, 'here'));
    expect(config.tracing.serviceName).toBe('mine');
  });

  test('an empty variable counts as unset', () => {
    expect(configOf('agent: { port: 1000 }', { CALLGATE_AGENT_PORT: '', REDIS_URL: '', CALLGATE_CONFIG: '' }).agent.port).toBe(1000);
  });

  test('an empty file and an empty section are no mistake', () => {
    for (const yaml of ['', '# nothing yet\n', 'limits:\n', '---\n']) expect(configOf(yaml).limits.depth).toBe(32);
  });

  test('a relative path is relative to what says it', () => {
    const file = join(folder, 'p.yaml');
    writeFileSync(file, 'contracts: { folder: ./c }');
    const { config } = loadConfig({ env: { CALLGATE_DATA_DIR: 'data' }, folder: '/somewhere', file }) as { config: Config };
    expect(config.contracts.folder).toBe(join(folder, 'c'));
    expect(config.data.dir).toBe('/somewhere/data');
  });

  test('CALLGATE_CONFIG names the file, callgate.yaml is taken when it is there, and a named file must exist', () => {
    writeFileSync(join(folder, 'other.yaml'), 'limits: { depth: 9 }');
    expect(configOf(null, { CALLGATE_CONFIG: 'other.yaml' }).limits.depth).toBe(9);
    const home = mkdtempSync(join(folder, 'home-'));
    writeFileSync(join(home, 'callgate.yaml'), 'limits: { depth: 10 }');
    expect(loadConfig({ env: {}, folder: home })).toMatchObject({ config: { limits: { depth: 10 } } });
    expect(problemsOf(null, { CALLGATE_CONFIG: 'absent.yaml' })).toMatchObject([{ source: 'absent.yaml', message: expect.stringContaining('ENOENT') }]);
  });
});

describe('problems', () => {
  test('all of them come at once, each with its place, its value and the mend', () => {
    const problems = problemsOf('limits:\n  body: 12KB\n  dept: 3\nexecution: { lease: 15 }\nlog:\n  level: loud\n', { PORT: '80x', CALLGATE_CONTROL_PROT: '1' });
    expect(problems.map(({ source, value }) => [source, value])).toEqual([
      ['my.yaml:3:3', null], ['CALLGATE_CONTROL_PROT', null],
      ['my.yaml:2:9', '"12KB"'], ['my.yaml:4:21', '15'], ['my.yaml:6:10', '"loud"'], ['PORT', '"80x"'],
    ]);
    expect(problems[0]?.mend).toContain('`limits.depth`');
    expect(problems[1]?.mend).toContain('CALLGATE_CONTROL_PORT');
    expect(problems[2]?.message).toContain('256KiB');
    expect(problems[4]?.message).toContain('fatal, error, warn');
    for (const { message, mend } of problems) expect(message.length * mend.length).toBeGreaterThan(0);
  });

  test.each([
    ['limits: { body: 0B }'], ['limits: { body: 1GiB }'], ['limits: { depth: 0 }'], ['limits: { depth: 1.5 }'], ['limits: { depth: "8" }'],
    ['execution: { lease: 1ms }'], ['execution: { retry_ratio: 1.1 }'], ['agent: { port: 65536 }'], ['agent: { host: "" }'], ['agent: { host: null }'],
    ['database: { url: mysql://x }'], ['database: { prepared_statements: "yes" }'], ['limits: { body: [1KiB] }'], ['limits: { body: { a: 1 } }'],
    ['limits: [1]'], ['limits: 7'], ['- limits'], ['just text'], ['mode: staging'], ['limit: {}'],
    ['limits: { depth: 8, depth: 9 }'], ['limits: { depth: 8'], ['limits: &a { depth: *a }'],
  ])('%s is refused with a place in the file', (yaml) => {
    const problems = problemsOf(yaml);
    expect(problems).not.toEqual([]);
    for (const { source } of problems) expect(source).toMatch(/^my\.yaml:\d+:\d+$/);
  });

  test.each([
    ['CALLGATE_LIMITS_DEPTH', 'eight'], ['CALLGATE_LIMITS_DEPTH', '0x8'], ['CALLGATE_DATABASE_PREPARED_STATEMENTS', '1'], ['CALLGATE_EXECUTION_LEASE', '15'],
    ['CALLGATE_MODE', 'prod'], ['DATABASE_URL', 'postgres://'], ['REDIS_URL', 'localhost:6379'], ['LOG_LEVEL', 'verbose'],
  ])('%s=%s is refused under its own name', (name, value) => {
    expect(problemsOf(null, { [name]: value })).toMatchObject([{ source: name }]);
  });

  test('settings that contradict each other are refused, with both places', () => {
    const problems = problemsOf('execution:\n  send_window: 20s\n  patience: 1m\nlimits: { arguments: 1MiB }\n', { CALLGATE_CONTROL_PORT: '8080' });
    expect(problems.map(({ source }) => source)).toEqual(['my.yaml:3:13', 'my.yaml:2:16', 'my.yaml:4:22', 'CALLGATE_CONTROL_PORT']);
    expect(problems[1]?.message).toContain('CALLGATE_EXECUTION_LEASE (not set)');
  });

  test('variables that Kubernetes makes for a service named callgate, or callgate-agent, are not taken for settings', () => {
    const links = {
      CALLGATE_SERVICE_HOST: '10.0.0.1', CALLGATE_SERVICE_PORT: '8080', CALLGATE_SERVICE_PORT_HTTP: '8080', CALLGATE_PORT: 'tcp://10.0.0.1:8080',
      CALLGATE_PORT_8080_TCP: 'tcp://10.0.0.1:8080', CALLGATE_PORT_8080_TCP_PROTO: 'tcp', CALLGATE_PORT_8080_TCP_PORT: '8080', CALLGATE_PORT_8080_TCP_ADDR: '10.0.0.1',
      CALLGATE_AGENT_SERVICE_HOST: '10.0.0.2', CALLGATE_AGENT_PORT: 'tcp://10.0.0.2:8080',
    };
    expect(configOf(null, links).agent.port).toBe(8080);
  });

  test('a secret is never shown, however it is wrong', () => {
    const canary = 'CANARY';
    const wrong = [
      problemsOf(`secrets:\n  key_pepper: [${canary}]\n  seal_kee: ${canary}\ndatabase: { url: "mysql://u:${canary}@h" }\n`, { REDIS_URL: `http://:${canary}@h`, CALLGATE_SECRETS_PEPER: canary }),
      problemsOf(null, { CALLGATE_SECRETS_KEY_PEPPER: canary, CALLGATE_SECRETS_SEAL_KEY: canary }, true),
      problemsOf(`secrets: { key_pepper: "${canary}" ${canary} }`), problemsOf(`secrets:\n  key_pepper: "${canary}`), problemsOf(`secrets:\n ${canary}\n  ${canary}: x`),
      ...['|', '>', '!', '!!', '*', '} ', '"x" ', '%'].map((start) => problemsOf(`secrets:\n  seal_key: ${start}${canary}\n`)), problemsOf(`} ${canary}`),
    ];
    for (const problems of wrong) {
      expect(problems).not.toEqual([]);
      expect(describeProblems(problems)).not.toContain(canary);
    }
  });
});

describe('production', () => {
  const pepper = 'q8Zk1vN4rT7yB0mX3cW6eJ9uL2pS5dGh4aFs8KxQ';
  const sealKey = 'mB7tR2wY9nE4hK1vZ6xQ3cU8jL5pD0sGf2aTs9Wy';
  const sound = { DATABASE_URL: 'postgres://u:p@db/x', CALLGATE_SECRETS_KEY_PEPPER: pepper, CALLGATE_SECRETS_SEAL_KEY: sealKey, CALLGATE_SECRETS_SIGNING_KEYS: 'q0nR8rCk1wEy7uMf3bHd9sXg2vLj6pNa4oKi0TqZt5m' };

  test('starts with a database, two strong secrets and a key that signs', () => {
    expect(configOf(null, { ...sound, CALLGATE_MODE: 'production' }).mode).toBe('production');
    expect(load(null, sound, true).config?.mode).toBe('production');
  });

  test('refuses to start on nothing, and names everything that is missing', () => {
    expect(problemsOf(null, {}, true).map(({ source }) => source)).toEqual([
      'DATABASE_URL (not set)', 'CALLGATE_SECRETS_KEY_PEPPER (not set)', 'CALLGATE_SECRETS_SEAL_KEY (not set)', 'CALLGATE_SECRETS_SIGNING_KEYS (not set)',
    ]);
    expect(problemsOf('mode: production')).toHaveLength(4);
    expect(problemsOf(null, { NODE_ENV: 'production' })).toHaveLength(4);
  });

  test('an explicit mode wins over NODE_ENV, and the command line over both', () => {
    expect(configOf(null, { NODE_ENV: 'production', CALLGATE_MODE: 'development' }).mode).toBe('development');
    expect(problemsOf(null, { CALLGATE_MODE: 'development' }, true)).toHaveLength(4);
  });

  test.each([
    ['short', 'q8Zk1vN4rT7yB0mX3cW6eJ9uL2pS5dG'], ['one character', 'a'.repeat(64)], ['a repeated word', 'hunter2-'.repeat(8)], ['few characters', 'abababababbbaaababababababababababab'],
    ['a placeholder', 'please-change-me-q8Zk1vN4rT7yB0mX3cW6'], ['a default', 'callgate-q8Zk1vN4rT7yB0mX3cW6eJ9uL2pS'], ['a keyboard row', '0123456789'.repeat(4)],
  ])('refuses a secret that is %s', (_, weak) => {
    expect(problemsOf(null, { ...sound, CALLGATE_SECRETS_KEY_PEPPER: weak }, true)).toMatchObject([{ source: 'CALLGATE_SECRETS_KEY_PEPPER', value: null }]);
    expect(problemsOf(null, { ...sound, CALLGATE_SECRETS_SEAL_KEY: weak }, true)).toMatchObject([{ source: 'CALLGATE_SECRETS_SEAL_KEY' }]);
  });

  test('refuses signing keys that sign nothing, without showing them', () => {
    const [problem] = problemsOf(null, { ...sound, CALLGATE_SECRETS_SIGNING_KEYS: 'CANARY' });
    expect(problem).toMatchObject({ source: 'CALLGATE_SECRETS_SIGNING_KEYS', value: null, mend: expect.stringContaining('keygen') });
    expect(problem?.message).not.toContain('CANARY');
  });

  test('refuses one secret for two purposes', () => {
    expect(problemsOf(null, { ...sound, CALLGATE_SECRETS_SEAL_KEY: pepper }, true)).toMatchObject([{ message: expect.stringContaining('same as') }]);
  });

  test('accepts what openssl makes', () => {
    for (const made of ['9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=', '9f86d081884c7d659a2feaa0c55ad015']) {
      expect(problemsOf(null, { ...sound, CALLGATE_SECRETS_KEY_PEPPER: made }, true)).toEqual([]);
    }
  });

  test('a secret can be mounted as a file, is held to the same rules, and is not given twice', () => {
    const { CALLGATE_SECRETS_KEY_PEPPER: _, ...rest } = sound;
    writeFileSync(join(folder, 'pepper'), `${pepper}\n`);
    writeFileSync(join(folder, 'weak'), 'weak\n');
    writeFileSync(join(folder, 'empty'), '\n');
    const name = 'CALLGATE_SECRETS_KEY_PEPPER_FILE';
    expect(load(null, { ...rest, [name]: 'pepper' }, true).config?.secrets.keyPepper).toBe(pepper);
    expect(problemsOf(null, { ...rest, [name]: 'weak' }, true)).toMatchObject([{ source: name, message: expect.stringContaining('shorter') }]);
    expect(problemsOf(null, { ...rest, [name]: 'absent' }, true)).toMatchObject([{ source: name, message: expect.stringContaining('ENOENT') }]);
    expect(problemsOf(null, { ...rest, [name]: 'empty' })).toMatchObject([{ source: name, message: expect.stringContaining('empty') }]);
    expect(problemsOf(null, { ...sound, [name]: 'pepper' }, true)).toMatchObject([{ source: name, message: expect.stringContaining('both') }]);
  });
});
