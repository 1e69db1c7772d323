/** Both listeners on real sockets with a scripted door behind them. */
import type { AddressInfo } from 'node:net';
import { afterEach } from 'vitest';
import { buildAgentServer } from '../../src/http/agent/server.js';
import type { CallerLimits } from '../../src/http/caller-limits.js';
import { readOpenapi } from '../../src/http/control/openapi.js';
import { buildControlServer } from '../../src/http/control/server.js';
import { drain } from '../../src/http/drain.js';
import { refuse } from '../../src/errors.js';
import type { AgentDoor, ApprovalDesk, Authenticator, Health, ReceiptChain, Records, RequestMetrics, ReviewDesk, SessionContextView, Sessions, SessionView } from '../../src/ports.js';
import { type App, defaultLimits, type HttpLimits } from '../../src/http/server.js';
import type { Answer, Principal, Role } from '../../src/model.js';

export const openapi = readOpenapi(new URL('../../openapi.yaml', import.meta.url));

export const executed: Answer = {
  disposition: 'executed', next_action: 'continue', call_id: 'c-1', operation_id: 'op_1', tool: 'issue_credit',
  contract: { version: '3.1.0', digest: 'sha256:00' }, outcome: 'committed', verified: true, evidence_of_change: true,
  result: { receipt_id: 'CR-1', amount: 2500 }, states: { 'order:O-417': 'DELIVERED' }, legal_actions: ['issue_credit'],
  receipts: { decision: 'rcp_1', effect: 'rcp_2' }, repaired: [], retry_after_ms: null, trace: [{ stage: 'parse', verdict: 'pass', ms: 0.1 }],
};

function principal(roles: readonly Role[], tenant = 'acme'): Principal {
  return { tenant, id: roles.join('+') || 'nobody', roles, subject: null, purposes: [], tools: '*', grants: { assertSubject: false, ownKeys: true } };
}

const keys: Record<string, Principal> = {
  cg_agent: principal(['agent']),
  cg_application: principal(['application']),
  cg_reviewer: principal(['reviewer']),
  cg_auditor: principal(['auditor']),
  cg_admin: principal(['admin']),
  cg_both: principal(['agent', 'admin']),
  cg_none: principal([]),
};

export const as = (name: string) => ({ authorization: `Bearer cg_${name}` });

const answersResults = async () => ({ results: [executed] });
const session = (id: string): SessionView => ({
  id, parent_session_id: null, root_session_id: id, created_by: 'application', created_at: '2026-01-01T00:00:00.000Z',
  budgets: { executions: { limit: 50, used: 1 }, turns: { limit: 32, used: 2 }, proposals: { limit: 3, used: 1, refused: [{ tool: 't', intent_id: null, used: 1 }] } },
});
const emptyContext: SessionContextView = {
  session_id: 's', text: 'Nothing.', entities: [{ entity: 'order:O-1', state: null, version: null, observed_at: '2026-01-01T00:00:00.000Z', legal_actions: [] }],
  budgets: { executions: { of: 'principal', per: 'day', limit: 50, used: 1 }, turns: { limit: 32, used: 2 }, proposals: { limit: 3, used: 0, refused: [] } },
};

const answersExecuted = async (): Promise<Answer> => executed;

export interface Script {
  door?: Partial<AgentDoor>;
  records?: Partial<Records>;
  receiptChain?: Partial<ReceiptChain>;
  approvals?: Partial<ApprovalDesk>;
  reviews?: Partial<ReviewDesk>;
  sessions?: Partial<Sessions>;
  health?: Health;
  authenticator?: Authenticator;
  limits?: Partial<HttpLimits>;
  callers?: CallerLimits;
}

/** Without Redis. */
export const oneReplica = { shared: null, aloneShare: 1, metrics: { refused: () => undefined, decidedAlone: () => undefined } };

export interface Listeners {
  agent: string;
  control: string;
  agentPort: number;
  logged: { fields: object; message: string }[];
  samples: Parameters<RequestMetrics['observeRequest']>[0][];
  agentApp: App;
  controlApp: App;
}

const open: App[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((app) => drain(app, 300)));
});

export function build(script: Script = {}): Omit<Listeners, 'agent' | 'control' | 'agentPort'> {
  const logged: Listeners['logged'] = [];
  const samples: Listeners['samples'] = [];
  const log = (fields: object, message: string): void => void logged.push({ fields, message });
  const shared = {
    limits: { ...defaultLimits, ...script.limits },
    log: { warn: log, error: log },
    metrics: { observeRequest: (sample: Listeners['samples'][number]) => void samples.push(sample) },
    authenticator: script.authenticator ?? { authenticate: async (credential: string) => keys[credential] ?? null },
  };
  const agentApp = buildAgentServer({
    ...shared,
    ...(script.callers ? { callers: { ...script.callers, ...oneReplica } } : {}),
    door: { propose: answersExecuted, batch: answersResults, turn: answersResults, operation: answersExecuted, result: async () => ({ page: { text: '{}', offset: 0, bytes: 2, next_offset: null } }), cancel: answersExecuted, tools: () => [], context: async () => emptyContext, ...script.door },
  });
  const controlApp = buildControlServer({
    ...shared,
    openapi,
    contracts: { status: () => ({ digest: 'sha256:0', loaded_at: '2026-01-01T00:00:00.000Z', tools: [], refused: null, shadow: null }) },
    sessions: { put: async ({ id }) => session(id), get: async (_tenant, id) => (id === 'known' ? session(id) : null), ...script.sessions },
    sessionBudgets: { executions: 50, proposals: 3, turns: 32 },
    records: {
      receipts: async () => ({ items: [], next_cursor: null }), receipt: async () => null,
      operations: async () => ({ items: [], next_cursor: null }), operation: async () => null, ...script.records,
    },
    receiptChain: { keys: () => ({ keys: [] }), lines: async function* () { yield ''; }, ...script.receiptChain },
    approvals: { list: async () => ({ items: [], next_cursor: null }), one: async () => null, decide: async () => refuse('APPROVAL_NOT_FOUND', 'x'), ...script.approvals },
    callbacks: { receive: async ({ id }) => ({ event_id: id, status: 'ignored' }) },
    reviews: { list: async () => ({ items: [], next_cursor: null }), one: async () => null, decide: async () => refuse('REVIEW_NOT_FOUND', 'x'), undo: async () => refuse('REVIEW_NOT_FOUND', 'x'), ...script.reviews },
    health: script.health ?? { readiness: async () => ({ ready: true, checks: { postgres: { state: 'up' }, redis: { state: 'off' } } }) },
    metricsPage: { contentType: 'text/plain; version=0.0.4', metrics: async () => 'callgate_up 1\n' },
  });
  open.push(agentApp, controlApp);
  return { logged, samples, agentApp, controlApp };
}

export async function listen(script: Script = {}): Promise<Listeners> {
  const built = build(script);
  const agentPort = await portOf(built.agentApp);
  return { ...built, agentPort, agent: `http://127.0.0.1:${agentPort}`, control: `http://127.0.0.1:${await portOf(built.controlApp)}` };
}

async function portOf(app: App): Promise<number> {
  await app.listen({ host: '127.0.0.1', port: 0 });
  return (app.server.address() as AddressInfo).port;
}

export const json = { 'content-type': 'application/json' };
