/**
 * node bench/guard.mjs [CALLS]
 *
 * The guard alone, in one process and without I/O: the compiled stages as the gateway runs them, from the bytes of a call to the verdict about the
 * world, over a ledger that knows nothing of any call and a service that answers at once from memory. The replica is draining, which is asked for
 * right before the intent, so that every call walks the whole guard and none goes further. Prints one line of JSON:
 * `{calls, cpuMs: {p50, p95, p99}, ms: {p50, p95, p99}, steps, largest: [{what, cpuMs}]}`, all in milliseconds. `cpuMs` is CPU time of the whole process and a
 * whole walk, which is what the time would be on a machine that does nothing else; `ms` is what the clock said of the steps.
 */
import { fileURLToPath } from 'node:url';
import { call } from '../dist/src/gate/pipeline.js';
import { ReplayMemory } from '../dist/src/gate/replay-memory.js';
import { WaitingCalls } from '../dist/src/gate/waiting.js';
import { MemoryLocks } from '../dist/src/locks/memory-locks.js';
import { compileServed } from '../dist/src/served.js';
import { redact } from '../dist/src/telemetry/redact.js';
import { openUpstreamGate } from '../dist/src/upstream/gate.js';
import { median, percentiles } from './figures.mjs';

const calls = Number(process.argv[2] ?? 20_000);
const warmCalls = Math.min(20_000, calls);
const bodyBytes = 1_048_576;
const argumentsBytes = 262_144;
const depth = 32;
const guardStages = new Set(['parse', 'validate', 'authorize']);

const { served } = compileServed({
  folder: fileURLToPath(new URL('contracts', import.meta.url)), env: { BENCH_UPSTREAM: 'http://127.0.0.1:1' },
  defaults: { attempts: 3, elapsedMs: 20_000, upstreamDeadlineMs: 10_000, connectTimeoutMs: 2_000, approvalExpiresMs: 3_600_000 },
});
const nothing = () => undefined;
const nothingKnown = {
  call: null, current: null, seenVersion: null, untrusted: false, guarded: false, kept: [], session: null, reading: null,
};
const order = { kind: 'response', sent: true, status: 200, headers: { etag: '"7"' }, body: { json: { order_id: 'O-1', status: 'DELIVERED', refundable: 5000, customer_id: 'C-1' } }, ms: 0 };

let spent = {};
const parts = {
  replica: 'bench', locks: new MemoryLocks(), waiting: new WaitingCalls(), replays: new ReplayMemory(), served: () => served, draining: () => true, hold: () => nothing,
  settings: { bodyBytes, argumentsBytes, depth, resultBytes: 1_048_576, leaseMs: 15_000, patienceMs: 10_000, sendWindowMs: 3_000, executionsPerPrincipalPerDay: 1e8, proposals: 1e8, turns: 1e8 },
  ledger: {
    find: async ({ guardKeys }) => ({ ...nothingKnown, guardEpochs: guardKeys.map(() => 0) }),
    drawTurn: async () => null, refuse: async () => null, record: async () => true,
  },
  upstream: { send: async () => order },
  upstreamGate: openUpstreamGate({ retryRatio: 0.2, maxWaiting: 1_000, maxPauseMs: 300_000, breaker: { failures: 5, openMs: 10_000 }, knock: async () => true, refused: nothing, changed: nothing }),
  redact: (value, annotated, values) => redact(value, { key: 'bench', annotated, values }),
  metrics: { call: nothing, exchange: nothing, callback: nothing, stage: (stage, step, seconds) => { if (guardStages.has(stage)) spent[step] = (spent[step] ?? 0) + seconds * 1000; } },
  log: { info: nothing, warn: nothing, error: nothing },
};
const principal = { tenant: 'bench', id: 'agent', roles: ['agent'], subject: 'C-1', purposes: ['refund'], tools: '*', grants: { assertSubject: false, ownKeys: false } };

/** @returns milliseconds by step */
async function walk(body, code) {
  spent = {};
  const answer = await call(parts, { principal, body }, { until: performance.now() + 10_000, respondAsync: false });
  if (answer.code !== code) throw new Error(`the call was answered ${answer.code} and not ${code}: ${answer.detail}`);
  return spent;
}

const total = (steps) => Object.values(steps).reduce((sum, ms) => sum + ms, 0);
/** Of this process, in milliseconds. */
const cpuSince = (before) => { const { user, system } = process.cpuUsage(before); return (user + system) / 1000; };
const bodyOf = (n, args) => Buffer.from(`{"session_id":"s-${n}","call_id":"c-${n}","tool":"issue_credit","arguments":${args}}`);
const credit = (n) => bodyOf(n, `{"order_id":"O-${n}","amount":2500,"currency":"GBP"}`);

for (let n = 0; n < warmCalls; n++) await walk(credit(n), 'DRAINING');
const [times, cpuTimes, sums] = [[], [], {}];
for (let n = warmCalls; n < warmCalls + calls; n++) {
  const before = process.cpuUsage();
  const steps = await walk(credit(n), 'DRAINING');
  cpuTimes.push(cpuSince(before));
  times.push(total(steps));
  for (const [step, ms] of Object.entries(steps)) sums[step] = (sums[step] ?? 0) + ms;
}

/** What a caller can send that is the most work to read, within the limits. */
const room = argumentsBytes - 64;
const large = [
  ['one long text', bodyOf(1, JSON.stringify({ order_id: `O-${'7'.repeat(room)}`, amount: 1, currency: 'GBP' })), 'INVALID_ARGUMENTS'],
  ['many unknown members', bodyOf(2, JSON.stringify(Object.fromEntries(Array.from({ length: Math.floor(room / 14) }, (_, n) => [`m${n}`, n])))), 'INVALID_ARGUMENTS'],
  ['nested too deep', bodyOf(3, `${'{"a":'.repeat(depth * 2)}1${'}'.repeat(depth * 2)}`), 'TOO_DEEP'],
  ['a body of white space', Buffer.concat([credit(4), Buffer.alloc(bodyBytes - credit(4).length, ' ')]), 'DRAINING'],
];
const largest = [];
for (const [what, body, code] of large) {
  const each = [];
  for (let n = 0; n < 20; n++) {
    const before = process.cpuUsage();
    await walk(body, code);
    each.push(cpuSince(before));
  }
  largest.push({ what, cpuMs: median(each) });
}
const steps = Object.fromEntries(Object.entries(sums).map(([step, ms]) => [step, ms / calls]));
console.log(JSON.stringify({ calls, cpuMs: percentiles(cpuTimes), ms: percentiles(times), steps, largest }));
