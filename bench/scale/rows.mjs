/** What the seed has left behind, and of it what belongs to one conversation alone and so has to be another in each copy. */
import { marker } from './seed.mjs';

/** A name that begins with the time at which it was given, and one that is a hash behind a prefix. */
const timed = /^(rcp|rev|apr)_[0-9a-z]{26}$/;
const hashed = /^(?!sha256:)[a-z]{2,8}[_:][0-9A-Za-z_-]{16,}$/;
const conversation = new RegExp(`${marker}-([curo])(\\d\\d)`);
const order = new RegExp(`${marker}(\\d\\d)\\d\\d`);
const leastKeyBytes = 12;
const mostKeyBytes = 32;

/** A chain over copies is made anew; what recovery removes within a day is not there to be copied. */
const madeAnew = ['receipt_chain', 'receipt_checkpoints'];
const shortLived = ['guards', 'session_reads', 'cancel_requests', 'session_retention'];

/**
 * @returns `[{table, columns: [{name, type}], keys: [[column]], rows: [{place, of, values}]}]`: for each table with a `tenant` those rows that belong to a
 *   conversation `of`, in the place `ctid`; `kinds` says of each value how a copy gets its own (`kindOf`)
 */
export async function readSeed(client) {
  const tables = [];
  for (const { table, columns } of await tablesOf(client)) {
    const { rows } = await client.query(`select t.ctid::text as place, to_jsonb(t) as row from ${table} t`);
    tables.push({ table, columns, keys: await keysOf(client, table), rows: rows.map(({ place, row }) => ({ place, of: null, values: columns.map(({ name }) => row[name]) })) });
  }
  const shared = await sharedValues(client);
  const owners = assign(tables, shared);
  for (const each of tables) each.rows = each.rows.filter(({ of }) => of !== null);
  for (const each of tables) {
    for (const row of each.rows) row.kinds = row.values.map((value, n) => kindOf(each.columns[n].type, value, owners));
    each.rows = each.rows.filter((row) => each.keys.every((key) => isAnother(each, row, key)));
  }
  return tables.filter(({ rows }) => rows.length > 0);
}

async function tablesOf(client) {
  const { rows } = await client.query(`
    select c.relname as table, json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, null)) order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attidentity = '' and a.attgenerated = ''
    where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace
    group by c.oid, c.relname having bool_or(a.attname = 'tenant') order by 1`);
  return rows.filter(({ table }) => ![...madeAnew, ...shortLived].includes(table));
}

async function keysOf(client, table) {
  const { rows } = await client.query(`
    select array_agg(a.attname::text) as key from pg_index i cross join lateral unnest(i.indkey) k join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k
    where i.indrelid = $1::regclass and i.indisunique group by i.indexrelid`, [table]);
  return rows.map(({ key }) => key);
}

/** What tables without a tenant say is everybody's. */
async function sharedValues(client) {
  const { rows } = await client.query(`
    select c.relname as table from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
      and not exists (select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant' and not a.attisdropped)`);
  const shared = new Set();
  for (const { table } of rows) {
    for (const { row } of (await client.query(`select to_jsonb(t) as row from ${table} t`)).rows) for (const value of Object.values(row)) shared.add(value);
  }
  return shared;
}

/**
 * Rows that name a conversation are its own, and so is what shares a name with them that no other conversation has: a call's key leads to its
 * operation, and that to its session.
 * @returns the conversation of each value that belongs to one, `null` for what belongs to several
 */
function assign(tables, shared) {
  const owners = new Map();
  const own = (value, of) => { owners.set(value, owners.has(value) && owners.get(value) !== of ? null : of); };
  for (let moved = true; moved;) {
    moved = false;
    for (const { columns, rows } of tables) for (const row of rows) {
      if (row.of !== null) continue;
      const names = row.values.filter((value, n) => isName(columns[n].type, value) && !shared.has(value));
      row.of = row.values.map(named).find((of) => of !== null) ?? names.map((value) => owners.get(value) ?? null).find((of) => of !== null) ?? null;
      if (row.of === null) continue;
      moved = true;
      for (const value of names) own(value, row.of);
    }
  }
  return owners;
}

/** @returns 'c07' of a value that names a conversation; orders have digits alone, and are of common ones */
function named(value) {
  if (typeof value !== 'string') return null;
  const found = conversation.exec(value);
  if (found) return `${found[1]}${found[2]}`;
  const ordered = order.exec(value);
  return ordered ? `c${ordered[1]}` : null;
}

const bytesOf = (value) => (value.length - 2) / 2;

function isName(type, value) {
  if (typeof value !== 'string') return false;
  if (type === 'uuid') return true;
  if (type === 'bytea') return bytesOf(value) >= leastKeyBytes && bytesOf(value) <= mostKeyBytes;
  return type === 'text' && (timed.test(value) || hashed.test(value));
}

/** How a copy gets its own value: `time` moved, `uuid`, `bytes` and `hash` of it and the number of the copy, `timed` likewise behind its new time, `name` by the marker; null: as it is. */
function kindOf(type, value, owners) {
  if (value === null || value === undefined) return null;
  if (type === 'timestamp with time zone') return 'time';
  if (type === 'xid8') return 'xact';
  if (isName(type, value) && owners.get(value)) return type === 'uuid' ? 'uuid' : type === 'bytea' ? 'bytes' : timed.test(value) ? 'timed' : 'hash';
  return type === 'text' && value.includes(marker) ? 'name' : null;
}

/** Whether copies of a row differ in a unique key. */
function isAnother({ columns }, row, key) {
  return key.some((name) => name !== 'tenant' && row.kinds[columns.findIndex((column) => column.name === name)] !== null);
}
