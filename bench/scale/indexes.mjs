/** Indexes taken from tables that are filled, and made again over what they hold then: as many as were there, valid and with their constraints. */

/** A tree that grew by keys in no order has pages that are this full in the middle; one that is made over a full table would be a third smaller. Hashes are no trees. */
const grownFill = 70;

/** @returns what `makeIndexes` needs, largest tables first as they are given */
export async function takeIndexes(client, tables) {
  const taken = [];
  for (const table of tables) {
    const { rows } = await client.query(`
      select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as text, c.conname as constraint, c.contype as kind,
        array(select a.attname::text from unnest(i.indkey) with ordinality k (attnum, place) join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum order by k.place) as columns
      from pg_index i left join pg_constraint c on c.conindid = i.indexrelid and c.contype in ('p', 'u')
      where i.indrelid = $1::regclass`, [table]);
    for (const index of rows) {
      await client.query(index.constraint ? `alter table ${table} drop constraint ${index.constraint}` : `drop index ${index.name}`);
      taken.push({ ...index, table });
    }
  }
  return taken;
}

/**
 * @param connections as many as are to be made at a time
 * @param isRandom whether keys come in no order in that column of that table
 */
export async function makeIndexes(connections, taken, isRandom) {
  const left = [...taken];
  await Promise.all(connections.map(async (client) => {
    for (let index = left.shift(); index; index = left.shift()) await makeIndex(client, index, isRandom);
  }));
  for (const { table, name, constraint, kind } of taken) {
    if (constraint) await connections[0].query(`alter table ${table} add constraint ${constraint} ${kind === 'p' ? 'primary key' : 'unique'} using index ${name}`);
  }
}

async function makeIndex(client, { table, name, text, columns }, isRandom) {
  const first = columns.find((column) => column !== 'tenant');
  const asGrown = first !== undefined && isRandom(table, first) && / USING btree /.test(text) && !/ WITH \(/.test(text);
  await client.query(asGrown ? text.replace(/( WHERE |$)/, ` WITH (fillfactor = ${grownFill})$1`) : text);
  if (asGrown) await client.query(`alter index ${name} reset (fillfactor)`);
}
