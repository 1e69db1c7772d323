import { posix, relative, sep } from 'node:path';
import { compileFolder } from '../contract/compile.js';
import { type Diagnostic, formatDiagnostics } from '../contract/diagnostics.js';
import { readSourceText } from '../contract/load.js';
import type { Catalogue } from '../contract/plan.js';
import { sarifLog } from '../contract/sarif.js';
import { contradicts, formatStateSpaces, stateSpaces } from '../contract/state-space.js';
import { limitProblems, type ViewLimits } from '../contract/views/limits.js';
import { addressProblems } from '../contract/upstream-addresses.js';
import { version } from '../project.js';
import { openEgress, readAllowedUpstreams } from '../upstream/egress.js';
import { limitOption, readArgs, readLimits, UsageError } from './usage.js';

const formats = ['human', 'json', 'sarif'] as const;

/**
 * `callgate check`: every diagnostic of a contracts folder in one run. 1 when one of them is an error. With `--exhaustive` also every state
 * with every action of every transition table, and 1 where a table contradicts itself; with `--limit` how much the views for models may be.
 */
export async function check(args: string[]): Promise<number> {
  const { positionals, values } = readArgs(args, { format: { type: 'string', default: 'human' }, exhaustive: { type: 'boolean', default: false }, limit: limitOption }, 1);
  const format = formats.find((known) => known === values.format);
  if (!format) throw new UsageError('`--format` is `human`, `json` or `sarif`');
  if (values.exhaustive && format === 'sarif') throw new UsageError('`--exhaustive` is told as `human` or `json`');
  const folder = positionals[0] ?? defaultFolder();
  const limits = readLimits(values.limit);
  const { catalogue, diagnostics } = within(limits, reachable(folder, examine(folder)));
  if (catalogue && values.exhaustive) return exhaustively(format, folder, diagnostics, catalogue);
  print(format, folder, diagnostics, catalogue);
  return catalogue ? 0 : 1;
}

/** Null when it does not compile, which has then been told. @param folder that of the environment, or `contracts`, when absent. */
export function compiledOrTold(folder = defaultFolder()): Catalogue | null {
  const { catalogue, diagnostics } = examine(folder);
  if (!catalogue) print('human', folder, diagnostics, null);
  return catalogue;
}

export function defaultFolder(): string {
  return process.env['CALLGATE_CONTRACTS_FOLDER'] ?? 'contracts';
}

interface Examined { catalogue: Catalogue | null; diagnostics: Diagnostic[] }

function examine(folder: string): Examined {
  const compiled = compileFolder(folder, process.env);
  return 'diagnostics' in compiled ? { catalogue: null, diagnostics: compiled.diagnostics } : { catalogue: compiled.catalogue, diagnostics: compiled.warnings };
}

/**
 * Where the gateway would connect to, by the setting of the same name. A machine for development is not where a set will run: there, nothing is
 * held against the addresses of its own network, which contracts fall back on.
 */
function reachable(folder: string, examined: Examined, env: NodeJS.ProcessEnv = process.env): Examined {
  const setting = env['CALLGATE_UPSTREAM_ALLOW_PRIVATE'];
  const production = (env['CALLGATE_MODE'] || env['NODE_ENV']) === 'production';
  if (!examined.catalogue || (!setting && !production)) return examined;
  const barred = addressProblems(folder, examined.catalogue, openEgress({ allowed: readAllowedUpstreams(setting || null) }).problem);
  return barred.length > 0 ? { catalogue: null, diagnostics: [...barred, ...examined.diagnostics] } : examined;
}

function within(limits: ViewLimits, examined: Examined): Examined {
  const over = examined.catalogue ? limitProblems(examined.catalogue, limits) : [];
  return over.length > 0 ? { catalogue: null, diagnostics: [...over, ...examined.diagnostics] } : examined;
}

function exhaustively(format: (typeof formats)[number], folder: string, diagnostics: readonly Diagnostic[], catalogue: Catalogue): number {
  const spaces = stateSpaces(catalogue);
  if (format === 'json') console.log(JSON.stringify({ diagnostics, state_spaces: spaces }, null, 2));
  else {
    print(format, folder, diagnostics, catalogue);
    console.log(formatStateSpaces(spaces));
  }
  return spaces.some(contradicts) ? 1 : 0;
}

function print(format: (typeof formats)[number], folder: string, diagnostics: readonly Diagnostic[], catalogue: Catalogue | null): void {
  // From where the command runs, so that an editor, a scanner or a click finds the file.
  const base = relative(process.cwd(), folder).split(sep).join(posix.sep);
  const placed = diagnostics.map((found) => ({ ...found, file: posix.join(base, found.file) }));
  switch (format) {
    case 'json':
      console.log(JSON.stringify(placed, null, 2));
      return;
    case 'sarif':
      console.log(JSON.stringify(sarifLog(placed, version), null, 2));
      return;
    case 'human':
      if (placed.length > 0) console.error(formatDiagnostics(placed, (file) => readSourceText('.', file)));
      if (catalogue) console.log(`${catalogue.tools.size} tools, ${catalogue.digest}`);
  }
}
