/**
 * Sessions as the application sets them and as everybody is shown them. A session that has a parent draws on the topmost one, which is found
 * when it is created and never changes: so no cycle can come to be, and nothing that was charged moves to another purse.
 */
import type pg from 'pg';
import type { Ledger, SessionContext, SessionScope } from '../gate/ports.js';
import type { SessionBudgets, SessionProblem, SessionRequest, Sessions, SessionView } from '../ports.js';
import { throughContention } from './connection.js';

export interface SessionStore extends Sessions {
  context: Ledger['context'];
}

export function openSessions(pool: pg.Pool): SessionStore {
  return {
    put: (request) => inTransaction(pool, (client) => put(client, request)),
    get: (tenant, id) => query(pool, (client) => view(client, tenant, id)),
    context: (asked) => query(pool, (client) => context(client, asked)),
  };
}

interface SessionRow { parent_session_id: string | null; root_session_id: string; created_by: string; created_at: Date }

async function find(client: pg.ClientBase | pg.Pool, tenant: string, id: string): Promise<SessionRow | undefined> {
  const { rows } = await client.query<SessionRow>(
    'select parent_session_id, root_session_id, created_by, created_at from sessions where tenant = $1 and session_id = $2', [tenant, id]);
  return rows[0];
}

async function put(client: pg.PoolClient, request: SessionRequest): Promise<SessionView | SessionProblem> {
  const { tenant, id, parent, budgets } = request;
  if (parent === id) return { problem: 'CYCLE' };
  const above = parent === null ? undefined : await find(client, tenant, parent);
  if (parent !== null && !above) return { problem: 'UNKNOWN_PARENT' };
  await client.query(
    `insert into sessions (tenant, session_id, parent_session_id, root_session_id, created_by) values ($1, $2, $3, $4, $5) on conflict do nothing`,
    [tenant, id, parent, above?.root_session_id ?? id, request.by]);
  const row = await find(client, tenant, id) as SessionRow;
  if (parent !== null && row.parent_session_id !== parent) return { problem: above?.root_session_id === id ? 'CYCLE' : 'PARENT_IS_FIXED' };
  if (row.parent_session_id !== null && Object.keys(budgets).length > 0) return { problem: 'BUDGETS_OF_THE_ROOT' };
  if (row.parent_session_id === null) await setBudgets(client, request);
  return view(client, tenant, id) as Promise<SessionView>;
}

/** What is not named stays as it is, or begins with the configured limit. */
async function setBudgets(client: pg.PoolClient, { tenant, id, budgets, defaults }: SessionRequest): Promise<void> {
  const rows = (['executions', 'proposals', 'turns'] as const).map((kind) => ({ kind, quota: budgets[kind] ?? defaults[kind], given: budgets[kind] !== undefined }));
  await client.query(
    `insert into budgets as b (tenant, scope, kind, quota)
     select $1, 'session:' || $2::text, r.kind, r.quota
     from json_to_recordset($3::json) as r (kind text, quota integer, given boolean)
     order by r.kind
     on conflict (tenant, scope, kind) do update set quota = excluded.quota
     where b.kind = any ($4::text[])`,
    [tenant, id, JSON.stringify(rows), rows.filter(({ given }) => given).map(({ kind }) => kind)]);
}

async function view(client: pg.ClientBase | pg.Pool, tenant: string, id: string): Promise<SessionView | null> {
  const row = await find(client, tenant, id);
  if (!row) return null;
  const scope = `session:${row.root_session_id}`;
  const purses = await client.query<{ kind: keyof SessionBudgets; quota: number; used: number }>(
    'select kind, quota, used from budgets where tenant = $1 and scope = $2', [tenant, scope]);
  const refusals = await refusalsOf(client, tenant, scope);
  const purse = (kind: keyof SessionBudgets): { limit: number; used: number } => {
    const found = purses.rows.find((one) => one.kind === kind);
    return { limit: found?.quota ?? 0, used: found?.used ?? 0 };
  };
  return {
    id, parent_session_id: row.parent_session_id, root_session_id: row.root_session_id, created_by: row.created_by, created_at: row.created_at.toISOString(),
    budgets: {
      executions: purse('executions'), turns: purse('turns'),
      proposals: { limit: purse('proposals').limit, used: Math.max(0, ...refusals.map(({ used }) => used)), refused: refusals.map(refusalView) },
    },
  };
}

export function refusalView({ tool, task, used }: { tool: string; task: string; used: number }): { tool: string; intent_id: string | null; used: number } {
  return { tool, intent_id: task.startsWith('intent:') ? task.slice('intent:'.length) : null, used };
}

const refusalsShown = 100;

interface Refusals { tool: string; task: string; used: number }

async function refusalsOf(client: pg.ClientBase | pg.Pool, tenant: string, scope: string): Promise<Refusals[]> {
  const { rows } = await client.query<Refusals>(
    `select tool, task, refused as used from session_refusals where tenant = $1 and scope = $2 order by refused desc, tool, task limit ${refusalsShown}`, [tenant, scope]);
  return rows;
}

/** Of a caller among several who share the session: its own, and what counts for each of them because it named no intent. */
async function refusalsFor(client: pg.PoolClient, tenant: string, scope: string, { id, own }: SessionScope): Promise<Refusals[]> {
  const { rows } = await client.query<Refusals>(
    `select tool, task, refused as used from session_refusals where tenant = $1 and scope = $2 and (own = $3 or task = 'session:' || $4::text)
     order by refused desc, tool, task limit ${refusalsShown}`, [tenant, scope, own, id]);
  return rows;
}

const entitiesShown = 200;

async function context(client: pg.PoolClient, asked: Parameters<SessionStore['context']>[0]): Promise<SessionContext> {
  const { tenant, session } = asked;
  const row = await find(client, tenant, session.id);
  const root = row?.root_session_id ?? null;
  const scope = root === null ? session.own : `session:${root}`;
  const entities = await client.query<{ entity: string; version: string | null; state: string | null; observed_at: Date }>(
    `select entity, version, state, observed_at from session_entities
     where tenant = $1 and principal = $2 and subject = $3 and session_id = $4 order by observed_at desc, entity limit ${entitiesShown}`,
    [tenant, asked.principal, asked.subject, session.id]);
  const purses = await client.query<{ kind: string; quota: number; used: number }>(
    `select kind, quota, used from budgets where tenant = $1 and (scope = $2 or scope = $3 and kind = 'executions')`,
    [tenant, scope, root === null ? asked.purse : scope]);
  const marked = await client.query(`select 1 from untrusted_sessions where tenant = $1 and principal = $2 and subject in ($3, '') and session_id = $4`,
    [tenant, asked.principal, asked.subject, session.id]);
  const purse = (kind: string): { limit: number; used: number } | null => {
    const found = purses.rows.find((one) => one.kind === kind);
    return found ? { limit: found.quota, used: found.used } : null;
  };
  return {
    entities: entities.rows.map(({ entity, version, state, observed_at }) => ({ entity, version, state, observedAt: observed_at.toISOString() })),
    standing: { root, executions: purse('executions'), proposals: { limit: purse('proposals')?.limit ?? null, used: 0 } },
    turns: purse('turns'),
    refusals: await refusalsFor(client, tenant, scope, session),
    untrusted: marked.rows.length > 0,
  };
}

function query<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  return throughContention(() => once(pool, work));
}

async function once<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  let client: pg.PoolClient | undefined;
  try {
    client = await pool.connect();
    const result = await work(client);
    client.release();
    return result;
  } catch (error) {
    client?.release(true); // whatever state it is in, nobody else gets it
    throw error;
  }
}

function inTransaction<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  return query(pool, async (client) => {
    await client.query('begin');
    const result = await work(client);
    await client.query('commit');
    return result;
  });
}
