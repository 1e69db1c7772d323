/**
 * What the database role of a gateway may do: all that calls need, and nothing by which a receipt, its place in the chain or a signature could
 * be changed or deleted. It owns nothing, so it cannot lift that either. Run again after every migration: a new table has no grants.
 */
import pg from 'pg';

const appendOnly = ['receipts', 'receipt_chain', 'receipt_checkpoints', 'receipt_dictionaries', 'served_contracts'];
const readOnly = ['schema_migrations', 'receipt_packing'];

/** @param url of the owner of the schema. @throws Error in words when there is no such role, or it is one that no grant binds. */
export async function grant(url: string, role: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, application_name: 'callgate-migrate' });
  client.on('error', () => undefined); // the statement that was under way fails too, and says it
  await client.connect();
  try {
    await mustBeBound(client, role);
    const to = client.escapeIdentifier(role);
    const { rows } = await client.query<{ name: string }>(`select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = current_schema()::regnamespace`);
    const { rows: [place] } = await client.query<{ database: string; schema: string }>('select current_database() as database, current_schema() as schema');
    await client.query('begin');
    await client.query(`grant connect, temporary on database ${client.escapeIdentifier(place?.database ?? '')} to ${to}`);
    await client.query(`grant usage on schema ${client.escapeIdentifier(place?.schema ?? '')} to ${to}`);
    for (const { name } of rows) {
      const table = client.escapeIdentifier(name);
      await client.query(`revoke all on ${table} from ${to}`); // of whatever was granted before
      await client.query(`grant ${rights(name)} on ${table} to ${to}`);
    }
    await client.query(`grant execute on function erase_contents(text, text) to ${to}`); // it does what a sealed notice says, and nothing else
    await client.query('commit');
  } finally {
    await client.end();
  }
}

function rights(table: string): string {
  if (appendOnly.includes(table)) return 'select, insert';
  return readOnly.includes(table) ? 'select' : 'select, insert, update, delete';
}

async function mustBeBound(client: pg.Client, role: string): Promise<void> {
  const { rows: [found] } = await client.query<{ free: boolean }>(
    `select r.rolsuper or pg_has_role(r.oid, (select c.relowner from pg_class c where c.oid = 'receipts'::regclass), 'member') as free from pg_roles r where r.rolname = $1`, [role],
  );
  if (!found) throw new Error(`there is no role \`${role}\`: \`create role ${role} login password …\` first`);
  if (found.free) throw new Error(`\`${role}\` is a superuser or owns the tables, and no grant binds it: take another role for the gateway`);
}
