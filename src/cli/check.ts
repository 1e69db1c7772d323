import { compileFolder } from '../contract/compile.js';
import { formatDiagnostics } from '../contract/diagnostics.js';
import { readSourceText } from '../contract/load.js';
import { loadPolicies } from '../policy/cedar.js';
import { readArgs } from './usage.js';

/** `callgate check`: every diagnostic of a contracts folder in one run. */
export async function check(args: string[]): Promise<number> {
  const { positionals } = readArgs(args, {}, 1);
  const folder = positionals[0] ?? process.env['CALLGATE_CONTRACTS_FOLDER'] ?? 'contracts';
  const compiled = compileFolder(folder, process.env);
  if ('diagnostics' in compiled) {
    console.error(formatDiagnostics(compiled.diagnostics, (file) => readSourceText(folder, file)));
    return 1;
  }
  const { catalogue } = compiled;
  const policies = loadPolicies(catalogue.policies);
  if ('problems' in policies) {
    for (const { file, line, column, message } of policies.problems) console.error(`${file}:${line ?? 1}:${column ?? 1} ${message}`);
    return 1;
  }
  console.log(`${catalogue.tools.size} tools, ${catalogue.digest}`);
  return 0;
}
