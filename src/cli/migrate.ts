import { grant } from '../ledger/grant.js';
import { migrate } from '../ledger/migrate.js';
import { projectFile } from '../project.js';
import { readArgs, readConfig } from './usage.js';

/** `callgate migrate`: safe to run from every replica at once, and again. */
export async function migrateDatabase(args: string[]): Promise<number> {
  const { values } = readArgs(args, { config: { type: 'string' }, grant: { type: 'string' } });
  const { database } = readConfig(values.config);
  if (!database.url) throw new Error('`database.url` is not set: set DATABASE_URL');
  const applied = await migrate(database.url, projectFile('migrations'));
  console.log(applied.length === 0 ? 'the schema is up to date' : `applied ${applied.join(', ')}`);
  if (values.grant !== undefined) {
    await grant(database.url, values.grant);
    console.log(`\`${values.grant}\` may do what a gateway does, and may not change or delete a receipt`);
  }
  return 0;
}
