import { migrate } from '../ledger/migrate.js';
import { projectFile } from '../project.js';
import { readArgs, readConfig } from './usage.js';

/** `callgate migrate`: safe to run from every replica at once, and again. */
export async function migrateDatabase(args: string[]): Promise<number> {
  const { values } = readArgs(args, { config: { type: 'string' } });
  const { database } = readConfig(values.config);
  if (!database.url) throw new Error('`database.url` is not set: set DATABASE_URL');
  const applied = await migrate(database.url, projectFile('migrations'));
  console.log(applied.length === 0 ? 'the schema is up to date' : `applied ${applied.join(', ')}`);
  return 0;
}
