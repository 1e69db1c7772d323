import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { type ImportOptions, importOpenapi } from '../contract/importers/openapi/import.js';
import type { Operation } from '../contract/importers/openapi/operations.js';
import { readArgs, UsageError } from './usage.js';

const globs = { type: 'string', multiple: true } as const;
const options = { tag: globs, path: globs, operation: globs, select: globs, service: { type: 'string' }, out: { type: 'string' } } as const;

/** `callgate import openapi FILE`: a draft contract with the chosen operations, to standard output or a new file. */
export async function importContract(args: string[]): Promise<number> {
  const { positionals, values } = readArgs(args, options, 2);
  const [format, file] = positionals;
  if (format !== 'openapi' || file === undefined) throw new UsageError('only OpenAPI documents are imported: `callgate import openapi FILE`');
  const { out, service, ...selection } = values;
  if (out !== undefined && existsSync(out)) throw new UsageError(`\`${out}\` exists already; a draft never replaces a contract`);
  if (service !== undefined && !/^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(service)) throw new UsageError('`--service` is a letter and up to 63 letters, digits, `_` or `-`');
  return imported(readText(file), { file: basename(file), ...(service === undefined ? {} : { service }), ...selection }, file, out);
}

function imported(text: string, given: ImportOptions, file: string, out: string | undefined): number {
  const result = importOpenapi(text, given);
  if ('problems' in result) {
    for (const { line, column, message } of result.problems) console.error(`${file}:${line}:${column}: ${message}`);
    return 1;
  }
  if ('unchosen' in result) {
    console.error(`${result.unchosen}.\n\n${overview(result.operations)}`);
    return 2;
  }
  if (out === undefined) process.stdout.write(result.draft);
  else writeFileSync(out, result.draft, { flag: 'wx' });
  const { tools, gaps, left } = result;
  console.error(`${tools.length} tools, ${gaps} open questions; ${left} operations were not chosen. \`callgate check\` lists what has to be answered.`);
  return 0;
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8').replace(/^\ufeff/, '');
  } catch {
    throw new UsageError(`\`${file}\` cannot be read; name an OpenAPI document in JSON or YAML`);
  }
}

const maxShown = 40;

function overview(operations: readonly Operation[]): string {
  const tags = new Map<string, number>();
  for (const tag of operations.flatMap((operation) => operation.tags)) tags.set(tag, (tags.get(tag) ?? 0) + 1);
  const listed = operations.slice(0, maxShown).map(({ name, method, path }) => `  ${name}  ${method} ${path}`);
  return [
    `The document has ${operations.length} operations. Choose with --operation, --path, --tag or --select; \`*\` stands for any text.`,
    ...(tags.size === 0 ? [] : [`Tags: ${[...tags].slice(0, maxShown).map(([tag, count]) => `${tag} (${count})`).join(', ')}`]),
    ...listed,
    ...(operations.length > maxShown ? [`  and ${operations.length - maxShown} more`] : []),
  ].join('\n');
}
