/**
 * Pages of the two lists that grow for ever, under any filter. Rows are looked at newest first, along an index that has them in the order of the
 * list, and those that the filter lets through are the page; what a filter asks for may be millions of rows away, so a search ends after a time
 * and says where the next one goes on. An index for each filter would be paid by every commit, and would not serve two filters together.
 *
 * The first column of a walk can be one that is asked for, where an index leads with it. It is compared as part of a row and not for equality:
 * then no other index has that order, and the planner cannot take one that reads what it does not want.
 */
import type pg from 'pg';
import { alongTheIndex } from './pages.js';

export interface List<Row> {
  from: 'receipts r' | 'operations o';
  columns: string;
  /** In the order of the indexes, with their types; together unique within a tenant. */
  order: readonly { column: string; type: string }[];
  /** The order as text. */
  key(row: Row): string[];
}

export interface Search {
  tenant: string;
  /** A column that an index has before the order, the value that is asked for, and what that index is restricted to. */
  lead: { column: string; value: string; only: string } | null;
  /** The key of the row after which to begin, and that of the first row that is too old; each may be missing. */
  after: readonly string[] | null;
  downTo: readonly string[] | null;
  /** What else rows have to meet: a condition with `?` for its value. */
  others: readonly (readonly [condition: string, value: unknown])[];
  limit: number;
  /** About so long; no step is begun at the end of it. */
  withinMs: number;
}

/** `after`: where the next page begins; null: there is nothing more. */
export interface Found<Row> { rows: Row[]; after: string[] | null }

/** Rows that a step looks at: few, since each may be on a page of its own that has to come from the disk, and more as they prove to be quick. */
const firstStep = 1_000;
const leastStep = 200;
const mostStep = 100_000;
const growth = 4;

export async function search<Row extends pg.QueryResultRow>(client: pg.ClientBase, list: List<Row>, asked: Search): Promise<Found<Row>> {
  const begun = performance.now();
  await client.query(alongTheIndex);
  const rows: Row[] = [];
  const full = asked.limit + 1;
  let { after } = asked;
  for (let step = asked.others.length === 0 ? full : Math.max(full, firstStep);;) {
    const from = performance.now();
    const looked = await walk(client, list, { ...asked, after }, step, full - rows.length);
    rows.push(...looked.rows);
    if (rows.length === full) return { rows: rows.slice(0, -1), after: list.key(rows[full - 2] as Row) };
    if (looked.last === null) return { rows, after: null };
    after = list.key(looked.last);
    const now = performance.now();
    const left = asked.withinMs - (now - begun);
    if (left <= asked.withinMs / 8) return { rows, after: [...after] };
    // Half of what the last one promises: the next pages may have to come from the disk.
    step = Math.max(leastStep, Math.min(mostStep, step * growth, Math.floor((step * left) / (2 * (now - from)))));
  }
}

/** Of the next `step` rows of the list the first `limit` that meet the other conditions; `last` is the last of them all, null where there are fewer. */
async function walk<Row extends pg.QueryResultRow>(client: pg.ClientBase, list: List<Row>, asked: Search, step: number, limit: number): Promise<{ rows: Row[]; last: Row | null }> {
  const { range, order, values } = walked(list, asked);
  const others = asked.others.map(([condition, value]) => condition.replace('?', () => `$${values.push(value)}`));
  const alias = aliasOf(list);
  const { rows } = await client.query<Row & { search_place: string; search_meets: boolean }>(
    `select ${list.columns}, search_place, search_meets
    from (select *, row_number() over (order by ${order}) as search_place, ${others.length > 0 ? others.join(' and ') : 'true'} as search_meets
      from (select * from ${list.from} where ${range} order by ${order} limit ${step}) ${alias}) ${alias}
    where search_meets or search_place = ${step} order by ${order} limit ${limit + 1}`, values);
  const plain = rows.map(({ search_place: _place, search_meets: _meets, ...row }) => row as unknown as Row);
  const last = Number(rows.at(-1)?.search_place) === step ? plain.at(-1) as Row : null;
  return { rows: plain.filter((_, n) => rows[n]?.search_meets).slice(0, limit), last };
}

/** Columns are named with their table: a list may show a column as text under its own name, and would then be in the order of that text. */
function walked({ from, order }: Pick<List<never>, 'from' | 'order'>, { tenant, lead, after, downTo }: Search): { range: string; order: string; values: unknown[] } {
  const values: unknown[] = [tenant];
  const columns = [...(lead ? [{ column: lead.column, type: 'text' }] : []), ...order];
  const place = (value: unknown, { type }: { type: string }): string => `$${values.push(value)}::${type}`;
  const bound = (key: readonly string[] | null, than: '<' | '>='): string[] => {
    const whole = [...(lead ? [lead.value] : []), ...(key ?? [])];
    if (whole.length === 0) return [];
    const compared = columns.slice(0, whole.length);
    return [`(${compared.map(({ column }) => column).join(', ')}) ${key === null && than === '<' ? '<=' : than} (${compared.map((column, n) => place(whole[n], column)).join(', ')})`];
  };
  return {
    range: ['tenant = $1', ...(lead && lead.only !== '' ? [lead.only] : []), ...bound(after, '<'), ...bound(downTo, '>=')].join(' and '),
    order: columns.map(({ column }) => `${aliasOf({ from })}.${column} desc`).join(', '),
    values,
  };
}

const aliasOf = ({ from }: Pick<List<never>, 'from'>): string => from.slice(-1);

/** So many rows, found by what they name and not by their place, are read at once and put in order. */
const namedAtMost = 2_000;

/**
 * What a list has of few rows that an index finds, in no order. `text` gives their ids in a column `id`, in an order that only that index has.
 * @returns null where there are more than a few: then the list is searched
 */
export async function named(client: pg.ClientBase, text: string, values: unknown[]): Promise<string[] | null> {
  const { rows } = await client.query<{ id: string | null }>(`${text} limit ${namedAtMost + 1}`, values);
  return rows.length > namedAtMost ? null : [...new Set(rows.flatMap(({ id }) => id ?? []))];
}

/** @param idColumn the column of the list by which they are looked up, in a unique index behind the tenant */
export async function among<Row extends pg.QueryResultRow>(client: pg.ClientBase, list: List<Row>, asked: Search, idColumn: string, ids: readonly string[]): Promise<Found<Row>> {
  const { range, order, values } = walked(list, { ...asked, lead: null });
  const others = asked.others.map(([condition, value]) => condition.replace('?', () => `$${values.push(value)}`));
  // On its own: for a list in its order the planner may walk the whole list and compare each row with the ids.
  const { rows } = await client.query<Row>(
    `with named as materialized (select * from ${list.from} where tenant = $1 and ${idColumn} = any ($${values.push(ids)}::text[]))
    select ${list.columns} from named ${aliasOf(list)} where ${[range, ...others].join(' and ')} order by ${order} limit ${asked.limit + 1}`, values);
  const more = rows.length > asked.limit;
  const page = more ? rows.slice(0, -1) : rows;
  return { rows: page, after: more ? list.key(page.at(-1) as Row) : null };
}
