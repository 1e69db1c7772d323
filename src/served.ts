/** A contracts folder, compiled with its policies into what is served. Whatever stands against it is told whole. */
import { compileFolder } from './contract/compile.js';
import type { ContractDefaults } from './contract/defaults.js';
import { formatDiagnostics } from './contract/diagnostics.js';
import { loadPolicyFolder, readSourceText } from './contract/load.js';
import { addressProblems } from './contract/upstream-addresses.js';
import { limitProblems, type ViewLimits } from './contract/views/limits.js';
import type { Served } from './gate/served.js';
import { loadPolicies } from './policy/cedar.js';
import type { PolicyEngine } from './policy/decision.js';
import { readPolicies } from './policy/read.js';
import { type PolicySchema, policySchemaOf } from './policy/schema.js';
import { type Difference, shadowedBy } from './policy/shadow.js';
import { strictProblems } from './policy/strict.js';

export interface ServedOptions {
  folder: string;
  env: NodeJS.ProcessEnv;
  defaults: ContractDefaults;
  /** How much the views of the dialects that agents use may be; a set that is more is not served. */
  limits?: ViewLimits;
  /** What stands against a service's address, in words; a set with one that may not be called is not served. */
  addressProblem?(service: string, origin: string): string | null;
  /** A folder of policies to be asked beside those that decide. They decide nothing, so a set that is wrong is told and left out. */
  shadow?: { folder: string; differs(difference: Difference): void; refused(problem: string): void } | undefined;
}

/** `version` null: the policies are not asked, and `problem` says why. */
export interface ShadowStatus { version: string | null; problem: string | null }

/** @throws Error with all that stands against the set */
export function compileServed(options: ServedOptions): { served: Served; shadow: ShadowStatus | null } {
  const { served, schema } = compile(options);
  const { shadow } = options;
  if (!shadow) return { served, shadow: null };
  try {
    const beside = shadowOf(shadow.folder, schema);
    return { served: { ...served, policy: shadowedBy(beside, served.policy, shadow.differs) }, shadow: { version: beside.version, problem: null } };
  } catch (error) {
    const { message } = error as Error;
    shadow.refused(message);
    return { served, shadow: { version: null, problem: message } };
  }
}

function shadowOf(folder: string, schema: PolicySchema): PolicyEngine {
  const texts = loadPolicyFolder(folder);
  if (texts.length === 0) throw new Error(`there is no \`.cedar\` file in ${folder}`);
  const { policies, problems } = readPolicies(texts);
  const wrong = problems.length > 0 ? problems : strictProblems(policies, schema);
  if (wrong.length > 0) throw new Error(wrong.map(({ file, line, column, message }) => `${file}:${line}:${column} ${message}`).join('\n'));
  return loadPolicies(texts, schema);
}

function compile({ folder, env, defaults, limits = {}, addressProblem = () => null }: ServedOptions): { served: Served; schema: PolicySchema } {
  const compiled = compileFolder(folder, env, defaults);
  if ('diagnostics' in compiled) {
    throw new Error(`the contracts in ${folder} do not compile:\n${formatDiagnostics(compiled.diagnostics, (file) => readSourceText(folder, file))}`);
  }
  const { catalogue } = compiled;
  const over = limitProblems(catalogue, limits);
  if (over.length > 0) throw new Error(`the contracts in ${folder} are more than \`contracts.view_limits\` admits:\n${formatDiagnostics(over, () => undefined)}`);
  const barred = addressProblems(folder, catalogue, addressProblem);
  if (barred.length > 0) throw new Error(`the contracts in ${folder} name addresses that may not be called:\n${formatDiagnostics(barred, (file) => readSourceText(folder, file))}`);
  const schema = policySchemaOf(catalogue.tools.values());
  return { served: { catalogue, policy: loadPolicies(catalogue.policies, schema) }, schema };
}
