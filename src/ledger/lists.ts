/** Receipts and operations as lists: which index serves which filter. */
import type pg from 'pg';
import type { ReceiptFilter } from '../ports.js';
import { firstIdAt } from '../receipt-id.js';
import { readCursor } from './cursor.js';
import { among, type Found, type List, named, type Search, search } from './search.js';

type Ask = Pick<Search, 'tenant' | 'withinMs'>;
export type OperationFilter = ReceiptFilter & { state?: string };

interface ReceiptKey extends pg.QueryResultRow { id: string }
interface OperationKey extends pg.QueryResultRow { created_at: string; operation_id: string }

const receipts = (columns: string): List<ReceiptKey> => ({
  from: 'receipts r', columns, order: [{ column: 'id', type: 'text' }], key: ({ id }) => [id],
});

const operations = (columns: string): List<OperationKey> => ({
  from: 'operations o', columns, order: [{ column: 'created_at', type: 'timestamptz' }, { column: 'operation_id', type: 'text' }],
  key: (row) => [row.created_at, row.operation_id],
});

/** @param columns of receipts `r`, with `id`. @throws BadCursor, before anything is asked */
export function listReceipts<Row extends ReceiptKey>(columns: string, filter: ReceiptFilter, ask: Ask): (client: pg.ClientBase) => Promise<Found<Row>> {
  const { outcome, disposition } = filter;
  const cursor = filter.cursor ? readCursor('receipts', filter.cursor) : null;
  const to = filter.to ? firstIdAt(firstMillisecond(filter.to)) : null;
  const asked = {
    ...ask, limit: filter.limit, after: cursor ?? (to === null ? null : [to]), downTo: filter.from ? [firstIdAt(firstMillisecond(filter.from))] : null,
    others: [...equal(filter, ['session_id', 'intent_id', 'tool', 'disposition', 'outcome', 'principal']), ...(cursor && to !== null ? [['id < ?', to] as const] : [])],
  };
  const list = receipts(columns) as List<Row>;
  return async (client) => {
    const ids = await receiptsNamed(client, 'id', ask.tenant, filter);
    if (ids) return among(client, list, { ...asked, lead: null }, 'id', ids);
    if (outcome !== undefined && outcome !== 'committed') return search(client, list, led(asked, 'outcome', outcome, `outcome <> 'committed'`));
    if (disposition !== undefined && disposition !== 'executed') return search(client, list, led(asked, 'disposition', disposition, `disposition <> 'executed'`));
    return search(client, list, { ...asked, lead: null });
  };
}

/** @param columns of operations `o`, with `created_at` to the microsecond and `operation_id`. @throws BadCursor, before anything is asked */
export function listOperations<Row extends OperationKey>(columns: string, filter: OperationFilter, ask: Ask): (client: pg.ClientBase) => Promise<Found<Row>> {
  const { state, outcome } = filter;
  const cursor = filter.cursor ? readCursor('operations', filter.cursor) : null;
  const to = filter.to ? inUtc(filter.to) : null;
  const asked = {
    ...ask, limit: filter.limit, after: cursor ?? (to === null ? null : [to, '']), downTo: filter.from ? [inUtc(filter.from), ''] : null,
    others: [...equal(filter, ['session_id', 'intent_id', 'tool', 'outcome', 'principal', 'state']), ...(cursor && to !== null ? [['created_at < ?::timestamptz', to] as const] : [])],
  };
  const list = operations(columns) as List<Row>;
  return async (client) => {
    const ids = await operationsNamed(client, ask.tenant, filter);
    if (ids) return among(client, list, { ...asked, lead: null }, 'operation_id', ids);
    if (state !== undefined && state !== 'committed' && state !== 'sending') return search(client, list, led(asked, 'state', state, `state not in ('sending', 'committed')`));
    if (outcome !== undefined && outcome !== 'committed') return search(client, list, led(asked, 'outcome', outcome, `outcome <> 'committed'`));
    return search(client, list, { ...asked, lead: null });
  };
}

/** By the receipts of a session or an intent, of which every operation has one: an index of its own for each would be written twice for every write. */
async function operationsNamed(client: pg.ClientBase, tenant: string, filter: OperationFilter): Promise<string[] | null> {
  const ids = await receiptsNamed(client, 'operation_id', tenant, filter);
  if (ids || filter.state !== 'sending') return ids;
  return named(client, `select operation_id as id from operations where tenant = $1 and effect <> 'none' and state in ('approved', 'sending', 'accepted', 'unknown', 'review')
    order by session_id`, [tenant]);
}

/** What the receipts of a session or of an intent have in that column. Neither index has more than the name: the receipts of one are few, and are put in order then. */
async function receiptsNamed(client: pg.ClientBase, column: string, tenant: string, { session_id, intent_id }: ReceiptFilter): Promise<string[] | null> {
  const ids = session_id === undefined ? null : await named(client, ofSession(column), [tenant, session_id]);
  return ids ?? (intent_id === undefined ? null : named(client, ofIntent(column), [tenant, intent_id]));
}

const ofSession = (column: string): string => `select ${column} as id from receipts where tenant = $1 and session_id >= $2 and session_id <= $2 order by session_id`;
const ofIntent = (column: string): string =>
  `select ${column} as id from receipts where tenant = $1 and intent_id <> '' and intent_id >= $2 and intent_id <= $2 order by intent_id`;

type Asked = Omit<Search, 'lead'>;

/** The column that leads needs no other look. */
function led(asked: Asked, column: string, value: string, only = ''): Search {
  return { ...asked, lead: { column, value, only }, others: asked.others.filter(([condition]) => condition !== `${column} = ?`) };
}

function equal<Filter extends object>(filter: Filter, columns: readonly (keyof Filter & string)[]): (readonly [string, unknown])[] {
  return columns.flatMap((column) => (filter[column] === undefined ? [] : [[`${column} = ?`, filter[column]] as const]));
}

/** Receipts are dated to the millisecond: the first one that is not before an instant, whose fraction may be finer. */
function firstMillisecond(text: string): Date {
  const at = new Date(text);
  const finer = /\.\d{3}(\d+)/.exec(text)?.[1] ?? '';
  return /[1-9]/.test(finer) ? new Date(at.getTime() + 1) : at;
}

/** Postgres takes no offset beyond 15:59; a fraction is the same in every zone. */
function inUtc(text: string): string {
  const fraction = /\.(\d{1,6})/.exec(text)?.[1] ?? '0';
  return `${new Date(text).toISOString().slice(0, 19)}.${fraction}Z`;
}
