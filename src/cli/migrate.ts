import { grant } from '../ledger/grant.js';
import { migrate, packReceipts } from '../ledger/migrate.js';
import { projectFile } from '../project.js';
import { readArgs, readConfig } from './usage.js';

/** `callgate migrate`: safe to run from every replica at once, and again. */
export async function migrateDatabase(args: string[]): Promise<number> {
  const { values } = readArgs(args, { config: { type: 'string' }, grant: { type: 'string' }, 'pack-receipts': { type: 'boolean' } });
  const { database } = readConfig(values.config);
  if (!database.url) throw new Error('`database.url` is not set: set DATABASE_URL');
  const applied = await migrate(database.url, projectFile('migrations'));
  console.log(applied.length === 0 ? 'the schema is up to date' : `applied ${applied.join(', ')}`);
  if (values.grant !== undefined) {
    await grant(database.url, values.grant);
    console.log(`\`${values.grant}\` may do what a gateway does, and may not change or delete a receipt`);
  }
  const packing = await packReceipts(database.url, values['pack-receipts'] ?? false);
  if (!packing) console.log('receipts or their chain are not kept in the short form yet: once every replica is of this version, `callgate migrate --pack-receipts`');
  return 0;
}
