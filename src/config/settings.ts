/**
 * Every setting of Callgate, once: the file, the environment, the JSON Schema for editors, docs/configuration.md and the
 * `Config` type follow from this object. Two levels and no more, so that `limits.body` in the file is
 * `CALLGATE_LIMITS_BODY` in the environment and `config.limits.bodyBytes` in the code.
 * Source of the defaults: semantics.md section 10.
 */
import { type Static, type TProperties, Type } from '@sinclair/typebox';
import { choice, type Duration, duration, flag, fraction, integer, optional, path, type Size, size, text } from './kinds.js';

const section = <T extends TProperties>(description: string, settings: T) =>
  Type.Object(settings, { description, additionalProperties: false });

const anyPort: [number, number] = [0, 65_535];
const secret = (description: string) => optional(description, {}, { expected: 'text', secret: true });
const secretFile = (name: string) =>
  optional(`A file that holds \`${name}\`, for secrets that are mounted. Its last line break is not part of it.`, {}, { kind: 'path', expected: 'a path' });

const tls = {
  tls_cert_file: optional('A certificate chain in PEM, with which the listener speaks TLS. The files are read again every minute.', {}, { kind: 'path', expected: 'a path' }),
  tls_key_file: optional('Its private key in PEM.', {}, { kind: 'path', expected: 'a path' }),
  tls_client_ca_file: optional('The authorities in PEM whose client certificates are believed; who somebody is then says `identity.certificates_file`. Without it nobody is asked for a certificate.', {}, { kind: 'path', expected: 'a path' }),
  tls_client_required: flag(false, 'Nobody connects without such a certificate, whatever other credential they have. Probes neither.'),
};

const viewLimit = '(openai-chat|openai-responses|anthropic|gemini|mcp)((\\.(tools|bytes|tokens))?=(none|[1-9][0-9]{0,8}))?';

const allowedUpstream = '[A-Za-z][A-Za-z0-9_.-]*(=[0-9a-fA-F.:/]+(,[0-9a-fA-F.:/]+)*)?';

export const configSchema = Type.Object({
  mode: choice(['development', 'production'], 'development',
    'In `production` Callgate refuses to start without a database, and with secrets that are missing, short or guessable. `NODE_ENV=production` means the same where this is not set.'),
  agent: section('The listener for agents.', {
    host: text('127.0.0.1', 'The address to listen on.'),
    port: integer(8080, 'The port; 0 takes a free one.', anyPort),
    ...tls,
  }),
  control: section('The listener for people, applications and operations. Agents’ credentials never work here.', {
    host: text('127.0.0.1', 'The address to listen on.'),
    port: integer(9090, 'The port; 0 takes a free one.', anyPort),
    ...tls,
  }),
  database: section('Postgres, the record of truth.', {
    url: optional('The connection string. Without one, development starts an embedded Postgres.', { pattern: '^postgres(ql)?://\\S+$' },
      { expected: 'a URL such as postgres://user:password@host:5432/database', secret: true }),
    pool_size: integer(10, 'Connections that one replica opens at most.', [2, 200]),
    prepared_statements: flag(true, 'Named prepared statements; turn them off behind a pooler in transaction mode that does not track them.'),
    packed: flag(true, 'Requests and answers are packed before they are sealed, to a third of their size. `false` while replicas run that were started before migration 0022: they open nothing that is packed.'),
  }),
  redis: section('Redis, which makes replicas wait for one another cheaply. Losing it changes speed, never results.', {
    url: optional('The connection string. Without one, locks are kept in the process.', { pattern: '^rediss?://\\S+$' },
      { expected: 'a URL such as redis://host:6379', secret: true }),
  }),
  contracts: section('The contracts to serve.', {
    folder: path('contracts', 'The folder of contracts and policies.'),
    shadow_policies: optional('A folder of `.cedar` files that are asked beside the policies that decide, about the same calls. They decide nothing; where they would have decided otherwise is logged and counted.', {}, { kind: 'path', expected: 'a path' }),
    reload: duration('2s', 'How often the folder is looked at for changes; 0ms: only at the start. An invalid set never replaces a valid one.', ['0ms', '1h']),
    view_limits: optional('The dialects that agents use, with how much their view of the contracts may be: `openai-chat` (what its provider is known to take), `openai-chat=100` (tools), `anthropic.tokens=20000`, `anthropic.bytes=80000`, with spaces between. A set that is more is not served (`CG620`). Without any, no view is held to a limit.',
      { pattern: `^${viewLimit}( +${viewLimit})*$` }, { expected: 'dialects with limits, for instance `openai-chat anthropic.tokens=20000`' }),
  }),
  secrets: section('Keys of the gateway itself. Development makes its own; each replica of one installation has the same.', {
    key_pepper: secret('Keys the HMAC under which API keys are stored. Changing it invalidates every key.'),
    key_pepper_file: secretFile('key_pepper'),
    seal_key: secret('Seals stored requests and answers. Changing it makes open operations unreadable.'),
    seal_key_file: secretFile('seal_key'),
    signing_keys: secret('Sign how far the receipts have come, Ed25519: 32 random bytes in base64url, or a JWK Set as `callgate receipts keygen` makes and rotates it. The newest key signs; all others are published so that what they signed can be verified.'),
    signing_keys_file: secretFile('signing_keys'),
  }),
  identity: section('Credentials.', {
    issuers_file: optional('A file that says whose JWTs are accepted, and what their claims mean (docs/identity.md). Without one, only API keys are.', {}, { kind: 'path', expected: 'a path' }),
    certificates_file: optional('A file that says whose client certificate is whose, and which are revoked (docs/identity.md), for listeners that ask for one. It is read again when it changes.', {}, { kind: 'path', expected: 'a path' }),
    key_cache: duration('1s', 'How long a key is taken as valid without asking the database, and the file of certificates as unchanged; a revocation takes effect within it.', ['0ms', '60s']),
  }),
  limits: section('The size of what a caller may send and receive.', {
    body: size('256KiB', 'A request body.', ['1KiB', '64MiB']),
    arguments: size('64KiB', 'The arguments of one call.', ['1KiB', '64MiB']),
    depth: integer(32, 'Nesting of a body.', [4, 100]),
    in_flight: integer(2_000, 'Calls, batches and turns that one replica works on or keeps in line at a time, for agents. More are refused with 503 before anything is sent.', [1, 100_000]),
    calls_per_batch: integer(20, 'Calls in one batch, or that run of one turn.', [1, 20]),
    result: size('64KiB', 'A result in an answer; a larger one is cut there and read in pages. Also a result or read-back that is kept whole in a receipt, where a larger one is kept by size and digest.', ['1KiB', '64MiB']),
  }),
  execution: section('How calls are executed.', {
    lease: duration('15s', 'How long a replica owns an operation without renewing; then another one reconciles it.', ['1s', '10m']),
    patience: duration('10s', 'How long a caller is kept waiting for an outcome who did not say `Prefer: wait`.', ['0ms', '5m']),
    patience_max: duration('45s', 'The longest wait that a caller can ask for.', ['0ms', '5m']),
    send_window: duration('5s', 'Between the durable intent and its first byte; afterwards it is not sent any more.', ['100ms', '1m']),
    upstream_deadline: duration('10s', 'One exchange with a domain service, where its contract says nothing.', ['100ms', '10m']),
    connect_timeout: duration('2s', 'Connecting to a domain service, where its contract says nothing.', ['10ms', '1m']),
    attempts: integer(3, 'Attempts of one operation, where its contract says nothing.', [1, 10]),
    elapsed: duration('30s', 'Time over all attempts of one operation, where its contract says nothing.', ['100ms', '1h']),
    retry_ratio: fraction(0.1, 'Retries of one domain service that one replica makes, reads included, as a share of its first sends. Besides, ten at once and then one a second are always allowed.'),
  }),
  callers: section('How fast and how many at once agents may ask, by the credential; 0: no bound. With Redis all replicas count together.', {
    principal_rate: integer(0, 'Requests of one principal in a second; as many may come at once.', [0, 1_000_000]),
    principal_concurrent: integer(500, 'Requests of one principal that are under way.', [0, 1_000_000]),
    tenant_rate: integer(0, 'Requests of all principals of a tenant in a second.', [0, 1_000_000]),
    tenant_concurrent: integer(2_000, 'Requests of all principals of a tenant that are under way.', [0, 1_000_000]),
    alone_share: fraction(1, 'Of these bounds, at least 1 each, what one replica lets in by itself: without Redis, and while Redis does not answer. With three replicas, 0.33 keeps the sum.'),
  }),
  upstream: section('Domain services: where they may be, their answers, and how one that does not work or does not keep up is kept from holding up the others. Each replica counts for itself.', {
    allow_private: optional('The services, by the name in their contract, that may be at a loopback or private address: `retail payments`; or in these ranges and at no other such address, whatever their kind: `retail=10.1.0.0/16,fd00::/8`. With spaces between. Without any, only public addresses are connected to (docs/egress.md).',
      { pattern: `^${allowedUpstream}( +${allowedUpstream})*$` }, { expected: 'names of services with ranges, for instance `retail payments=10.1.0.0/16`' }),
    max_response: size('1MiB', 'The largest answer that is read.', ['1KiB', '64MiB']),
    secrets_folder: path('/run/secrets', 'The folder of the files that contracts name by `value_from: file:NAME`. They are read at each send.'),
    commands_folder: optional('The folder of the programs that contracts name by `value_from: command:NAME`. One is run without a shell, with the name of the service as its argument, and writes the credential to its standard output within 5 seconds. Without a folder there are none.', {}, { kind: 'path', expected: 'a path' }),
    command_kept: duration('5m', 'How long the output of such a program is used. It is run again before that time is over, and when the service answers 401.', ['1s', '1d']),
    breaker_failures: integer(10, 'Failures of one service in a row (no connection, no answer in time, 5xx; never a 4xx) after which calls to it are refused at once.', [1, 10_000]),
    breaker_open: duration('5s', 'How long they are, before one call alone tries whether it works again: a read, or a write under a key that the service honours; where only other writes come, a connection over which nothing is sent.', ['100ms', '10m']),
    max_waiting: integer(1_000, 'Calls that wait at most for a place at one service, of which its contract has `upstream.limits.concurrency`. More are refused at once.', [0, 100_000]),
  }),
  budgets: section('What may be started, counted over all replicas and restarts.', {
    executions_per_session: integer(50, 'Executions in one session that an application did not bound otherwise.', [1, 1_000_000]),
    executions_per_principal_per_day: integer(10_000, 'Executions of one principal in a day, in sessions that no application created.', [1, 100_000_000]),
    proposals: integer(3, 'Refused proposals of one tool for one intent.', [1, 1_000]),
    turns: integer(32, 'Turns of one session.', [1, 100_000]),
  }),
  reconcile: section('Finding out what really happened.', {
    deadline: duration('1h', 'When an outcome that no evidence settles goes to a person.', ['1s', '30d']),
    sweep_interval: duration('500ms', 'How often a replica looks for operations whose owner is gone.', ['50ms', '1m']),
    backoff_first: duration('1s', 'Between the first two read-backs of an operation; doubles from there.', ['50ms', '1m']),
    backoff_max: duration('1m', 'The longest pause between two read-backs.', ['50ms', '1h']),
  }),
  approvals: section('People.', {
    expires: duration('15m', 'How long an approval is open, where its contract says nothing.', ['1s', '30d']),
    dispatch_tries: integer(10, 'How often an approved call that cannot be sent yet (its entity is busy, its state cannot be read) is taken up before it goes to review.', [1, 1_000]),
    review_deadline: duration('24h', 'When an open review is escalated. It stays open.', ['100ms', '90d']),
  }),
  receipts: section('The chain over receipts: sealed after their commit, by one replica at a time.', {
    seal_interval: duration('1s', 'How often receipts that were committed since are sealed.', ['50ms', '1m']),
    checkpoint_interval: duration('10s', 'How often the end of a chain is signed, if it has moved.', ['100ms', '1h']),
  }),
  retention: section('How long content is kept. Identity, outcome and digests of an operation stay for ever.', {
    payloads: duration('30d', 'Payloads of receipts and stored answers of finished operations.', ['1h', '3650d']),
  }),
  drain: section('Shutting down.', {
    timeout: duration('25s', 'For calls in flight; keep it under the grace period of what stops the process.', ['0ms', '10m']),
  }),
  log: section('Logs, one JSON object a line on standard output; secrets are redacted.', {
    level: choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], 'info', 'The least severe level that is written.'),
  }),
  tracing: section('OpenTelemetry. Further `OTEL_*` variables are read by its SDK and are not settings of Callgate.', {
    service_name: text('callgate', 'The name of this service in traces.'),
    endpoint: optional('Where traces go by OTLP over HTTP. Without one, none are made.', { pattern: '^https?://\\S+$' },
      { expected: 'a URL such as http://collector:4318', secret: true }),
  }),
  data: section('Files of the development set-up.', {
    dir: path('.callgate', 'The folder of the embedded Postgres, the development keys and `dev.json`.'),
  }),
  example: section('The example retail service, in development only.', {
    port: integer(8090, 'Its port on 127.0.0.1; 0 takes a free one.', anyPort),
  }),
}, { additionalProperties: false });

/** Names that other programs have made common, each for one setting; the systematic name wins over it. */
export const commonNames: Readonly<Record<string, string>> = {
  DATABASE_URL: 'database.url',
  REDIS_URL: 'redis.url',
  PORT: 'agent.port',
  LOG_LEVEL: 'log.level',
  OTEL_SERVICE_NAME: 'tracing.service_name',
  OTEL_EXPORTER_OTLP_ENDPOINT: 'tracing.endpoint',
};

type Camel<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : S;
type Name<K extends string, V> = V extends Duration ? `${Camel<K>}Ms` : V extends Size ? `${Camel<K>}Bytes` : Camel<K>;
type Section<S> = { readonly [K in keyof S & string as Name<K, S[K]>]: S[K] extends Duration | Size ? number : S[K] };
type Written = Static<typeof configSchema>;

/** The configuration as the code reads it: durations in milliseconds (`leaseMs`), sizes in bytes (`bodyBytes`), paths absolute. */
export type Config = { readonly mode: Written['mode'] } & { readonly [S in Exclude<keyof Written, 'mode'>]: Section<Written[S]> };

/** @returns `leaseMs` for `lease`, as the type `Config` has it */
export function nameInCode(key: string, kind: string): string {
  const camel = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return kind === 'duration' ? `${camel}Ms` : kind === 'size' ? `${camel}Bytes` : camel;
}
