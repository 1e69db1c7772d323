import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { formatDiagnostics } from '../contract/diagnostics.js';
import { isCaseFile } from '../contract/load.js';
import { parseContractFile } from '../contract/yaml-file.js';
import { type CaseResult, type PolicySet, runCases } from '../policy/cases.js';
import { loadPolicies } from '../policy/cedar.js';
import { readPolicies } from '../policy/read.js';
import { policySchemaOf } from '../policy/schema.js';
import { compiledOrTold, defaultFolder } from './check.js';
import { readArgs, UsageError } from './usage.js';

type Ran = CaseResult & { file: string };

/** `callgate policy test`: cases against the policies of a contracts folder; 1 where one does not hold. */
export async function policy(args: string[]): Promise<number> {
  const [verb, ...rest] = args;
  if (verb !== 'test') throw new UsageError('there is `callgate policy test`; see `callgate help`');
  const { positionals, values } = readArgs(rest, { format: { type: 'string', default: 'human' }, cases: { type: 'string', multiple: true } }, 1);
  if (values.format !== 'human' && values.format !== 'json') throw new UsageError('`--format` is `human` or `json`');
  const folder = positionals[0] ?? defaultFolder();
  const catalogue = compiledOrTold(folder);
  if (!catalogue) return 1;
  const files = values.cases ?? casesIn(folder);
  if (files.length === 0) throw new UsageError(`there is no \`*.cases.yaml\` in \`${folder}\`; write one (docs/policies.md#cases), or name files with \`--cases\``);

  const schema = policySchemaOf(catalogue.tools.values());
  const set: PolicySet = { tools: catalogue.tools, schema, engine: loadPolicies(catalogue.policies, schema) };
  const ran: Ran[] = [];
  for (const file of files) {
    const found = runFile(file, set);
    if (!found) return 1;
    ran.push(...found);
  }
  const decided = new Set(ran.flatMap(({ by }) => by));
  const untried = readPolicies(catalogue.policies).policies.map(({ id }) => id).filter((id) => !decided.has(id));
  console.log(values.format === 'json' ? JSON.stringify({ cases: ran, untried }, null, 2) : told(ran, untried));
  return ran.every(({ problem }) => problem === null) ? 0 : 1;
}

/** Null: it cannot be read, which has then been told. */
function runFile(file: string, set: PolicySet): Ran[] | null {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new UsageError(`there is no file \`${file}\``);
  const text = readFileSync(file, 'utf8');
  const parsed = parseContractFile(file, text);
  if ('source' in parsed) return runCases(parsed.source, set).map((result) => ({ file, ...result }));
  console.error(formatDiagnostics(parsed.diagnostics, () => text));
  return null;
}

function casesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(isCaseFile).sort().map((name) => join(relative('', folder), name));
}

function told(ran: readonly Ran[], untried: readonly string[]): string {
  const held = ran.filter(({ problem }) => problem === null);
  return [
    ...ran.map(({ file, line, column, name, decided, by, problem }) => (problem === null
      ? `ok    ${name}: ${decided}${by.length > 0 ? ` by ${by.join(', ')}` : ', as no policy permits it'}`
      : `WRONG ${file}:${line}:${column} ${name}: ${problem}`)),
    '',
    `${held.length} of ${ran.length} cases hold.`,
    ...(untried.length > 0 ? [`No case was decided by ${untried.join(', ')}.`] : []),
  ].join('\n');
}
