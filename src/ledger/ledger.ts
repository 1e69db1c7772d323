/** The gate's ledger over Postgres: two lanes (commits, look-ups) and a small pool for everything that is not on a call's path. */
import type pg from 'pg';
import type { ChainStore } from '../chain/sealer.js';
import type { CallAlias, CancelRequest, Found, Ledger, Operation, Purse, Reservation } from '../gate/ports.js';
import type { OperationState } from '../model.js';
import type { Sessions } from '../ports.js';
import type { Erasures } from '../recovery/retention.js';
import { approveStatement, dispatchWith } from './approvals.js';
import { forgetCallbacks, openCallbacks } from './callbacks.js';
import { openChain } from './chain.js';
import { openCancelRequests } from './cancel-requests.js';
import { ailmentOf, type ConnectionOptions, createPool, errorKind, isReadOnly, LaneConnection, type Statement, throughContention } from './connection.js';
import { Dictionaries } from './dictionaries.js';
import { handOverStatement, orphanGuardsStatement, renewStatement, takeStatement, toTaken, witnessStatement } from './due.js';
import { openErasures, type SubjectErasures } from './erasures.js';
import { type FindQuery, type FoundRow, findStatement, toFoundRows } from './find.js';
import { type Commit, type Committed, flush, tenantOf } from './flush.js';
import { doneItemsStatement } from './items.js';
import { type ErrorKind, Lane } from './lane.js';
import { rowsAtPrimary } from './left-behind.js';
import { hex, operationColumns, type OperationRow, toOperation } from './operation-row.js';
import { forgetReads, forgottenAtOnce } from './repetition.js';
import { intentKeys } from './reserve.js';
import { adoptStatement, countReviewsStatement, type EscalatedReview, type EscalatedRow, escalateStatement, toEscalated } from './review-deadlines.js';
import type { Sealer } from './seal.js';
import { knowStatement } from './served-contracts.js';
import { lastStatement } from './session-results.js';
import { openSessions } from './sessions.js';
import { forgetTurns, rememberTurns, turnKey, turnsForgottenAtOnce } from './turns.js';

export interface LedgerOptions extends ConnectionOptions {
  poolSize: number;
  maxBatch: number;
  maxQueue: number;
  observed?(lane: 'commit' | 'find', rows: number, seconds: number): void;
  retried?(because: ErrorKind): void;
  /** How a person's id stands in what is left of an erased operation; absent: nothing is looked for under it. */
  subjectMark?(tenant: string, subject: string): string;
}

export interface LedgerStore extends Ledger {
  readonly pool: pg.Pool;
  readonly sessions: Sessions;
  readonly chain: ChainStore;
  readonly erasures: Erasures & SubjectErasures;
  take(owner: string, leaseMs: number, limit: number): Promise<Operation[]>;
  renew(owner: string, leaseMs: number, held: { tenant: string; id: string; fence: number }[]): Promise<void>;
  handOver(owner: string): Promise<void>;
  /** Removes what crashes left behind and nobody asks for any more. */
  tidy(guardsOlderThanMs: number): Promise<void>;
  /** Reviews whose deadline has passed and that nobody has been told of yet. */
  escalateReviews(): Promise<EscalatedReview[]>;
  /** Opens a review for whatever is in that state without one. */
  adoptReviews(deadlineMs: number): Promise<void>;
  /** For a gauge. */
  countReviews(): Promise<{ open: number; overdue: number }>;
  /** @param contracts digests of its tools */
  saveCatalogue(digest: string, source: string, contracts: readonly string[]): Promise<void>;
  catalogueSource(digest: string): Promise<string | null>;
  /** Of writes that hold a guard or wait to be sent, by state; for a gauge. */
  countOpen(): Promise<Record<string, number>>;
  depth(): number;
  close(): Promise<void>;
}

/**
 * A table that was never analysed is taken for a few rows, among which any index that begins with the tenant is as good as another. Statistics
 * of the first rows end that; once there are enough of them it is autovacuum's. A role that may not analyse is told so, and nothing else.
 */
const youngStatistics = `do $do$ begin
  if (select c.reltuples < 10000 from pg_class c where c.oid = 'operations'::regclass) then
    analyze operations, calls, guards, receipts, budgets, session_entities;
  end if;
end $do$`;

export function openLedger(options: LedgerOptions, sealer: Sealer): LedgerStore {
  const pool = createPool(options, options.poolSize);
  const commitConnection = new LaneConnection(options, () => void pool.query(youngStatistics).catch(() => undefined));
  const findConnection = new LaneConnection(options);
  const funded = new Set<string>();
  const dictionaries = new Dictionaries();
  const sessions = openSessions(pool);
  const retried = options.retried ? { retried: options.retried } : {};

  const commits = new Lane<Commit, Committed>({
    async flush(items) {
      try {
        return await flush(commitConnection, items, sealer, dictionaries, funded);
      } catch (error) {
        dictionaries.forget();
        // After a failover the old primary may go on answering reads; what is looked up there is stale.
        if (isReadOnly(error)) findConnection.abandon();
        throw error;
      }
    },
    tenant: tenantOf,
    keys: (item) => ('intent' in item ? intentKeys(item.intent) : 'draw' in item ? [turnKey(item.draw)] : []),
    kind: errorKind,
    ailment: ailmentOf,
    ...retried,
    maxBatch: options.maxBatch,
    maxQueue: options.maxQueue,
    observed: (rows, seconds) => options.observed?.('commit', rows, seconds),
  });
  const finds = new Lane<FindQuery, FoundRow>({
    async flush(items) {
      const statement = findStatement(items);
      const results = await findConnection.run([statement], items.length);
      try {
        return toFoundRows(items, results.get(statement.name) as OperationRow[], sealer);
      } catch (error) {
        if (isReadOnly(error)) findConnection.abandon();
        throw error;
      }
    },
    tenant: ({ tenant }) => tenant,
    kind: errorKind,
    ailment: ailmentOf,
    ...retried,
    maxBatch: options.maxBatch,
    maxQueue: options.maxQueue,
    observed: (rows, seconds) => options.observed?.('find', rows, seconds),
  });

  /** Off the path of a call; failures mean the database. */
  async function plain<Row extends pg.QueryResultRow>(statement: Statement): Promise<Row[]> {
    return throughContention(async () => (await pool.query<Row>(statement.text, statement.values)).rows, options.retried);
  }

  /** All that there are: more may come in a round than a slice holds. */
  async function whileFull(slice: Statement, full: number): Promise<void> {
    while (((await plain<{ gone: number }>(slice))[0]?.gone ?? 0) === full);
  }

  /** Of what is told or decided on. */
  function present<Row extends pg.QueryResultRow>(statement: Statement): Promise<Row[]> {
    return throughContention(() => rowsAtPrimary<Row>(pool, statement), options.retried);
  }

  /** All of it or nothing; what fails is rolled back, whoever made it fail. */
  function whole<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return throughContention(() => transaction(work, (result) => result === 'sending'), options.retried);
  }

  const durable = <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> => throughContention(() => transaction(work, () => true), options.retried);

  async function transaction<T>(work: (client: pg.PoolClient) => Promise<T>, keep: (result: T) => boolean): Promise<T> {
    let client: pg.PoolClient | undefined;
    try {
      client = await pool.connect();
      await client.query('begin');
      const result = await work(client);
      await client.query(keep(result) ? 'commit' : 'rollback');
      client.release();
      return result;
    } catch (error) {
      client?.release(true);
      throw error;
    }
  }

  async function get(tenant: string, operationId: string): Promise<Operation | null> {
    const [row] = await present<OperationRow>({
      name: 'get', text: `select ${operationColumns} from operations o where o.tenant = $1 and o.operation_id = $2`, values: [tenant, operationId],
    });
    return row ? toOperation(row, sealer) : null;
  }

  /** In the statement, and not after it: a row that is found is opened, which takes a time. */
  async function own({ tenant, id, principal, subject }: CancelRequest): Promise<Operation | null> {
    const [row] = await present<OperationRow>({
      name: 'own',
      text: `select ${operationColumns} from operations o
        where o.tenant = $1 and o.operation_id = $2 and ($4::text is null or o.subject in ($4, $5)) and (o.principal = $3
          or exists (select from operations c where c.tenant = o.tenant and c.operation_id = o.compensates and c.principal = $3))`,
      values: [tenant, id, principal, subject, subject === null ? null : (options.subjectMark?.(tenant, subject) ?? subject)],
    });
    return row ? toOperation(row, sealer) : null;
  }

  return {
    pool,
    callbacks: openCallbacks(plain, sealer),
    chain: openChain(plain, pool),
    cancelRequests: openCancelRequests(plain),
    erasures: openErasures(durable),
    get,
    own,
    async find(query): Promise<Found> {
      const { callFingerprint, callOperation, current, ...rest } = await finds.add(query);
      if (callOperation === null || callFingerprint === null) return { call: null, current, ...rest };
      const operation = callOperation === current?.id ? current : await get(query.tenant, callOperation);
      return { call: { fingerprint: callFingerprint, operationId: callOperation, operation }, current, ...rest };
    },
    reserve: (intent) => commits.add({ intent }) as Promise<Reservation>,
    transition: (transition) => commits.add({ transition }, true) as Promise<boolean>,
    record: (entry) => commits.add({ entry }) as Promise<boolean>,
    refuse: (refusal) => commits.add({ refusal }) as Promise<Purse | null>,
    drawTurn: rememberTurns((draw) => commits.add({ draw }) as Promise<Purse | null>),
    async alias(alias: CallAlias) {
      await plain({
        name: 'alias',
        text: `insert into calls as a (tenant, call_key, fingerprint, operation_id, again) values ($1, $2::bytea, $3::bytea, $4, true)
          on conflict (tenant, call_key) do update set fingerprint = excluded.fingerprint, operation_id = excluded.operation_id, again = true
          where a.operation_id = $5`,
        values: [alias.tenant, hex(alias.callKey), hex(alias.fingerprint), alias.operationId, alias.previous],
      });
    },
    async offeredUndo(tenant, undoKey) {
      const [row] = await present<{ operation_id: string }>({
        name: 'offered_undo', values: [tenant, hex(undoKey)],
        text: 'select operation_id from operations where tenant = $1 and undo_key = $2::bytea order by settled_at desc limit 1',
      });
      return row?.operation_id ?? null;
    },
    doneItems: async (tenant, items, windowMs) => (await present<{ item: string }>(doneItemsStatement(tenant, items, windowMs))).map(({ item }) => item),
    async lastResult(query) {
      const [row] = await present<OperationRow>(lastStatement(query));
      return row ? toOperation(row, sealer) : null;
    },
    async approve(approve) {
      const [row] = await plain<{ enough: boolean }>(approveStatement(approve));
      return row ?? null;
    },
    dispatch: (dispatch) => whole((client) => dispatchWith(client, dispatch)),
    async witness(attempt, receipt, review, effect) {
      const [row] = await plain<{ state: OperationState }>(witnessStatement(attempt, receipt, review, effect));
      return row?.state ?? null;
    },
    take: async (owner, leaseMs, limit) => toTaken(await plain<OperationRow>(takeStatement(owner, leaseMs, limit)), sealer),
    renew: async (owner, leaseMs, held) => void (await plain(renewStatement(owner, leaseMs, held))),
    handOver: async (owner) => void (await plain(handOverStatement(owner))),
    sessions,
    context: (query) => sessions.context(query),
    async tidy(guardsOlderThanMs) {
      await plain(orphanGuardsStatement(guardsOlderThanMs));
      await whileFull(forgetReads, forgottenAtOnce);
      await whileFull(forgetTurns, turnsForgottenAtOnce);
      await plain(forgetCallbacks);
    },
    escalateReviews: async () => toEscalated(await plain<EscalatedRow>(escalateStatement())),
    adoptReviews: async (deadlineMs) => void (await plain(adoptStatement(deadlineMs))),
    async countReviews() {
      const [row] = await plain<{ open: number; overdue: number }>(countReviewsStatement());
      return row ?? { open: 0, overdue: 0 };
    },
    async saveCatalogue(digest, source, contracts) {
      await plain({ name: 'save', text: 'insert into catalogues (digest, source) values ($1, $2) on conflict do nothing', values: [digest, source] });
      await plain(knowStatement(digest, contracts));
    },
    async catalogueSource(digest) {
      const [row] = await plain<{ source: string }>({ name: 'source', text: 'select source from catalogues where digest = $1', values: [digest] });
      return row?.source ?? null;
    },
    async countOpen() {
      const rows = await plain<{ state: string; n: number }>({
        name: 'count_open', values: [],
        text: `select o.state, count(*)::integer as n
          from (
            select g.tenant, g.operation_id from guards g where g.operation_id is not null
            union select u.tenant, u.operation_id from operations u where u.state in ('parked', 'approved')
          ) open
          join operations o on o.tenant = open.tenant and o.operation_id = open.operation_id
          group by o.state`,
      });
      return Object.fromEntries(rows.map(({ state, n }) => [state, n]));
    },
    depth: () => commits.depth,
    async close() {
      await Promise.all([commitConnection.close(), findConnection.close(), pool.end()]);
    },
  };
}
