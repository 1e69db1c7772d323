import { describe, expect, it } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import { classify, type Verdict } from '../../src/gate/classify.js';
import type { Finding } from '../../src/gate/finding.js';
import type { Parts } from '../../src/gate/parts.js';
import type { Operation } from '../../src/gate/ports.js';
import { reconcile } from '../../src/gate/reconcile.js';
import type { Run } from '../../src/gate/run.js';
import type { Json } from '../../src/model.js';
import { projectFile } from '../../src/project.js';
import type { Exchange, FailureReason } from '../../src/upstream/exchange.js';

/**
 * The table of semantics.md section 4, row by row, as the functions that judge one exchange have it; classification.test.ts drives it through a gateway. If a row slips to the wrong side, either a customer is paid twice (an effect is taken
 * for absent and sent again) or a refund is lost (an absent effect is taken for done).
 */
const compiled = compileFolder(projectFile('examples', 'retail', 'contracts'), { RETAIL_URL: 'http://127.0.0.1:1', RETAIL_TOKEN: 'x' });
if (!('catalogue' in compiled)) throw new Error('the example does not compile');
const { tools } = compiled.catalogue;
const tool = (name: string): ToolPlan => tools.get(name) as ToolPlan;

const answered = (status: number, body: Json | { unreadable: 'truncated' | 'malformed' | 'too_large' | 'not_json' | 'deadline' }, headers: Record<string, string> = {}): Exchange => ({
  kind: 'response', sent: true, status, headers, ms: 1,
  body: body !== null && typeof body === 'object' && 'unreadable' in body ? (body as { unreadable: 'truncated' }) : { json: body as Json },
});
const failed = (reason: FailureReason, sent: boolean): Exchange => ({ kind: 'failure', reason, sent, ms: 1 });
const good = { receipt_id: 'CR-1', amount: 2500 };

interface Row { seen: string; exchange: Exchange; alone: Verdict['outcome']; tool?: string; notFound?: boolean }
const credit = 'issue_credit';
const rows: Row[] = [
  ...(['dns', 'refused', 'connect_timeout', 'tls', 'unreachable', 'fence_passed', 'no_credential'] as const).map((reason): Row =>
    ({ seen: `${reason}, no byte left`, exchange: failed(reason, false), alone: 'not_committed' })),
  ...(['reset', 'deadline', 'protocol'] as const).map((reason): Row => ({ seen: `${reason}, bytes left`, exchange: failed(reason, true), alone: 'unknown' })),
  { seen: '201 as the schema has it', exchange: answered(201, good), alone: 'committed' },
  { seen: '200 off the schema', exchange: answered(200, { receipt_id: 7 }), alone: 'claimed' },
  { seen: '204 without a body', exchange: answered(204, null), alone: 'claimed' },
  ...(['truncated', 'malformed', 'too_large', 'not_json', 'deadline'] as const).map((unreadable): Row =>
    ({ seen: `200 ${unreadable}`, exchange: answered(200, { unreadable }), alone: 'claimed' })),
  { seen: '202', exchange: answered(202, { accepted: true }), alone: 'accepted' },
  { seen: '202 truncated', exchange: answered(202, { unreadable: 'truncated' }), alone: 'accepted' },
  { seen: '202 where the contract is silent', exchange: answered(202, {}), alone: 'accepted', tool: 'void_credit' },
  { seen: '412 mapped', exchange: answered(412, { code: 'VERSION' }), alone: 'rejected' },
  { seen: '412 unmapped', exchange: answered(412, { code: 'VERSION' }), alone: 'rejected', tool: 'cancel_order' },
  { seen: '409 mapped', exchange: answered(409, { code: 'NOT_DELIVERED' }), alone: 'rejected' },
  { seen: '409 unmapped', exchange: answered(409, { code: 'OTHER' }), alone: 'rejected' },
  { seen: '422 mapped', exchange: answered(422, { code: 'LIMIT' }), alone: 'rejected' },
  { seen: '422 unmapped', exchange: answered(422, { code: 'CURRENCY' }), alone: 'rejected' },
  { seen: '422 whose rule cannot be evaluated', exchange: answered(422, { unreadable: 'truncated' }), alone: 'unknown' },
  { seen: '400', exchange: answered(400, {}), alone: 'rejected' },
  { seen: '404 that the contract calls not_found', exchange: answered(404, {}), alone: 'rejected', tool: 'void_credit', notFound: true },
  { seen: '404 unmapped', exchange: answered(404, {}), alone: 'rejected' },
  { seen: '503 mapped to no effect', exchange: answered(503, { code: 'NOT_STARTED' }), alone: 'not_committed' },
  { seen: '429', exchange: answered(429, {}, { 'retry-after': '7' }), alone: 'not_committed' },
  ...[301, 408, 425, 500, 502, 504].map((status): Row => ({ seen: String(status), exchange: answered(status, { code: 'X' }), alone: 'unknown' })),
  { seen: '503 unmapped', exchange: answered(503, { code: 'X' }), alone: 'unknown' },
];

const positive: ReadonlySet<string> = new Set(['committed', 'claimed', 'accepted']);

describe('what one exchange proves', () => {
  for (const row of rows) {
    it(`${row.seen}: alone ${row.alone}, after an unknown attempt only if it is positive`, () => {
      const plan = tool(row.tool ?? credit);
      const alone = classify(plan, row.exchange, { unknownBefore: 0, scope: { args: {} } });
      expect(alone.outcome).toBe(row.alone);
      for (const unknownBefore of [1, 2]) {
        const later = classify(plan, row.exchange, { unknownBefore, scope: { args: {} } });
        expect(later.outcome).toBe(positive.has(row.alone) ? row.alone : 'unknown');
      }
      // A read-back changes what is done about a verdict, never the verdict.
      expect(classify({ ...plan, readback: null, idempotency: null }, row.exchange, { unknownBefore: 0, scope: { args: {} } }).outcome).toBe(row.alone);
      if (alone.outcome === 'rejected') expect(alone.notFound).toBe(row.notFound ?? false);
      if (alone.outcome === 'not_committed') expect(alone.sent).toBe(row.exchange.sent);
    });
  }
});

/** A run over a ledger that always agrees; every further send is refused before a byte leaves, every read fails. */
function runOn(plan: ToolPlan, unknownBefore: number, reads: Exchange): Run {
  const parts = {
    ledger: { transition: () => Promise.resolve(true), callbacks: { about: () => Promise.resolve([]) } },
    upstream: { send: (request: { method: string }) => Promise.resolve(request.method === 'GET' ? reads : failed('refused', false)) },
    upstreamGate: { enter: () => Promise.resolve({ waited: false, leave: () => undefined }), pausedForMs: () => 0, pause: () => undefined },
    locks: { announce: () => undefined, heard: (_topic: string, ms: number) => new Promise<void>((resolve) => { setTimeout(resolve, ms); }) },
    metrics: { exchange: () => undefined },
    settings: { leaseMs: 15_000, sendWindowMs: 5_000, readAttempts: 1, reconcileDeadlineMs: 3_600_000, backoffFirstMs: 1_000, backoffMaxMs: 60_000 },
    retryAfterMs: (header: string | undefined) => Number(header) * 1000,
    draining: () => false,
  } as unknown as Parts;
  const now = performance.now();
  const operation = {
    tenant: 'acme', id: 'op_1', upstreamKey: 'op_1', principal: 'p', subject: 'C-17', sessionId: 's', state: 'sending', attempt: 1 + unknownBefore,
    attempts: [], unknownAttempts: unknownBefore, effectSeen: false,
  } as unknown as Operation;
  return {
    parts, tool: plan, operation, firstSentAt: now, reconcileBy: now + 60_000, absentFrom: null, takenOver: false, witnessed: false, known: null, legalActions: () => [],
    dossier: {
      request: { method: 'POST', url: 'http://127.0.0.1:1/x', headers: {}, body: null }, args: { order_id: 'O-417', amount: 2500, receipt_id: 'CR-1' }, bound: {},
      observed: {}, baseline: { entity: null, state: null, never: {} }, resource: null,
    },
  };
}

const empty = answered(200, { count: 0, amount: 0, voided: false, receipt: null });
const once = answered(200, { count: 1, amount: 2500, voided: true, receipt: { receipt_id: 'CR-1', amount: 2500, order_id: 'O-417' } });
const twice = answered(200, { count: 2, amount: 5000, voided: false, receipt: { receipt_id: 'CR-1', amount: 2500, order_id: 'O-417' } });

function told(finding: Finding): string {
  switch (finding.kind) {
    case 'committed': return `committed${finding.verified ? ', verified' : finding.owed ? ', owed' : ''}`;
    case 'ended': return finding.code;
    case 'review': return `review ${finding.reason}`;
    default: return finding.kind;
  }
}

/** What becomes of a verdict with nobody's patience left: by read-back, without one, and by an honoured key alone. */
const becomes: Record<string, { empty: string; once: string; twice: string; blind: string; none: string; keyed: string }> = {
  committed: { empty: 'committed, owed', once: 'committed, verified', twice: 'review MISMATCH', blind: 'committed, owed', none: 'committed', keyed: 'committed' },
  claimed: { empty: 'committed, owed', once: 'committed, verified', twice: 'review MISMATCH', blind: 'committed, owed', none: 'committed', keyed: 'committed' },
  accepted: { empty: 'later', once: 'committed, verified', twice: 'review MISMATCH', blind: 'later', none: 'later', keyed: 'later' },
  unknown: { empty: 'later', once: 'committed, verified', twice: 'review MISMATCH', blind: 'later', none: 'review OUTCOME_UNPROVABLE', keyed: 'later' },
};

describe('what follows from it', () => {
  for (const row of rows) {
    for (const unknownBefore of [0, 1]) {
      it(`${row.seen}, ${unknownBefore === 0 ? 'first attempt' : 'after an unknown one'}: with every read-back, with none, with an honoured key`, async () => {
        const plan = tool(row.tool ?? credit);
        const { outcome } = classify(plan, row.exchange, { unknownBefore, scope: { args: {} } });
        const spent: ToolPlan = { ...plan, readback: tool(credit).readback, retry: { attempts: 1, elapsedMs: 1 } };
        const bare: ToolPlan = { ...spent, readback: null };
        const now = async (run: Run): Promise<string> => told(await reconcile(run, row.exchange, performance.now()));
        const all = {
          empty: await now(runOn(spent, unknownBefore, empty)), once: await now(runOn(spent, unknownBefore, once)),
          twice: await now(runOn(spent, unknownBefore, twice)), blind: await now(runOn(spent, unknownBefore, failed('reset', true))),
          none: await now(runOn({ ...bare, idempotency: null }, unknownBefore, empty)), keyed: await now(runOn(bare, unknownBefore, empty)),
        };
        const expected = becomes[outcome];
        if (expected) expect(all).toEqual(expected);
        // Known to be without effect: no read is asked, whatever it would say.
        else for (const one of Object.values(all)) expect(one).toBe(endOf(row));
      });
    }
  }
});

function endOf({ alone, exchange, notFound }: Row): string {
  const status = exchange.kind === 'response' ? exchange.status : 0;
  if (alone === 'rejected') return notFound ? 'NOT_FOUND' : status === 412 ? 'UPSTREAM_VERSION_CONFLICT' : 'UPSTREAM_REJECTED';
  return status === 429 ? 'RATE_LIMITED' : exchange.sent ? 'NOT_COMMITTED' : 'UPSTREAM_UNREACHABLE';
}
