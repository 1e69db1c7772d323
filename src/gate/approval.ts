/** What exactly is approved, and how it is put before a person. Pure. */
import { canonicalText, sha256 } from '../canonical.js';
import { type ApprovalRule, EvaluationError, type ToolPlan } from '../contract/plan.js';
import type { JsonObject } from '../model.js';
import type { Dossier, Operation } from './ports.js';

/**
 * Of the final arguments and what is bound to the principal, the contract, the subject, the policies, the bytes that will be sent, and the
 * rule itself. It is worked out again before the call is sent: whatever of this has changed is not what was approved.
 */
export function approvalDigest(
  { tenant, id, subject, contractDigest, dossier }: Pick<Operation, 'tenant' | 'id' | 'subject' | 'contractDigest'> & { dossier: Pick<Dossier, 'args' | 'bound' | 'request'> },
  policyVersion: string, { by, approvals }: Pick<ApprovalRule, 'by' | 'approvals'>,
): string {
  const { args, bound, request } = dossier;
  return `sha256:${sha256(canonicalText([
    'approval', tenant, id, subject, contractDigest, policyVersion, args, bound, request === null ? null : { ...request }, by, approvals,
  ])).toString('hex')}`;
}

/** As the contract words it, else the tool with its arguments; in both from what is proposed alone. */
export function approvalSummary(tool: ToolPlan, { summary }: ApprovalRule, args: JsonObject): string {
  const plain = `${tool.name} ${canonicalText(args)}`;
  try {
    return summary?.render(args) ?? plain;
  } catch (error) {
    if (error instanceof EvaluationError) return plain;
    throw error;
  }
}
