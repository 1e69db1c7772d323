/** Wiring only: configuration → parts → listeners → drain. Every room is built here and knows nothing of this file. */
import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Server as TlsServer } from 'node:tls';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from './config/index.js';
import { type CatalogueOptions, serveCatalogue } from './catalogue.js';
import { openExporter } from './chain/export.js';
import { readKeyRing } from './chain/keys.js';
import { Sealer } from './chain/sealer.js';
import { readViewLimits } from './contract/views/limits.js';
import { openCallbackDesk } from './gate/callback-desk.js';
import { openDoor } from './gate/door.js';
import type { Parts } from './gate/parts.js';
import type { Ledger, Locks, SharedPauses } from './gate/ports.js';
import { openApprovalDesk } from './gate/approval-desk.js';
import { openReviewDesk } from './gate/review-desk.js';
import { ReplayMemory } from './gate/replay-memory.js';
import { WaitingCalls } from './gate/waiting.js';
import { buildAgentServer } from './http/agent/server.js';
import { readOpenapi } from './http/control/openapi.js';
import { buildControlServer } from './http/control/server.js';
import { drain } from './http/drain.js';
import { defaultLimits } from './http/server.js';
import { followTls, readTls, type TlsFiles } from './http/tls.js';
import { openAuthenticator } from './authentication.js';
import { openKeys } from './ledger/keys.js';
import { openLedger } from './ledger/ledger.js';
import { openWriteProbe, type WriteProbe } from './ledger/readiness.js';
import { openRecords } from './ledger/records.js';
import { createSealer } from './ledger/seal.js';
import { MemoryLocks } from './locks/memory-locks.js';
import { openRedisLocks } from './locks/redis-locks.js';
import { CancelRequestsReader } from './recovery/cancel-requests.js';
import { Leases } from './recovery/leases.js';
import { retain } from './recovery/retention.js';
import { Sweeper } from './recovery/sweeper.js';
import { markOfSubject } from './telemetry/fingerprint.js';
import { createLog } from './telemetry/log.js';
import { createMetrics } from './telemetry/metrics.js';
import { redact } from './telemetry/redact.js';
import { openCredentials } from './upstream/credentials.js';
import { type Egress, openEgress, readAllowedUpstreams, type Resolve } from './upstream/egress.js';
import type { Upstream } from './upstream/exchange.js';
import { openUpstreamGate } from './upstream/gate.js';
import { parseRetryAfter } from './upstream/retry-after.js';
import { createUpstream } from './upstream/sender.js';
import type { AgentDoor, SharedBounds } from './ports.js';
import { projectFile, version } from './project.js';

export interface Gateway {
  agentUrl: string;
  controlUrl: string;
  /** Readiness first, then no new reservations; what is in flight gets the drain time, the rest is handed to other replicas. */
  close(): Promise<void>;
}

/** For tests that stand between two rooms; the product passes them through. */
export interface Joints {
  ledger?(ledger: Ledger): Ledger;
  upstream?(upstream: Upstream): Upstream;
  /** Names to addresses, instead of the system's resolver. */
  resolve?: Resolve;
  door?(door: AgentDoor): AgentDoor;
}

const maxRetryAfterMs = 300_000;
const probeMs = 2_000;
const recordsMs = 3_000;
const tlsReloadMs = 60_000;
const gaugeMs = 10_000;
const closeMs = 3_000;
const lastWordMs = 1_000;
const sweepConcurrency = 64;

/** @throws Error in words for the operator when something that it needs is not there. The database must be migrated. */
export async function startGateway(config: Config, joints: Joints = {}): Promise<Gateway> {
  const databaseUrl = required(config.database.url, 'database.url');
  const pepper = required(config.secrets.keyPepper, 'secrets.key_pepper');
  const sealKey = required(config.secrets.sealKey, 'secrets.seal_key');
  const log = createLog({ level: config.log.level, key: pepper });
  const metrics = createMetrics({ version });
  const replica = `${hostname()}/${process.pid}/${randomUUID().slice(0, 8)}`;

  const sealer = createSealer(sealKey, config.database.packed);
  const store = openLedger(
    {
      url: databaseUrl, preparedStatements: config.database.preparedStatements, statementTimeoutMs: 5_000, connectTimeoutMs: 2_000,
      poolSize: Math.max(1, config.database.poolSize - 4), maxBatch: 128, maxQueue: 4_096, observed: metrics.flush, retried: metrics.ledgerRetry,
      subjectMark: (tenant, subject) => markOfSubject(pepper, tenant, subject),
    },
    sealer,
  );
  const records = openRecords({ url: databaseUrl, poolSize: Math.min(2, config.database.poolSize - 1), statementTimeoutMs: recordsMs, connectTimeoutMs: 2_000 }, sealer);
  const locks = openLocks(config.redis.url, sealKey, log);
  const egress = guardEgress(config.upstream.allowPrivate, joints.resolve, metrics, log);
  const credentials = openCredentials({
    env: process.env, secretsFolder: config.upstream.secretsFolder, commandsFolder: config.upstream.commandsFolder, keptMs: config.upstream.commandKeptMs,
  });
  const upstream = createUpstream({
    egress, credentials, maxResponseBytes: config.upstream.maxResponseBytes, maxHeaderBytes: 16_384,
    noCredential: (service, problem) => log.warn({ service, problem }, 'a request was not sent, because the credential of its service could not be read'),
  });
  const upstreamGate = openUpstreamGate({
    retryRatio: config.execution.retryRatio, maxWaiting: config.upstream.maxWaiting, maxPauseMs: maxRetryAfterMs, shared: locks.pauses,
    breaker: { failures: config.upstream.breakerFailures, openMs: config.upstream.breakerOpenMs }, knock: upstream.accepts,
    refused: metrics.refusedSend,
    changed(service, state) {
      metrics.breaker(service, state);
      if (state === 'open') log.warn({ service }, 'a domain service failed repeatedly: calls to it are refused until a probe succeeds');
      if (state === 'closed') log.info({ service }, 'a domain service is called again');
    },
  });
  const contracts = await serveCatalogue({
    folder: config.contracts.folder, env: process.env, store, reloadMs: config.contracts.reloadMs,
    addressProblem: egress.problem,
    limits: readViewLimits(config.contracts.viewLimits?.trim().split(/ +/) ?? []),
    defaults: {
      attempts: config.execution.attempts, elapsedMs: config.execution.elapsedMs,
      upstreamDeadlineMs: config.execution.upstreamDeadlineMs, connectTimeoutMs: config.execution.connectTimeoutMs,
      approvalExpiresMs: config.approvals.expiresMs,
    },
    shadow: config.contracts.shadowPolicies ? shadowOf(config.contracts.shadowPolicies, log, metrics) : undefined,
    reloaded(outcome, detail) {
      metrics.reloaded(outcome);
      if (outcome === 'swapped') log.info({ digest: detail }, 'a changed set of contracts is served');
      else log.error({ problem: detail }, 'a changed set of contracts was refused; the one before stays');
    },
    unkept: (error) => log.error({ err: error }, 'the ledger cannot be reached at the start: calls are refused until it can'),
  });
  const leases = new Leases(config.execution.leaseMs, (held) =>
    store.renew(replica, config.execution.leaseMs, held).catch((error: unknown) => log.warn({ err: error }, 'leases could not be renewed')));
  const probeWrite = openWriteProbe(databaseUrl, probeMs);
  let draining = false;

  const waiting = new WaitingCalls();
  const parts: Parts = {
    replica,
    settings: {
      bodyBytes: config.limits.bodyBytes, argumentsBytes: config.limits.argumentsBytes, depth: config.limits.depth, callsPerTurn: config.limits.callsPerBatch, inFlight: config.limits.inFlight, resultBytes: config.limits.resultBytes,
      leaseMs: config.execution.leaseMs, patienceMs: config.execution.patienceMs, sendWindowMs: config.execution.sendWindowMs,
      reconcileDeadlineMs: config.reconcile.deadlineMs,
      backoffFirstMs: config.reconcile.backoffFirstMs, backoffMaxMs: config.reconcile.backoffMaxMs,
      executionsPerSession: config.budgets.executionsPerSession, executionsPerPrincipalPerDay: config.budgets.executionsPerPrincipalPerDay,
      proposals: config.budgets.proposals, turns: config.budgets.turns,
      reviewDeadlineMs: config.approvals.reviewDeadlineMs, dispatchTries: config.approvals.dispatchTries,
    },
    ledger: underKeptContracts(joints.ledger?.(store) ?? store, contracts.kept),
    locks,
    upstream: joints.upstream?.(upstream) ?? upstream,
    upstreamGate,
    waiting,
    replays: new ReplayMemory(),
    served: contracts.served,
    catalogueOf: contracts.earlier,
    serviceSecret: credentials.secret,
    retryAfterMs: (header) => parseRetryAfter(header, Date.now(), maxRetryAfterMs),
    redact: (value, annotated, values) => redact(value, { key: pepper, annotated, values }),
    hold: leases.hold,
    draining: () => draining,
    metrics: { call: metrics.call, stage: metrics.stage, exchange: metrics.exchange, callback: metrics.callback },
    log,
  };
  const sweeper = new Sweeper({
    parts,
    take: (limit) => store.take(replica, config.execution.leaseMs, limit),
    tidy: () => store.tidy(config.execution.leaseMs),
    escalateReviews: () => store.escalateReviews(),
    adoptReviews: () => store.adoptReviews(config.approvals.reviewDeadlineMs),
    retain: (stopped) => retain(store.erasures, config.retention.payloadsMs, stopped),
    intervalMs: config.reconcile.sweepIntervalMs, concurrency: sweepConcurrency,
    recovered: (state) => metrics.recovered(state === 'review' ? 'escalated' : state === 'unknown' || state === 'accepted' ? 'deferred' : 'settled'),
  });

  const signingKeys = config.secrets.signingKeys === null ? null : readKeyRing(config.secrets.signingKeys);
  if (!signingKeys) log.warn({}, 'receipts are chained and not signed: `secrets.signing_keys` is not set');
  const receiptSealer = new Sealer({
    store: store.chain, reader: records.chain, keys: signingKeys, owner: replica, leaseMs: config.execution.leaseMs,
    intervalMs: config.receipts.sealIntervalMs, checkpointMs: config.receipts.checkpointIntervalMs, log, sealed: metrics.sealed, broken: metrics.chainsBroken,
  });
  const cancelRequests = new CancelRequestsReader(parts);
  const authenticator = openAuthenticator({
    pepper, store: openKeys(store.pool), keyCacheMs: config.identity.keyCacheMs, issuersFile: config.identity.issuersFile, certificatesFile: config.identity.certificatesFile, resolve: joints.resolve, log,
  });
  const limits = { ...defaultLimits, bodyBytes: config.limits.bodyBytes, depth: config.limits.depth, maxPatienceMs: config.execution.patienceMaxMs };
  const door = openDoor(parts);
  const agentTls = tlsFiles(config.agent.tlsCertFile, config.agent.tlsKeyFile, config.agent.tlsClientCaFile, config.agent.tlsClientRequired);
  const controlTls = tlsFiles(config.control.tlsCertFile, config.control.tlsKeyFile, config.control.tlsClientCaFile, config.control.tlsClientRequired);
  const agent = buildAgentServer({
    door: joints.door?.(door) ?? door, authenticator, limits, log, metrics, tls: agentTls && readTls(agentTls),
    callers: {
      principal: { perSecond: config.callers.principalRate, atOnce: config.callers.principalConcurrent },
      tenant: { perSecond: config.callers.tenantRate, atOnce: config.callers.tenantConcurrent },
      shared: locks.bounds ?? null, aloneShare: config.callers.aloneShare, metrics: metrics.callers,
    },
  });
  const control = buildControlServer({
    records, receiptChain: openExporter(records.chain, signingKeys, config.receipts.checkpointIntervalMs), approvals: openApprovalDesk(parts, records.approvals), reviews: openReviewDesk(parts, records.reviews), callbacks: openCallbackDesk(parts), sessions: store.sessions, sessionBudgets: { executions: config.budgets.executionsPerSession, proposals: config.budgets.proposals, turns: config.budgets.turns },
    authenticator, limits, log, metrics, tls: controlTls && readTls(controlTls), metricsPage: metrics.page, openapi: readOpenapi(projectFile('openapi.yaml')), contracts: { status: contracts.status },
    health: { readiness: async () => readiness(await probeWrite(), locks, draining) },
  });
  await agent.listen({ host: config.agent.host, port: config.agent.port, backlog: 1024 });
  await control.listen({ host: config.control.host, port: config.control.port });
  const unfollow = ([[agent, agentTls], [control, controlTls]] as const).flatMap(([{ server }, files]) =>
    files ? [followTls(server as unknown as TlsServer, files, tlsReloadMs, (error) => log.error({ err: error }, 'the TLS files of a listener cannot be used; it goes on with those before'))] : []);
  sweeper.start();
  receiptSealer.start();
  void cancelRequests.run();
  const gauge = setInterval(() => {
    void store.countOpen().then(metrics.operationsOpen, () => undefined);
    void store.countReviews().then(metrics.reviewsOpen, () => undefined);
  }, gaugeMs);

  return {
    agentUrl: urlOf(agent.server.address(), config.agent.host, agentTls),
    controlUrl: urlOf(control.server.address(), config.control.host, controlTls),
    async close() {
      draining = true;
      waiting.drain();
      clearInterval(gauge);
      for (const stop of unfollow) stop();
      contracts.stop();
      const until = performance.now() + config.drain.timeoutMs;
      const swept = sweeper.stop();
      cancelRequests.stop();
      // Still listening: who calls now is told 503 and when to come again, and is not left with a refused connection.
      await leases.idle(config.drain.timeoutMs);
      await drain(agent, Math.max(0, until - performance.now()));
      leases.stop();
      await store.handOver(replica).catch((error: unknown) => log.warn({ err: error }, 'open operations could not be handed over; their leases run out'));
      await drain(control, 1_000);
      // What is still under way ends within its deadline, and is recorded if nobody has taken it over by then.
      await Promise.all([upstream.close(), swept]);
      await leases.idle(lastWordMs);
      await receiptSealer.stop();
      // A server that accepts and never answers must not keep the process: everything durable is durable by now.
      await Promise.race([Promise.all([locks.close(), records.close(), store.close()]), delay(closeMs, undefined, { ref: false })]);
    },
  };
}

/** A replica that started without its ledger serves, and refuses; the first intent is the one that finds it back. */
function underKeptContracts(ledger: Ledger, kept: () => Promise<void>): Ledger {
  return {
    ...ledger,
    async reserve(intent) {
      await kept();
      return ledger.reserve(intent);
    },
  };
}

function guardEgress(allowPrivate: string | null, resolve: Resolve | undefined, metrics: ReturnType<typeof createMetrics>, log: ReturnType<typeof createLog>): Egress {
  return openEgress({
    allowed: readAllowedUpstreams(allowPrivate), resolve,
    refused(service, host, kind) {
      metrics.refusedSend(service, 'address');
      log.warn({ service, host, address: kind }, 'a domain service is at an address that `upstream.allow_private` does not allow it: nothing was sent there');
    },
  });
}

function shadowOf(folder: string, log: ReturnType<typeof createLog>, metrics: ReturnType<typeof createMetrics>): CatalogueOptions['shadow'] {
  return {
    folder,
    differs({ request, now, would }) {
      const verdict = would.allowed ? 'allow' : 'deny';
      metrics.shadowDiffers(request.action, verdict);
      const { principal, action, resource } = request;
      log.info({
        tool: action, question: resource.type === 'Tool' ? 'tool' : 'resource', tenant: principal.tenant, principal: principal.id, would: verdict, would_by: would.determining,
        would_errors: would.errors, now_by: now.determining,
      }, 'the shadow policies would have decided this otherwise');
    },
    refused: (problem) => log.error({ problem }, 'the shadow policies cannot be asked; calls are decided as before'),
  };
}

/** Replicas of one installation share the seal key; a mark of it keeps them apart from others on the same Redis. */
function openLocks(redisUrl: string | null, sealKey: string, log: ReturnType<typeof createLog>): Locks & { reachable?(): boolean; pauses?: SharedPauses; bounds?: SharedBounds } {
  if (!redisUrl) return new MemoryLocks();
  return openRedisLocks({
    url: redisUrl,
    installation: createHash('sha256').update('callgate/installation/1').update(sealKey).digest('base64url').slice(0, 12),
    onReachable: (reachable) => (reachable
      ? log.info({}, 'Redis answers')
      : log.warn({}, 'Redis does not answer: replicas wait for one another more slowly, with the same results, and each bounds callers by its own share')),
  });
}

function readiness({ ready, detail }: WriteProbe, locks: Locks & { reachable?(): boolean }, draining: boolean) {
  const redis = locks.reachable === undefined ? 'off' : locks.reachable() ? 'up' : 'degraded';
  return {
    ready: ready && !draining,
    checks: {
      postgres: { state: ready ? 'up' as const : 'down' as const, ...(detail === undefined ? {} : { detail }) },
      redis: { state: redis as 'off' | 'up' | 'degraded' },
      ...(draining ? { draining: { state: 'down' as const } } : {}),
    },
  };
}

function tlsFiles(certFile: string | null, keyFile: string | null, clientCaFile: string | null, clientRequired: boolean): TlsFiles | undefined {
  return certFile && keyFile ? { certFile, keyFile, clientCaFile, clientRequired } : undefined;
}

function urlOf(address: ReturnType<import('node:net').Server['address']>, host: string, tls: TlsFiles | undefined): string {
  const port = address !== null && typeof address === 'object' ? address.port : 0;
  return `http${tls ? 's' : ''}://${host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host}:${port}`;
}

function required(value: string | null | undefined, path: string): string {
  if (value) return value;
  throw new Error(`\`${path}\` is not set; see docs/configuration.md, or start with \`npm start\`, which sets up everything for development`);
}
