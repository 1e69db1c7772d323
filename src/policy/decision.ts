/** What is asked of policy, and what it answers. `cedar.ts` decides. */
import type { JsonObject, Principal } from '../model.js';

export interface PolicyRequest {
  principal: Principal;
  /** The end user of this call, or null. */
  subject: string | null;
  purpose: string | null;
  /** The tool's name. */
  action: string;
  /**
   * `tool`: may this principal use the tool at all (resource `Tool::"name"`).
   * otherwise the entity's name, for instance `order`, with the attributes that were observed.
   */
  resource: { type: string; id: string; attributes: JsonObject };
  /** Validated arguments; none where the tool itself is in question. */
  args: JsonObject;
  /** The session has been told something that may carry injected text. */
  untrusted: boolean;
}

/** Who asks, for whom and for what. '' where there is no subject or purpose. */
export interface Asking { principal: Principal; subject: string; purpose: string; untrusted: boolean }

/** May this principal use the tool at all. */
export function toolQuestion({ principal, subject, purpose, untrusted }: Asking, tool: { name: string; effect: string }): PolicyRequest {
  return {
    principal, subject: subject || null, purpose: purpose || null, action: tool.name,
    resource: { type: 'Tool', id: tool.name, attributes: { effect: tool.effect } }, args: {}, untrusted,
  };
}

/** May it do this, on this resource, with these arguments. */
export function resourceQuestion({ principal, subject, purpose, untrusted }: Asking, action: string, resource: PolicyRequest['resource'], args: JsonObject): PolicyRequest {
  return { principal, subject: subject || null, purpose: purpose || null, action, resource, args, untrusted };
}

export interface PolicyDecision {
  allowed: boolean;
  /** Ids of the policies that decided. */
  determining: string[];
  /** Ids or texts of policies that failed to evaluate; not empty means denied (an erroring forbid must never permit). */
  errors: string[];
}

export interface PolicyEngine {
  /** `sha256:…` of the policy texts. */
  readonly version: string;
  /** Of the policies that can apply to an action. */
  idsFor(action: string): readonly string[];
  /** Also for what is only listed or looked into beforehand. */
  decide(request: PolicyRequest): PolicyDecision;
  /** The same, as the verdict over a call. */
  judge(request: PolicyRequest): PolicyDecision;
}
