/** The gate's ledger over Postgres: two lanes (commits, look-ups) and a small pool for everything that is not on a call's path. */
import type pg from 'pg';
import { LedgerUnavailable } from '../errors.js';
import type { CallAlias, Entry, Found, Intent, Ledger, Operation, Reservation, Transition } from '../gate/ports.js';
import type { OperationState } from '../model.js';
import { type ConnectionOptions, createPool, errorKind, isReadOnly, LaneConnection, Unwritable, type Statement } from './connection.js';
import { handOverStatement, orphanGuardsStatement, renewStatement, takeStatement, toTaken, witnessStatement } from './due.js';
import { moveStatement } from './entity-states.js';
import { type FindQuery, type FoundRow, findStatement, toFoundRows } from './find.js';
import { Lane } from './lane.js';
import { lockStatement } from './locks-in-order.js';
import { hex, operationColumns, type OperationRow, toOperation } from './operation-row.js';
import { type RecordResult, recordStatement } from './record.js';
import { fundStatement, intentKeys, type ReserveRow, reserveStatement, toReservations, unclaimVain } from './reserve.js';
import { adoptStatement, countReviewsStatement, type EscalatedReview, type EscalatedRow, escalateStatement, toEscalated } from './review-deadlines.js';
import type { Sealer } from './seal.js';
import { type Told, toldStatement } from './seen.js';
import { lastStatement, rememberStatement } from './session-results.js';
import { type TransitionResult, transitionStatement } from './transition.js';
import { markStatement } from './untrusted.js';

export interface LedgerOptions extends ConnectionOptions {
  poolSize: number;
  maxBatch: number;
  maxQueue: number;
  observed?(lane: 'commit' | 'find', rows: number, seconds: number): void;
}

type Commit = { intent: Intent } | { transition: Transition } | { entry: Entry };
type Committed = Reservation | boolean;

export interface LedgerStore extends Ledger {
  readonly pool: pg.Pool;
  take(owner: string, leaseMs: number, limit: number): Promise<Operation[]>;
  renew(owner: string, leaseMs: number, held: { tenant: string; id: string; fence: number }[]): Promise<void>;
  handOver(owner: string): Promise<void>;
  removeOrphanGuards(olderThanMs: number): Promise<void>;
  /** Reviews whose deadline has passed and that nobody has been told of yet. */
  escalateReviews(): Promise<EscalatedReview[]>;
  /** Opens a review for whatever is in that state without one. */
  adoptReviews(deadlineMs: number): Promise<void>;
  /** For a gauge. */
  countReviews(): Promise<{ open: number; overdue: number }>;
  saveCatalogue(digest: string, source: string): Promise<void>;
  catalogueSource(digest: string): Promise<string | null>;
  /** Of writes that hold a guard, by state; for a gauge. */
  countOpen(): Promise<Record<string, number>>;
  depth(): number;
  close(): Promise<void>;
}

export function openLedger(options: LedgerOptions, sealer: Sealer): LedgerStore {
  const pool = createPool(options, options.poolSize);
  const commitConnection = new LaneConnection(options);
  const findConnection = new LaneConnection(options);
  const funded = new Set<string>();

  const commits = new Lane<Commit, Committed>({
    async flush(items) {
      try {
        return await flush(commitConnection, items, sealer, funded);
      } catch (error) {
        // After a failover the old primary may go on answering reads; what is looked up there is stale.
        if (isReadOnly(error)) findConnection.abandon();
        throw error;
      }
    },
    keys: (item) => ('intent' in item ? intentKeys(item.intent) : []),
    kind: errorKind,
    maxBatch: options.maxBatch,
    maxQueue: options.maxQueue,
    observed: (rows, seconds) => options.observed?.('commit', rows, seconds),
  });
  const finds = new Lane<FindQuery, FoundRow>({
    async flush(items) {
      const results = await findConnection.run([findStatement(items)]);
      return toFoundRows(items.length, results.get('find')?.rows as OperationRow[], sealer);
    },
    kind: errorKind,
    maxBatch: options.maxBatch,
    maxQueue: options.maxQueue,
    observed: (rows, seconds) => options.observed?.('find', rows, seconds),
  });

  /** Off the path of a call; failures mean the database. */
  async function plain<Row extends pg.QueryResultRow>(statement: Statement): Promise<Row[]> {
    try {
      return (await pool.query<Row>(statement.text, statement.values)).rows;
    } catch (error) {
      throw errorKind(error) === 'row' ? error : new LedgerUnavailable(error);
    }
  }

  async function get(tenant: string, operationId: string): Promise<Operation | null> {
    const [row] = await plain<OperationRow>({
      name: 'get', text: `select ${operationColumns} from operations o where o.tenant = $1 and o.operation_id = $2`, values: [tenant, operationId],
    });
    return row ? toOperation(row, sealer) : null;
  }

  return {
    pool,
    get,
    async find(query): Promise<Found> {
      const { callFingerprint, callOperation, current, ...rest } = await finds.add(query);
      if (callOperation === null || callFingerprint === null) return { call: null, current, ...rest };
      const operation = callOperation === current?.id ? current : await get(query.tenant, callOperation);
      return { call: { fingerprint: callFingerprint, operationId: callOperation, operation }, current, ...rest };
    },
    reserve: (intent) => commits.add({ intent }) as Promise<Reservation>,
    transition: (transition) => commits.add({ transition }, true) as Promise<boolean>,
    record: (entry) => commits.add({ entry }) as Promise<boolean>,
    async alias(alias: CallAlias) {
      await plain({
        name: 'alias',
        text: `insert into calls as a (tenant, call_key, fingerprint, operation_id) values ($1, $2::bytea, $3::bytea, $4)
          on conflict (tenant, call_key) do update set fingerprint = excluded.fingerprint, operation_id = excluded.operation_id
          where a.operation_id = $5`,
        values: [alias.tenant, hex(alias.callKey), hex(alias.fingerprint), alias.operationId, alias.previous],
      });
    },
    async lastResult(query) {
      const [row] = await plain<OperationRow>(lastStatement(query));
      return row ? toOperation(row, sealer) : null;
    },
    async witness(attempt, receipt, review, moves = []) {
      const [row] = await plain<{ state: OperationState }>(witnessStatement(attempt, receipt, review, moves));
      return row?.state ?? null;
    },
    take: async (owner, leaseMs, limit) => toTaken(await plain<OperationRow>(takeStatement(owner, leaseMs, limit)), sealer),
    renew: async (owner, leaseMs, held) => void (await plain(renewStatement(owner, leaseMs, held))),
    handOver: async (owner) => void (await plain(handOverStatement(owner))),
    removeOrphanGuards: async (olderThanMs) => void (await plain(orphanGuardsStatement(olderThanMs))),
    escalateReviews: async () => toEscalated(await plain<EscalatedRow>(escalateStatement())),
    adoptReviews: async (deadlineMs) => void (await plain(adoptStatement(deadlineMs))),
    async countReviews() {
      const [row] = await plain<{ open: number; overdue: number }>(countReviewsStatement());
      return row ?? { open: 0, overdue: 0 };
    },
    async saveCatalogue(digest, source) {
      await plain({ name: 'save', text: 'insert into catalogues (digest, source) values ($1, $2) on conflict do nothing', values: [digest, source] });
    },
    async catalogueSource(digest) {
      const [row] = await plain<{ source: string }>({ name: 'source', text: 'select source from catalogues where digest = $1', values: [digest] });
      return row?.source ?? null;
    },
    async countOpen() {
      const rows = await plain<{ state: string; n: number }>({
        name: 'count_open', values: [],
        text: `select o.state, count(*)::integer as n
          from (select distinct tenant, operation_id from guards where operation_id is not null) g join operations o on o.tenant = g.tenant and o.operation_id = g.operation_id
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

/** One transaction, its locks in one order on every replica (locks-in-order.ts): transitions, intents, entries, and what sessions were told. */
async function flush(connection: LaneConnection, items: Commit[], sealer: Sealer, funded: Set<string>): Promise<Committed[]> {
  const { transitions, intents, entries } = sorted(items);
  await fund(connection, intents.map(({ intent }) => intent), funded);
  const results = await connection.run(written(() => statementsOf(transitions, intents, entries, sealer)));

  const rowsOf = <Row>(name: string): Row[] => (results.get(name)?.rows ?? []) as Row[];
  const committed: Committed[] = new Array<Committed>(items.length);
  const moved = rowsOf<TransitionResult>('transition');
  transitions.forEach(({ at }, n) => { committed[at] = moved[n]?.moved ?? false; });
  const meant = intents.map(({ intent }) => intent);
  const reserved = rowsOf<ReserveRow>('reserve');
  toReservations(meant, reserved).forEach((reservation, n) => { committed[intents[n]?.at as number] = reservation; });
  const recorded = rowsOf<RecordResult>('record');
  entries.forEach(({ at }, n) => { committed[at] = recorded[n]?.stood ?? false; });
  for (const [n, intent] of meant.entries()) if (purseMissing(reserved[n] as ReserveRow, intent)) funded.delete(purseKey(intent));
  const vain = unclaimVain(meant, reserved);
  if (vain) await connection.run([vain]);
  return committed;
}

interface Sorted {
  transitions: { at: number; transition: Transition }[];
  intents: { at: number; intent: Intent }[];
  entries: { at: number; entry: Entry }[];
}

function sorted(items: Commit[]): Sorted {
  const transitions = items.flatMap((item, at) => ('transition' in item ? [{ at, transition: item.transition }] : []));
  transitions.sort((a, b) => order(a.transition.tenant, b.transition.tenant) || order(a.transition.operationId, b.transition.operationId));
  return {
    transitions,
    intents: items.flatMap((item, at) => ('intent' in item ? [{ at, intent: item.intent }] : [])),
    entries: items.flatMap((item, at) => ('entry' in item ? [{ at, entry: item.entry }] : [])),
  };
}

function statementsOf(...[transitions, intents, entries, sealer]: [Sorted['transitions'], Sorted['intents'], Sorted['entries'], Sealer]): Statement[] {
  const moves = transitions.map(({ transition }) => transition);
  const meant = intents.map(({ intent }) => intent);
  const marks = [...moves.flatMap(({ mark }) => mark ?? []), ...entries.flatMap(({ entry }) => entry.mark ?? [])];
  const told = [...moves.flatMap(toldBy), ...entries.flatMap(({ entry }) => toldByEntry(entry))];
  const moving = moves.flatMap(({ moves: each = [], ...written }) => each.map((move) => ({ ...written, move })));
  const remembering = moves.flatMap(({ remembered, ...written }) => (remembered ? [{ ...written, remembered }] : []));
  const lock = lockStatement(moves, meant);
  return [
    ...(lock ? [lock] : []),
    ...(moves.length > 0 ? [transitionStatement(moves, sealer)] : []),
    ...(moving.length > 0 ? [moveStatement(moving)] : []),
    ...(meant.length > 0 ? [reserveStatement(meant, sealer)] : []),
    ...(entries.length > 0 ? [recordStatement(entries.map(({ entry }) => entry), sealer, relaxes(transitions, intents, entries))] : []),
    ...(marks.length > 0 ? [markStatement(marks)] : []),
    ...(told.length > 0 ? [toldStatement(told)] : []),
    ...(remembering.length > 0 ? [rememberStatement(remembering)] : []),
  ];
}

/**
 * A flush is as durable as what needs it most in it. What a session was told of an entity, and that it is marked, decides later calls, so a
 * read that says either is never relaxed.
 */
function relaxes(transitions: Sorted['transitions'], intents: Sorted['intents'], entries: Sorted['entries']): boolean {
  return transitions.length === 0 && intents.length === 0 && entries.every(({ entry }) => entry.relaxed && !entry.mark && !entry.seen?.length);
}

function toldBy({ operationId, writeId, seen = [], told = [] }: Transition): Told[] {
  const written = { operationId, writeId };
  return [...seen.map((one) => ({ written, own: true, seen: one })), ...told.map((one) => ({ written, own: false, seen: one }))];
}

function toldByEntry({ operation, seen }: Entry): Told[] {
  if (!operation) return [];
  return (seen ?? []).map((one) => ({ written: { operationId: operation.id, writeId: operation.writeId }, own: false, seen: one }));
}

/** What cannot be put into words for Postgres is the fault of one item, and must not look like a database that is away. */
function written<T>(build: () => T): T {
  try {
    return build();
  } catch (error) {
    throw new Unwritable(error);
  }
}

/** A purse that went away (a failover that lost it, a clean-up by hand) is made again with the next flush. */
function purseMissing(row: ReserveRow, { budget }: Intent): boolean {
  return budget !== null && row.fresh && !row.inserted && !row.guarded && row.quota === null;
}

function purseKey({ budget, operation }: Intent): string {
  return `${operation.tenant}\n${budget?.scope ?? ''}`;
}

async function fund(connection: LaneConnection, intents: Intent[], funded: Set<string>): Promise<void> {
  const missing = new Map<string, { tenant: string; scope: string; quota: number }>();
  for (const intent of intents) {
    const { budget, operation } = intent;
    if (budget && !funded.has(purseKey(intent))) missing.set(purseKey(intent), { tenant: operation.tenant, ...budget });
  }
  if (missing.size === 0) return;
  await connection.run([fundStatement([...missing.values()])]);
  if (funded.size > 10_000) funded.clear();
  for (const key of missing.keys()) funded.add(key);
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
