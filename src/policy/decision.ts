/** What the gate asks of policy, and what it is told. Pure data; `cedar.ts` decides. */
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
  decide(request: PolicyRequest): PolicyDecision;
}
