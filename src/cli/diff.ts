import { readFileSync, statSync } from 'node:fs';
import { comparisonProblems, diffSources } from '../contract/diff/diff.js';
import { formatDiff } from '../contract/diff/report.js';
import { formatDiagnostics } from '../contract/diagnostics.js';
import { loadFolder, readSourceText } from '../contract/load.js';
import { type ContractSource, readCanonicalSource } from '../contract/source.js';
import { readArgs, UsageError } from './usage.js';

const notComparable = 2;

/** `callgate diff OLD NEW`: what a change of contracts means, and 1 where a version does not say so. */
export async function diff(args: string[]): Promise<number> {
  const { positionals, values } = readArgs(args, { format: { type: 'string', default: 'human' } }, 2);
  const [oldPath, newPath] = positionals;
  if (oldPath === undefined || newPath === undefined) throw new UsageError('name the old contracts and the new ones; see `callgate help`');
  if (values.format !== 'human' && values.format !== 'json') throw new UsageError('`--format` is `human` or `json`');
  const [old, now] = [readSource(oldPath), readSource(newPath)];
  if (!old || !now) return notComparable;
  const found = diffSources(old, now);
  process.stdout.write(values.format === 'json' ? `${JSON.stringify(found, null, 2)}\n` : formatDiff(found));
  return found.refused ? 1 : 0;
}

/** Of a folder, or of a catalogue's source as it was stored; null when it cannot be compared, which has then been told. */
function readSource(path: string): ContractSource | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) throw new UsageError(`there is nothing at \`${path}\`; name a folder of contracts, or a file with a stored catalogue source`);
  const { source, diagnostics } = stats.isDirectory() ? loadFolder(path) : { source: readStored(path), diagnostics: [] };
  const problems = [...diagnostics, ...comparisonProblems(source)];
  if (problems.length === 0) return source;
  console.error(`\`${path}\` cannot be compared:\n\n${formatDiagnostics(problems, (file) => readSourceText(path, file))}`);
  return null;
}

function readStored(path: string): ContractSource {
  try {
    return readCanonicalSource(readFileSync(path, 'utf8'));
  } catch {
    throw new UsageError(`\`${path}\` is neither a folder nor the stored source of a catalogue`);
  }
}
