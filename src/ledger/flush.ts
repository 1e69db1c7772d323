/** A flush: everything that waits, as the statements of one transaction, and their rows as what each was waiting for. */
import type { ChargedRefusal, Entry, Intent, Purse, Reservation, Transition, TurnDraw } from '../gate/ports.js';
import { type LaneConnection, Unwritable } from './connection.js';
import type { Dictionaries, KeepRow } from './dictionaries.js';
import { moveStatement } from './entity-states.js';
import { itemsStatement } from './items.js';
import { lockStatement } from './locks-in-order.js';
import type { LaneStatement } from './pipeline.js';
import { type RecordResult, recordStatement } from './record.js';
import { type RefusalRow, refuseStatement, toSpent } from './refusals.js';
import { type ReadMade, repetitionStatement } from './repetition.js';
import { fundStatement, type ReserveRow, reserveStatement, toReservations, uncallVain, unclaimVain } from './reserve.js';
import type { Sealer } from './seal.js';
import { type Told, toldStatement } from './seen.js';
import { rememberStatement } from './session-results.js';
import { type TransitionResult, transitionStatement } from './transition.js';
import { toUndrawn, turnStatements, type TurnRow } from './turns.js';
import { markStatement } from './untrusted.js';

/** What may go into one flush, and what comes of each. */
export type Commit = { intent: Intent } | { transition: Transition } | { entry: Entry } | { refusal: ChargedRefusal } | { draw: TurnDraw };
export type Committed = Reservation | boolean | Purse | null;

/** One transaction, its locks in one order on every replica (locks-in-order.ts): transitions, intents, entries, refusals, turns, and what sessions read and were told. */
export async function flush(connection: LaneConnection, items: Commit[], sealer: Sealer, dictionaries: Dictionaries, funded: Set<string>): Promise<Committed[]> {
  const sorted = sort(items);
  const { transitions, intents, entries, refusals, draws } = sorted;
  const meant = intents.map(({ item }) => item);
  await fund(connection, meant, funded);
  const statements = written(() => statementsOf(sorted, sealer, dictionaries));
  const keep = dictionaries.keep();
  const results = await connection.run(keep ? [keep.statement, ...statements] : statements, items.length);

  const rowsOf = <Row>(name: string): Row[] => (results.get(name) ?? []) as Row[];
  keep?.committed(rowsOf<KeepRow>('keep'));
  const committed: Committed[] = new Array<Committed>(items.length);
  const place = <Row>(sent: Placed<unknown>[], rows: Row[], result: (row: Row) => Committed): void => {
    for (const [n, { at }] of sent.entries()) committed[at] = result(rows[n] as Row);
  };
  const reserved = rowsOf<ReserveRow>('reserve');
  place(transitions, rowsOf<TransitionResult>('transition'), ({ moved }) => moved);
  place(intents, toReservations(meant, reserved), (reservation) => reservation);
  place(entries, rowsOf<RecordResult>('record'), ({ stood }) => stood);
  place(refusals, rowsOf<RefusalRow>('refuse'), toSpent);
  place(draws, rowsOf<TurnRow>('turns'), toUndrawn);
  for (const [n, intent] of meant.entries()) if (purseMissing(reserved[n] as ReserveRow, intent)) funded.delete(purseKey(intent));
  const vain = [unclaimVain(meant, reserved), uncallVain(meant, reserved)].filter((statement) => statement !== undefined);
  if (vain.length > 0) await connection.run(vain);
  return committed;
}

export function tenantOf(item: Commit): string {
  if ('intent' in item) return item.intent.operation.tenant;
  if ('transition' in item) return item.transition.tenant;
  if ('entry' in item) return item.entry.operation?.tenant ?? item.entry.receipts[0]?.tenant ?? '';
  return 'refusal' in item ? item.refusal.receipt.tenant : item.draw.tenant;
}

interface Placed<T> { at: number; item: T }

interface Sorted {
  transitions: Placed<Transition>[];
  intents: Placed<Intent>[];
  entries: Placed<Entry>[];
  refusals: Placed<ChargedRefusal>[];
  draws: Placed<TurnDraw>[];
}

function sort(items: Commit[]): Sorted {
  const transitions = items.flatMap((item, at) => ('transition' in item ? [{ at, item: item.transition }] : []));
  transitions.sort((a, b) => order(a.item.tenant, b.item.tenant) || order(a.item.operationId, b.item.operationId));
  return {
    transitions,
    intents: items.flatMap((item, at) => ('intent' in item ? [{ at, item: item.intent }] : [])),
    entries: items.flatMap((item, at) => ('entry' in item ? [{ at, item: item.entry }] : [])),
    refusals: items.flatMap((item, at) => ('refusal' in item ? [{ at, item: item.refusal }] : [])),
    draws: items.flatMap((item, at) => ('draw' in item ? [{ at, item: item.draw }] : [])),
  };
}

function statementsOf(sorted: Sorted, sealer: Sealer, dictionaries: Dictionaries): LaneStatement[] {
  const itemsOf = <T>(placed: Placed<T>[]): T[] => placed.map(({ item }) => item);
  const moves = itemsOf(sorted.transitions);
  const meant = itemsOf(sorted.intents);
  const entries = itemsOf(sorted.entries);
  const refusals = itemsOf(sorted.refusals);
  const draws = itemsOf(sorted.draws);
  const marks = [...moves.flatMap(({ mark }) => mark ?? []), ...entries.flatMap(({ mark }) => mark ?? [])];
  const reads = entries.flatMap(readBy);
  const told = [...moves.flatMap(toldBy), ...entries.flatMap(toldByEntry)];
  const writtenBy = ({ tenant, operationId, writeId }: Transition): Pick<Transition, 'tenant' | 'operationId' | 'writeId'> => ({ tenant, operationId, writeId });
  const moving = moves.flatMap((each) => (each.moves ?? []).map((move) => ({ ...writtenBy(each), late: each.late ?? false, move })));
  const done = moves.flatMap((each) => (each.items?.length ? [{ ...writtenBy(each), items: each.items }] : []));
  const remembering = moves.flatMap((each) => (each.remembered ? [{ ...writtenBy(each), remembered: each.remembered }] : []));
  const lock = lockStatement(moves, meant);
  return [
    ...(lock ? [lock] : []),
    ...(moves.length > 0 ? [transitionStatement(moves, sealer, dictionaries)] : []),
    ...(moving.length > 0 ? [moveStatement(moving)] : []),
    ...(done.length > 0 ? [itemsStatement(done)] : []),
    ...(meant.length > 0 ? [reserveStatement(meant, sealer, dictionaries)] : []),
    ...(entries.length > 0 ? [recordStatement(entries, sealer, dictionaries, relaxes(sorted))] : []),
    ...(marks.length > 0 ? [markStatement(marks)] : []),
    ...(refusals.length > 0 ? [refuseStatement(refusals, dictionaries)] : []),
    ...(draws.length > 0 ? turnStatements(draws) : []),
    ...(reads.length > 0 ? [repetitionStatement(reads)] : []),
    ...(told.length > 0 ? [toldStatement(told)] : []),
    ...(remembering.length > 0 ? [rememberStatement(remembering)] : []),
  ];
}

/**
 * A flush is as durable as what needs it most in it. What a session was told of an entity, and that it is marked, decides later calls, so a
 * read that says either is never relaxed.
 */
function relaxes({ transitions, intents, entries, refusals, draws }: Sorted): boolean {
  const others = [transitions, intents, refusals, draws];
  return others.every(({ length }) => length === 0) && entries.every(({ item }) => item.relaxed && !item.mark && !item.seen?.length);
}

function readBy({ operation, repetition }: Entry): ReadMade[] {
  return repetition ? [{ repetition, operation: operation ?? null }] : [];
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
    if (budget && !budget.opened && !funded.has(purseKey(intent))) missing.set(purseKey(intent), { tenant: operation.tenant, scope: budget.scope, quota: budget.quota });
  }
  if (missing.size === 0) return;
  await connection.run([fundStatement([...missing.values()])]);
  if (funded.size > 10_000) funded.clear();
  for (const key of missing.keys()) funded.add(key);
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
