/** Policies in strict mode, against a schema of what the contracts let them be asked about. */
import { policySchemaOf } from '../policy/schema.js';
import { type StrictKind, strictProblems } from '../policy/strict.js';
import type { Policy } from '../policy/read.js';
import { diagnostic, type DiagnosticCode } from './diagnostics.js';
import type { Findings } from './findings.js';
import type { Tools } from './tool-entry.js';

const codes: Record<StrictKind, DiagnosticCode> = { unknown: 'CG504', type: 'CG505', unguarded: 'CG506', never: 'CG507', uncarried: 'CG508' };

/** What a tool or an entity does not have because it did not compile was reported there. */
export function checkPolicies(policies: readonly Policy[], { entries }: Tools, findings: Findings): void {
  const whole = [...entries.values()].every(({ args, admitResult, source, plan }) => args && admitResult && (source.entity === undefined || (plan.entity && (!plan.entity.observation || plan.entity.observation.tool))));
  if (!whole) return;
  const schema = policySchemaOf([...entries.values()].map(({ plan }) => plan));
  for (const problem of strictProblems(policies, schema)) {
    findings.list.push(diagnostic(problem.file, problem, codes[problem.kind], problem.message));
  }
}
