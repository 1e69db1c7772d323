/**
 * Millions of operations out of a few hundred: every row that a seed (bench/scale/seed.mjs) left behind, again and again under names of its own, as
 * one conversation or another of one tenant or another at one time or another. The columns are those that the tables have: nothing here knows them.
 */
import { makeIndexes, takeIndexes } from './indexes.mjs';
import { readSeed } from './rows.mjs';
import { marker } from './seed.mjs';

/** A name tells a time in ten characters; copies are later by whole pieces, so that the last three stay and the first seven are the same for a while. */
const pieceMs = 32 ** 3;
const pieces = 4;
const letters = { time: 't', uuid: 'u', bytes: 'b', hash: 'h', name: 'n', xact: 'x', deadline: 'd' };
const dayMs = 86_400_000;
const uncommonShare = 0.02;
const copiesOfRare = 20;
const copiesOfOpen = 50;
/** Transactions that wrote copies are told apart as if they were so many, all of them long over. */
const transactions = 600;

/**
 * @param connect opens one more connection as the owner of the tables
 * @param options `{operations, days, tenants, largest}`: how many in all, over how long until now, and the share that the seed's own tenant has
 * @param told what was done, and how long it took
 * @returns `{operations, conversations, tenants}`
 */
export async function multiply(connect, { operations, days = 90, tenants = 200, largest = 0.9, lanes = 2 }, told = () => undefined) {
  const connections = await Promise.all(Array.from({ length: lanes }, () => connect()));
  const [client] = connections;
  const beside = await connect();
  try {
    const step = async (what, work) => {
      const begun = performance.now();
      const result = await work();
      told(what, (performance.now() - begun) / 1000);
      return result;
    };
    const seed = await readSeed(client);
    await prepare(client, seed);
    const conversations = await step('conversations', () => copy(client, seed, { operations, days, tenants, largest }));
    const taken = await takeIndexes(client, [...bySize(seed), 'receipt_chain']);
    await step('rows', () => shareOut(connections, bySize(seed), (each, table) => fill(each, seed.find((one) => one.table === table))));
    const make = (some) => makeIndexes(connections, some, (table, column) => isRandom(seed, table, column));
    await step('indexes and chain', () => Promise.all([chain(beside), make(taken.filter(({ table }) => table !== 'receipt_chain'))]));
    await step('indexes of the chain', () => make(taken.filter(({ table }) => table === 'receipt_chain')));
    await client.query('drop schema scale cascade');
    await step('statistics', () => shareOut(connections, [...bySize(seed), 'receipt_chain'], (each, table) => each.query(`vacuum (analyze, parallel 0) ${table}`)));
    const { rows: [{ n }] } = await client.query('select count(*)::integer as n from operations');
    return { operations: n, conversations };
  } finally {
    await Promise.all([...connections, beside].map((each) => each.end()));
  }
}

const bySize = (seed) => seed.toSorted((a, b) => b.rows.length - a.rows.length).map(({ table }) => table);

async function shareOut(connections, tables, work) {
  const left = [...tables];
  await Promise.all(connections.map(async (client) => {
    for (let table = left.shift(); table !== undefined; table = left.shift()) await work(client, table);
  }));
}

/** The rows of the seed with how each value of theirs is copied, and all rows that were there before. */
async function prepare(client, seed) {
  const now = Date.now();
  const begun = beginnings(seed);
  await client.query('drop schema if exists scale cascade; create schema scale');
  for (const { table, columns, rows } of seed) {
    for (const row of rows) row.letters = row.kinds.map((kind, n) => letterOf(kind, row.values[n], row.of, begun, now)).join('');
    const places = rows.map(({ place, of, letters: kinds }) => ({ place, of, kinds }));
    await client.query(`create unlogged table scale.before_${table} as select * from ${table}`);
    await client.query(`create unlogged table scale.seed_${table} as select t.*, p.of as scale_of, p.kinds as scale_kinds
      from ${table} t join json_to_recordset('${JSON.stringify(places)}'::json) as p (place text, of text, kinds text) on t.ctid = p.place::tid`);
    await client.query(`analyze scale.seed_${table}`);
    if (columns.some(({ name }) => name.startsWith('scale_'))) throw new Error(`${table} has a column that is named as one of the generator`);
  }
}

/** A name that tells a time takes the number of pieces by which it is later than its conversation. */
function letterOf(kind, value, of, begun, now) {
  if (kind === 'timed') {
    const later = Math.floor(msOf(value) / pieceMs) - Math.floor(begun.get(of) / pieceMs);
    if (later >= pieces) throw new Error(`conversation ${of} of the seed took longer than ${(pieces * pieceMs) / 1000} s: the machine is too busy`);
    return String(later);
  }
  return letters[of.startsWith('o') && kind === 'time' && Date.parse(value) > now ? 'deadline' : kind] ?? '-';
}

/** Which conversation each copy is of, whose it is, and how much later it is. @returns how many there are */
async function copy(client, seed, { operations, days, tenants, largest }) {
  const begun = beginnings(seed);
  const of = (kind) => [...begun.keys()].filter((name) => name.startsWith(kind)).sort();
  const meanOf = (names) => names.reduce((sum, name) => sum + seed.find(({ table }) => table === 'operations').rows.filter((row) => row.of === name).length, 0) / names.length;
  const perCopy = (1 - uncommonShare) * meanOf(of('c')) + uncommonShare * meanOf(of('u'));
  const { rows: [{ there }] } = await client.query('select count(*)::integer as there from operations');
  const copies = Math.max(1, Math.round((operations - there) / perCopy));
  const literal = (names) => `array[${names.map((name) => `'${name}'`).join(', ')}]`;
  const end = Date.now() - 60_000;
  const several = (kind, each) => `select x.of, ${kind === 'o' ? `${end} - random() * ${dayMs}` : `${end} - ${days * dayMs} * (0.95 + 0.05 * random())`}
    from unnest(${literal(of(kind))}) as x (of), generate_series(1, ${each})`;
  await client.query(`select setseed(0.5)`);
  await client.query(`create unlogged table scale.copies as
    with planned (of, at) as materialized (
      select case when random() < ${uncommonShare} then (${literal(of('u'))})[1 + floor(random() * ${of('u').length})] else (${literal(of('c'))})[1 + floor(random() * ${of('c').length})] end,
        ${end} - ${days * dayMs} * (1 - n::float8 / ${copies})
      from generate_series(1, ${copies}) as n
      union all ${several('r', copiesOfRare)}
      union all ${several('o', copiesOfOpen)}
    ),
    begun as (select * from json_to_recordset('${JSON.stringify([...begun].map(([name, at]) => ({ of: name, at })))}'::json) as b (of text, at float8)),
    numbered as (select p.of, row_number() over (order by p.at) as n, floor((p.at - b.at) / ${pieceMs})::bigint as piece from planned p join begun b on b.of = p.of)
    select m.of, lpad(m.n::text, 8, '0') as code, ${Array.from({ length: pieces }, (_, n) => `${firstSeven(`(floor(b.at / ${pieceMs})::bigint + m.piece + ${n})`)} as seven_${n}`).join(', ')}, case when random() >= ${largest} then 't-' || lpad(floor(${tenants} * random() * random())::text, 4, '0') end as tenant,
      m.piece * ${pieceMs} * interval '1 ms' as later, (3 + m.n * ${transactions} / (${copies} + 1000))::text::xid8 as xact
    from numbered m join begun b on b.of = m.of
    order by m.n`);
  await client.query('analyze scale.copies');
  return copies;
}

const firstSeven = (of) => Array.from({ length: 7 }, (_, n) => `substr('0123456789abcdefghjkmnpqrstvwxyz', ((${of} >> ${30 - 5 * n}) & 31)::integer + 1, 1)`).join(' || ');
const msOf = (id) => [...id.slice(4, 14)].reduce((ms, char) => ms * 32 + '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(char), 0);

/** When each conversation began, by the first name in it that tells a time. */
function beginnings(seed) {
  const begun = new Map();
  for (const { rows } of seed) for (const { of, kinds, values } of rows) {
    for (const [n, kind] of kinds.entries()) if (kind === 'timed') begun.set(of, Math.min(begun.get(of) ?? Number.POSITIVE_INFINITY, msOf(values[n])));
  }
  return begun;
}

/** In one transaction with the truncation: with `wal_level = minimal` nothing of it is written twice. */
async function fill(client, { table, columns, rows }) {
  const names = columns.map(({ name }) => name).join(', ');
  const values = columns.map(({ name }, n) => (name === 'tenant' ? 'coalesce(c.tenant, s.tenant)' : copied(name, n, rows)));
  await client.query(`begin; truncate ${table};
    insert into ${table} (${names}) select ${names} from scale.before_${table};
    set local enable_mergejoin = off; set local enable_nestloop = off;
    insert into ${table} (${names}) select ${values.join(', ')} from scale.copies c join scale.seed_${table} s on s.scale_of = c.of;
    commit`);
}

const expressions = {
  time: (column) => `${column} + c.later`,
  deadline: (column) => `${column} + interval '1 year'`,
  uuid: (column) => `md5(${column}::text || c.code)::uuid`,
  bytes: (column, { lengths }) => (lengths.size === 1 && lengths.has(2 + 2 * 32) ? `sha256(${column} || c.code::bytea)` : `substr(sha256(${column} || c.code::bytea), 1, length(${column}))`),
  ...Object.fromEntries(Array.from({ length: pieces }, (_, n) => [String(n), (column) =>
    `left(${column}, 4) || c.seven_${n} || substr(${column}, 12, 3) || left(encode(sha256(convert_to(${column} || c.code, 'UTF8')), 'hex'), 16)`])),
  hash: (column, { lengths, heads }) => {
    const head = heads.size === 1 ? `${[...heads][0].length}` : `strpos(translate(${column}, '_', ':'), ':')`;
    const length = lengths.size === 1 ? `${[...lengths][0]}` : `length(${column})`;
    return `left(${column}, ${head}) || left(encode(sha256(convert_to(${column} || c.code, 'UTF8')), 'hex'), ${length} - ${head})`;
  },
  name: (column) => `replace(${column}, '${marker}', c.code)`,
  xact: () => 'c.xact',
};

/** The value of a copy. Of nothing comes nothing; where all that is there is copied in one way, no row is asked in which. */
function copied(name, at, rows) {
  const there = rows.filter(({ values }) => values[at] !== null);
  const used = [...new Set(there.map(({ letters: of }) => of[at]))];
  const texts = there.map(({ values }) => String(values[at]));
  const about = { lengths: new Set(texts.map((text) => text.length)), heads: new Set(texts.map((text) => text.slice(0, text.search(/[_:]/) + 1))) };
  const expression = (letter) => (letter === '-' ? `s.${name}` : expressions[Object.keys(letters).find((kind) => letters[kind] === letter) ?? letter](`s.${name}`, about));
  if (used.length <= 1) return used.length === 0 ? `s.${name}` : expression(used[0]);
  return `case substr(s.scale_kinds, ${at + 1}, 1) ${used.map((letter) => `when '${letter}' then ${expression(letter)}`).join(' ')} end`;
}

function isRandom(seed, table, column) {
  const of = seed.find((one) => one.table === table);
  const at = of?.columns.findIndex(({ name }) => name === column) ?? -1;
  return at >= 0 && of.rows.some(({ kinds }) => ['bytes', 'hash', 'uuid'].includes(kinds[at]));
}

/** Every receipt in its place, under links that nothing was hashed for: whoever seals goes on after the last one if that is signed. */
async function chain(client) {
  const { rows } = await client.query(`select a.attname as name from pg_attribute a where a.attrelid = 'receipt_chain'::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`);
  const of = { tenant: 'r.tenant', sequence: 'r.sequence', receipt_id: 'r.id', link: 'r.link', previous: 'null::bytea' };
  const names = rows.map(({ name }) => name);
  await client.query(`begin; truncate receipt_chain, receipt_checkpoints;
    insert into receipt_chain (${names.join(', ')}) select ${names.map((name) => of[name]).join(', ')}
      from (select tenant, id, row_number() over (partition by tenant order by id) as sequence, sha256(convert_to(id, 'UTF8')) as link from receipts) r;
    commit`);
}
