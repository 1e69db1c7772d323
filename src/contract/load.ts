/** Reads a contracts folder: the only file of this room that touches the disk. */
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join, posix, relative, sep } from 'node:path';
import { diagnostic, type Diagnostic } from './diagnostics.js';
import type { ContractSource, PolicyText, SourceFile } from './source.js';
import { parseContractFile } from './yaml-file.js';

/** Cases that policies are tested with (docs/policies.md) may lie beside the contracts, and are none. */
export function isCaseFile(name: string): boolean {
  return /\.cases\.ya?ml$/.test(name);
}

/** Every `.yaml`, `.yml` and `.json` of the folder itself, in the order of their names, and the policies that they name. */
export function loadFolder(dir: string): { source: ContractSource; diagnostics: Diagnostic[] } {
  const diagnostics: Diagnostic[] = [];
  const files: SourceFile[] = [];
  const names = contractNames(dir);
  if (names.length === 0) diagnostics.push(diagnostic('.', { line: 1, column: 1 }, 'CG011', `there is no contract in \`${dir}\``));
  for (const name of names) {
    const parsed = parseContractFile(name, readFileSync(join(dir, name), 'utf8'));
    if ('source' in parsed) files.push(parsed.source);
    else diagnostics.push(...parsed.diagnostics);
  }
  const policies = new Map<string, PolicyText>();
  for (const file of files) {
    for (const [path, named] of policyNames(file)) {
      const policy = readPolicy(dir, file.file, named);
      if (policy) policies.set(policy.file, policy);
      else
        diagnostics.push(
          diagnostic(
            file.file,
            file.valuePosition(path),
            'CG008',
            `the policy file \`${named}\` cannot be read inside the contracts folder`,
          ),
        );
    }
  }
  return { source: { files, policies: [...policies.values()].sort((a, b) => (a.file < b.file ? -1 : 1)) }, diagnostics };
}

/** A file's text for `formatDiagnostics`; undefined when it is gone. */
export function readSourceText(dir: string, file: string): string | undefined {
  try {
    return readFileSync(join(dir, file), 'utf8');
  } catch {
    return undefined;
  }
}

/** Every `.cedar` of a folder of policies without contracts. @throws Error when it cannot be read */
export function loadPolicyFolder(dir: string): PolicyText[] {
  const names = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.cedar')).sort();
  return names.map((name) => ({ file: name.split(sep).join(posix.sep), text: readFileSync(join(dir, name), 'utf8') }));
}

function contractNames(dir: string): string[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isFile() && /^[^.].*\.(ya?ml|json)$/.test(entry.name) && !isCaseFile(entry.name))
      .map((entry) => entry.name)
      .sort();
  } catch {
    return [];
  }
}

function policyNames(file: SourceFile): [(string | number)[], string][] {
  const document = file.document;
  const named = typeof document === 'object' && document !== null && !Array.isArray(document) ? document['policies'] : undefined;
  if (typeof named === 'string') return [[['policies'], named]];
  if (!Array.isArray(named)) return [];
  return named.flatMap((name, index) => (typeof name === 'string' ? [[['policies', index], name] as [(string | number)[], string]] : []));
}

/** Null when it does not exist or lies outside the folder, symbolic links followed. */
function readPolicy(dir: string, contract: string, named: string): PolicyText | null {
  try {
    const root = realpathSync(dir);
    const path = realpathSync(join(root, dirname(contract), named));
    if (!path.startsWith(root + sep)) return null;
    return { file: relative(root, path).split(sep).join(posix.sep), text: readFileSync(path, 'utf8') };
  } catch {
    return null;
  }
}
