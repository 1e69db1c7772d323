import { expect, it, onTestFinished } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import type { Parts } from '../../src/gate/parts.js';
import type { Operation, Transition } from '../../src/gate/ports.js';
import { MemoryLocks } from '../../src/locks/memory-locks.js';
import { projectFile } from '../../src/project.js';
import { Sweeper } from '../../src/recovery/sweeper.js';
import { until } from './process.js';

const compiled = compileFolder(projectFile('examples', 'retail', 'contracts'), { RETAIL_URL: 'http://127.0.0.1:1', RETAIL_TOKEN: 'x' });
if (!('catalogue' in compiled)) throw new Error('the example does not compile');
const credit = compiled.catalogue.tools.get('issue_credit') as ToolPlan;
const of = (service: string): ToolPlan => {
  const readback = credit.readback as NonNullable<ToolPlan['readback']>;
  const upstream = { ...credit.upstream, service };
  return { ...credit, name: `credit_${service}`, service, upstream, readback: { ...readback, tool: { ...readback.tool, service, upstream } } };
};

function unknown(id: string, tool: ToolPlan): Operation {
  return {
    tenant: 'acme', id, tool: tool.name, upstreamKey: id, principal: 'p', subject: 'C-17', sessionId: 's', catalogueDigest: 'd', state: 'unknown', fence: 1,
    attempt: 1, attempts: [], unknownAttempts: 1, effectSeen: false, generation: 1, outcome: 'unknown', answer: null,
    clock: { sinceCreated: 1, sinceFirstSent: 1, untilSendBy: null, untilAbsent: null, untilReconcileBy: 3_600_000, untilDue: 0 },
    dossier: {
      request: { method: 'POST', url: 'http://127.0.0.1:1/x', headers: {}, body: null }, args: { order_id: 'O-417', amount: 2500 }, bound: {}, observed: {},
      baseline: { entity: null, state: null, never: {} }, resource: null,
    },
  } as unknown as Operation;
}

/** Unknown outcomes of one service that no longer answers, however many, must not keep those of the others from being found out. */
it('recovery of a service that does not answer leaves room for the others, and puts down what finds none', async () => {
  const tools = new Map([['credit_frozen', of('frozen')], ['credit_quick', of('quick')]]);
  const moved: Transition[] = [];
  let thaw = (): void => undefined;
  const frozen = new Promise<void>((resolve) => { thaw = resolve; });
  const parts = {
    locks: new MemoryLocks(),
    ledger: {
      transition: (transition: Transition) => Promise.resolve(moved.push(transition) > 0), callbacks: { take: () => Promise.resolve([]), about: () => Promise.resolve([]) },
    },
    catalogueOf: () => Promise.resolve({ tools }), hold: () => () => undefined, draining: () => false,
    upstreamGate: { enter: () => Promise.resolve({ waited: false, leave: () => undefined }), pausedForMs: () => 0, pause: () => undefined },
    upstream: {
      async send(_: object, { upstream }: { upstream: { service: string } }) {
        if (upstream.service === 'frozen') await frozen;
        return { kind: 'failure', sent: true, reason: 'deadline', ms: 1 };
      },
    },
    metrics: { exchange: () => undefined }, log: { warn: () => undefined, error: () => undefined, info: () => undefined },
    settings: { reconcileDeadlineMs: 3_600_000, backoffFirstMs: 1_000, backoffMaxMs: 60_000, leaseMs: 15_000 },
  } as unknown as Parts;
  const due = [...Array.from({ length: 300 }, (_, n) => unknown(`frozen-${n}`, of('frozen'))), unknown('quick', of('quick'))];
  const sweeper = new Sweeper({
    parts, take: (limit) => Promise.resolve(due.splice(0, limit)), tidy: () => Promise.resolve(), adoptReviews: () => Promise.resolve(), retain: () => Promise.resolve(), escalateReviews: () => Promise.resolve([]),
    intervalMs: 10, concurrency: 64, recovered: () => undefined,
  });
  onTestFinished(async () => {
    thaw();
    await sweeper.stop();
  });
  sweeper.start();
  await until(() => moved.some(({ operationId }) => operationId === 'quick'), 20_000);
  const putDown = moved.filter(({ operationId }) => operationId !== 'quick');
  expect(putDown).toHaveLength(300 - 64 / 2);
  for (const { to, release, dueInMs } of putDown) {
    expect([to, release]).toEqual(['unknown', true]);
    expect(dueInMs).toBeGreaterThanOrEqual(500);
  }
});
