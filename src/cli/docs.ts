import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { documentation } from '../contract/views/documentation.js';
import { compiledOrTold } from './check.js';
import { readArgs, UsageError } from './usage.js';

/** `callgate docs`: a page for each service, for those who approve its tools. */
export async function docs(args: string[]): Promise<number> {
  const { positionals, values } = readArgs(args, { out: { type: 'string' } }, 1);
  const folder = values.out;
  if (folder === undefined) throw new UsageError('`--out` names the folder that the pages are written to');
  const catalogue = compiledOrTold(positionals[0]);
  if (!catalogue) return 1;
  const pages = documentation(catalogue);
  mkdirSync(folder, { recursive: true });
  for (const [file, text] of pages) writeFileSync(join(folder, file), text);
  console.log([...pages.keys()].map((file) => join(folder, file)).join('\n'));
  return 0;
}
