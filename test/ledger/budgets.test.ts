/**
 * A budget of n starts at most n, and exactly n when more are proposed, over all replicas (semantics.md section 9, invariant 6). Two ledgers
 * stand for two replicas over one Postgres; what they grant is held against a model that only counts.
 */
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { ChargedRefusal, Intent, SessionScope, TurnDraw } from '../../src/gate/ports.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import { createSealer } from '../../src/ledger/seal.js';
import type { SessionBudgets } from '../../src/ports.js';
import { projectFile } from '../../src/project.js';
import { intent, receipt, settlement } from '../recovery/intents.js';
import { unique } from '../support/gateway.js';
import { freshDatabase } from '../support/servers.js';

const sealer = createSealer('seal-for-tests-0123456789abcdefghijkl');
const defaults: SessionBudgets = { executions: 4, proposals: 2, turns: 3 };
let url = '';
let replicas: LedgerStore[] = [];
let client: pg.Client;

beforeAll(async () => {
  url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  replicas = [1, 2].map(() => openLedger({ url, preparedStatements: true, statementTimeoutMs: 10_000, connectTimeoutMs: 5_000, poolSize: 2, maxBatch: 128, maxQueue: 4_096 }, sealer));
  client = new pg.Client({ connectionString: url });
  await client.connect();
});
afterAll(async () => {
  await Promise.all(replicas.map((store) => store.close()));
  await client.end();
});

const replica = (n: number): LedgerStore => replicas[n % replicas.length] as LedgerStore;
const scopeOf = (id: string, task = `session:${id}`): SessionScope => ({ id, own: `own:${id}`, task });
const set = (id: string, budgets: Partial<SessionBudgets> = {}, parent: string | null = null, tenant = 'acme') =>
  replica(0).sessions.put({ tenant, id, parent, budgets, defaults, by: 'application' });

function execution(root: string, quota = defaults.executions): Intent {
  return { ...intent(unique('x'), [`k:${unique('k')}`]), budget: { scope: `session:${root}`, quota, opened: true } };
}

function refusal(session: SessionScope, tool: string, tenant = 'acme'): ChargedRefusal {
  return { receipt: receipt(null, 'decision', { tenant, disposition: 'invalid_arguments' }), charge: { session, tool, limit: defaults.proposals } };
}

function draw(session: SessionScope, turnId: string, tenant = 'acme'): TurnDraw {
  return { tenant, session, turnId, limit: defaults.turns };
}

/** What a budget is, without a database: a number that may be moved, and how much of it is gone. */
class Counter {
  used = 0;
  constructor(public limit: number) {}
  take(n: number): number {
    const granted = Math.max(0, Math.min(n, this.limit - this.used));
    this.used += granted;
    return granted;
  }
}

interface Model { id: string; executions: Counter; turns: Counter; known: Set<string>; limit: { proposals: number }; refusals: Map<string, number>; open: Intent[] }

type Step =
  | { do: 'set'; kind: keyof SessionBudgets; limit: number }
  | { do: 'execute'; n: number }
  | { do: 'fail'; n: number }
  | { do: 'commit'; n: number }
  | { do: 'turns'; ids: number[] }
  | { do: 'refuse'; tool: number; n: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('set' as const), kind: fc.constantFrom('executions' as const, 'proposals' as const, 'turns' as const), limit: fc.nat(8) }),
  fc.record({ do: fc.constant('execute' as const), n: fc.integer({ min: 1, max: 6 }) }),
  fc.record({ do: fc.constant('fail' as const), n: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant('commit' as const), n: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant('turns' as const), ids: fc.array(fc.nat(7), { minLength: 1, maxLength: 6 }) }),
  fc.record({ do: fc.constant('refuse' as const), tool: fc.nat(1), n: fc.integer({ min: 1, max: 5 }) }),
);

/** Everything of a step happens at once, over both replicas; how much of it is granted is what the model says. */
async function run(model: Model, one: Step): Promise<void> {
  const scope = scopeOf(model.id);
  switch (one.do) {
    case 'set':
      await set(model.id, { [one.kind]: one.limit });
      if (one.kind === 'proposals') model.limit.proposals = one.limit;
      else model[one.kind].limit = one.limit;
      return;
    case 'execute': {
      const intents = Array.from({ length: one.n }, () => execution(model.id));
      const reservations = await Promise.all(intents.map((each, n) => replica(n).reserve(each)));
      const started = intents.filter((_, n) => reservations[n]?.reserved);
      expect(started.length).toBe(model.executions.take(one.n));
      for (const reservation of reservations) {
        if (!reservation.reserved) expect(reservation).toMatchObject({ because: 'budget', quota: model.executions.limit });
      }
      model.open.push(...started);
      return;
    }
    case 'fail':
    case 'commit': {
      const ended = model.open.splice(0, one.n);
      const change = one.do === 'fail' ? { to: 'failed' as const, outcome: 'not_committed' as const, verified: false, effectSeen: false, refund: true } : {};
      const moved = await Promise.all(ended.map(({ operation }, n) => replica(n).transition(settlement(operation.id.slice(3), change))));
      expect(moved).toEqual(ended.map(() => true));
      if (one.do === 'fail') model.executions.used -= ended.length;
      return;
    }
    case 'turns': {
      const fresh = [...new Set(one.ids.map(String))].filter((id) => !model.known.has(id));
      const answers = await Promise.all(one.ids.map((id, n) => replica(n).drawTurn(draw(scope, String(id)))));
      const granted = new Set(one.ids.map(String).filter((_, n) => answers[n] === null));
      expect([...granted].filter((id) => fresh.includes(id)).length).toBe(model.turns.take(fresh.length));
      for (const id of one.ids.map(String)) if (model.known.has(id)) expect(granted.has(id)).toBe(true);
      for (const id of granted) model.known.add(id);
      return;
    }
    case 'refuse': {
      const key = `tool-${one.tool}`;
      const counter = Object.assign(new Counter(model.limit.proposals), { used: model.refusals.get(key) ?? 0 });
      const answers = await Promise.all(Array.from({ length: one.n }, (_, n) => replica(n).refuse(refusal(scope, key))));
      expect(answers.filter((answer) => answer === null).length).toBe(counter.take(one.n));
      for (const answer of answers) if (answer) expect(answer).toEqual({ limit: counter.limit, used: counter.used });
      model.refusals.set(key, counter.used);
    }
  }
}

/** An operator promised to lose at most n: whatever is raised, lowered, paid back and asked for at once, never one more and never one less is granted. */
describe('budgets, held against a model that counts', () => {
  it('over two replicas and every order of setting, drawing and paying back', { timeout: 120_000 }, async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const id = unique('s');
      await set(id);
      const model: Model = {
        id, executions: new Counter(defaults.executions), turns: new Counter(defaults.turns), known: new Set(), limit: { proposals: defaults.proposals },
        refusals: new Map(), open: [],
      };
      for (const one of steps) await run(model, one);
      const shown = await replica(1).sessions.get('acme', id);
      expect(shown?.budgets).toMatchObject({
        executions: { limit: model.executions.limit, used: model.executions.used }, turns: { limit: model.turns.limit, used: model.turns.used },
        proposals: { limit: model.limit.proposals, used: Math.max(0, ...model.refusals.values()) },
      });
    }), { numRuns: 40 });
  });

  it('a refusal that came back after a lost acknowledgement is charged once', async () => {
    const id = unique('s');
    const one = refusal(scopeOf(id), 't');
    expect([await replica(0).refuse(one), await replica(1).refuse(one), await replica(0).refuse(one)]).toEqual([null, null, null]);
    expect((await client.query('select refused from session_refusals where scope = $1', [`own:${id}`])).rows).toEqual([{ refused: 1 }]);
  });

  it('a refusal beyond the budget leaves no receipt of its verdict', async () => {
    const scope = scopeOf(unique('s'));
    const all = Array.from({ length: 5 }, () => refusal(scope, 't'));
    const answers = await Promise.all(all.map((each, n) => replica(n).refuse(each)));
    const { rows } = await client.query<{ id: string }>('select id from receipts where id = any ($1)', [all.map((each) => each.receipt.id)]);
    expect(rows.length).toBe(defaults.proposals);
    expect(rows.map(({ id }) => id).sort()).toEqual(all.filter((_, n) => answers[n] === null).map((each) => each.receipt.id).sort());
  });
});

describe('whose budget it is', () => {
  it('children draw on the topmost session, at whatever depth; their turns of equal names are turns of their own', async () => {
    const [root, child, grandchild] = [unique('root'), unique('child'), unique('grandchild')];
    await set(root, { turns: 3, proposals: 2 });
    expect(await set(child, {}, root)).toMatchObject({ parent_session_id: root, root_session_id: root });
    expect(await set(grandchild, {}, child)).toMatchObject({ parent_session_id: child, root_session_id: root });
    const drawn = await Promise.all([root, child, grandchild].map((id, n) => replica(n).drawTurn(draw(scopeOf(id), 't-1'))));
    expect(drawn).toEqual([null, null, null]);
    expect(await replica(0).drawTurn(draw(scopeOf(grandchild), 't-2'))).toEqual({ limit: 3, used: 3 });
    expect(await replica(0).drawTurn(draw(scopeOf(child), 't-1'))).toBeNull();

    const refusals = await Promise.all([root, child, grandchild].map((id, n) => replica(n).refuse(refusal(scopeOf(id, 'intent:i'), 't'))));
    expect(refusals.filter((one) => one === null)).toHaveLength(2);
    expect((await replica(0).sessions.get('acme', child))?.budgets).toEqual((await replica(0).sessions.get('acme', root))?.budgets);
  });

  it('a parent must exist, is settled with the session, and cannot be one of its own', async () => {
    const [a, b, c] = [unique('a'), unique('b'), unique('c')];
    expect(await set(b, {}, a)).toEqual({ problem: 'UNKNOWN_PARENT' });
    expect(await set(a, {}, a)).toEqual({ problem: 'CYCLE' });
    await set(a);
    await set(b, {}, a);
    expect(await set(b, {}, a)).toMatchObject({ root_session_id: a });
    expect(await set(b)).toMatchObject({ parent_session_id: a });
    expect(await set(a, {}, b)).toEqual({ problem: 'CYCLE' });
    await set(c);
    expect(await set(b, {}, c)).toEqual({ problem: 'PARENT_IS_FIXED' });
    expect(await set(c, {}, a)).toEqual({ problem: 'PARENT_IS_FIXED' });
    expect(await set(b, { turns: 9 })).toEqual({ problem: 'BUDGETS_OF_THE_ROOT' });
    expect((await replica(0).sessions.get('acme', a))?.budgets.turns.limit).toBe(defaults.turns);
  });

  it('two tenants with equal session ids never touch', async () => {
    const id = unique('s');
    await set(id, { turns: 1, proposals: 1 });
    await set(id, { turns: 5, proposals: 5 }, null, 'globex');
    const scope = scopeOf(id);
    expect(await replica(0).drawTurn(draw(scope, '1'))).toBeNull();
    expect(await replica(0).drawTurn(draw(scope, '2'))).not.toBeNull();
    expect(await replica(1).drawTurn(draw(scope, '2', 'globex'))).toBeNull();
    expect(await replica(0).refuse(refusal(scope, 't'))).toBeNull();
    expect(await replica(0).refuse(refusal(scope, 't'))).not.toBeNull();
    expect(await replica(0).refuse(refusal(scope, 't', 'globex'))).toBeNull();
    expect((await replica(0).sessions.get('globex', id))?.budgets).toMatchObject({ turns: { limit: 5, used: 1 }, proposals: { limit: 5, used: 1 } });
    expect(await replica(0).sessions.get('initech', id)).toBeNull();
  });

  it('sessions that nobody created are their callers’ own, however they are named', async () => {
    const id = unique('s');
    const [mine, theirs] = [{ ...scopeOf(id), own: `own:${unique('me')}` }, { ...scopeOf(id), own: `own:${unique('them')}` }];
    for (const turn of ['1', '2', '3']) expect(await replica(0).drawTurn(draw(mine, turn))).toBeNull();
    expect(await replica(0).drawTurn(draw(mine, '4'))).toEqual({ limit: 3, used: 3 });
    expect(await replica(0).drawTurn(draw(theirs, '4'))).toBeNull();
  });
});

describe('what changes while a call is on its way', () => {
  it('a session that the application has created since the call was looked up pays for it, and not the caller’s day', async () => {
    const id = unique('s');
    const meant = intent(unique('x'), [`k:${unique('k')}`]);
    meant.operation.sessionId = id;
    await set(id);
    expect(await replica(1).reserve(meant)).toEqual({ reserved: false, because: 'exists' });
    expect(await replica(1).reserve({ ...meant, budget: { scope: `session:${id}`, quota: 4, opened: true } })).toEqual({ reserved: true });
    expect((await replica(0).sessions.get('acme', id))?.budgets.executions.used).toBe(1);
  });

  it('equal reads of days ago are forgotten as fast as they came', async () => {
    await client.query(`insert into session_reads (tenant, read_key, times, read_at) select 'acme', decode(md5(n::text), 'hex'), 1, now() - interval '2 days' from generate_series(1, 2500) n`);
    await replica(0).tidy(60_000);
    expect((await client.query('select 1 from session_reads')).rows).toEqual([]);
  });

  it('turns are remembered for a month and then forgotten as fast as they came, and what was drawn stays drawn', async () => {
    const id = unique('s');
    await set(id, { turns: 2 });
    expect(await replica(0).drawTurn(draw(scopeOf(id), 'new'))).toBeNull();
    await client.query(`insert into session_turns (tenant, scope, session_id, turn_id, created_at) select 'acme', 'session:old', 's', n::text, now() - interval '31 days' from generate_series(1, 2500) n`);
    await client.query(`insert into session_turns (tenant, scope, session_id, turn_id, created_at) values ('acme', 'session:old', 's', 'younger', now() - interval '29 days')`);
    await replica(0).tidy(60_000);
    expect((await client.query(`select turn_id from session_turns where scope in ('session:old', $1) order by turn_id`, [`session:${id}`])).rows.map(({ turn_id }) => turn_id)).toEqual(['new', 'younger']);
    expect((await replica(0).sessions.get('acme', id))?.budgets.turns.used).toBe(1);
  });
});

/** Flushes that wait for each other in a circle are broken by the database after a second, again and again: a budget would make the gateway slow. */
describe('purses of several sessions, settled and drawn on at once by two replicas', () => {
  it('never deadlock, and what is used is what was started and not paid back', { timeout: 60_000 }, async () => {
    const sessions = Array.from({ length: 4 }, () => unique('s'));
    for (const id of sessions) await set(id, { executions: 100_000, proposals: 100_000, turns: 100_000 });
    const before = await deadlocks();
    const kept = new Map(sessions.map((id) => [id, 0]));
    await Promise.all(Array.from({ length: 240 }, async (_, n) => {
      const id = sessions[(n * 7) % sessions.length] as string;
      const other = sessions[(n * 5 + 1) % sessions.length] as string;
      const meant = execution(id, 100_000);
      await Promise.all([
        replica(n).drawTurn(draw(scopeOf(other), `t-${n % 9}`)), replica(n).refuse(refusal(scopeOf(other), `tool-${n % 3}`)),
        replica(n).reserve(meant).then(async ({ reserved }) => {
          expect(reserved).toBe(true);
          const failed = n % 3 === 0;
          if (!failed) kept.set(id, (kept.get(id) ?? 0) + 1);
          await replica(n + 1).transition(settlement(meant.operation.id.slice(3), failed ? { to: 'failed', outcome: 'not_committed', effectSeen: false, refund: true } : {}));
        }),
      ]);
    }));
    expect(await deadlocks()).toBe(before);
    for (const id of sessions) expect((await replica(0).sessions.get('acme', id))?.budgets.executions.used).toBe(kept.get(id));
  });

  it('nor where one settles what the other wants beside keys that nobody has held yet', { timeout: 60_000 }, async () => {
    const before = await deadlocks();
    const on = (keys: readonly string[], principal: string): Intent[] => keys.map((key) => intent(unique('x'), [key], { principal }));
    for (let round = 0; round < 12; round++) {
      const held = Array.from({ length: 20 }, () => unique('z'));
      const fresh = Array.from({ length: 20 }, () => unique('a'));
      const open = on(held, 'first');
      await Promise.all(open.map((each) => replica(0).reserve(each)));
      await Promise.all([
        ...open.map(({ operation }) => replica(0).transition(settlement(operation.id.slice(3)))), ...on(fresh, 'first').map((each) => replica(0).reserve(each)),
        ...on([...fresh, ...held], 'second').map((each) => replica(1).reserve(each)),
      ]);
      const { rows } = await client.query<{ n: number }>('select count(*)::integer as n from guards where guard_key = any ($1) and operation_id is not null', [fresh]);
      expect(rows[0]?.n).toBe(fresh.length);
    }
    expect(await deadlocks()).toBe(before);
  });

  async function deadlocks(): Promise<number> {
    await client.query('select pg_stat_clear_snapshot()');
    const { rows } = await client.query<{ deadlocks: string }>('select deadlocks from pg_stat_database where datname = current_database()');
    return Number(rows[0]?.deadlocks);
  }
});
