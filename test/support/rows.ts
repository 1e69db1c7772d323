/** Everything that a database holds, as text, for canaries: sealed columns as the text that they would be, and what is packed unpacked. */
import pg from 'pg';
import { contentColumns, type ContentRow, contentsOf } from '../../src/ledger/content.js';

/** @param except tables that are not looked into */
export async function everyRow(databaseUrl: string, except: readonly string[] = []): Promise<string> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows: tables } = await client.query<{ name: string }>("select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'");
  let text = '';
  for (const { name } of tables.filter((table) => !except.includes(table.name))) {
    const { rows } = await client.query(`select * from "${name}"`);
    if (name === 'receipts') text += (await contentsOf(client, (await client.query<ContentRow>(`select ${contentColumns} from receipts r`)).rows)).join('\n');
    text += JSON.stringify({ [name]: rows }, (_, value: unknown) => (isBytes(value) ? Buffer.from(value.data).toString('latin1') : value));
  }
  await client.end();
  if (text.length < 1_000) throw new Error('the database holds next to nothing');
  return text;
}

function isBytes(value: unknown): value is { type: 'Buffer'; data: number[] } {
  return typeof value === 'object' && value !== null && (value as { type?: unknown }).type === 'Buffer';
}
