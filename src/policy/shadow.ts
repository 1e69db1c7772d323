/** Policies that decide nothing yet: they are asked beside those that do, about the same calls, and it is told where they would decide otherwise. */
import type { PolicyDecision, PolicyEngine, PolicyRequest } from './decision.js';

export interface Difference { request: PolicyRequest; now: PolicyDecision; would: PolicyDecision }

/** @param differs must not throw; it is called before the call goes on */
export function shadowedBy(shadow: PolicyEngine, engine: PolicyEngine, differs: (difference: Difference) => void): PolicyEngine {
  return {
    ...engine,
    judge(request) {
      const now = engine.judge(request);
      const would = shadow.decide(request);
      if (would.allowed !== now.allowed) differs({ request, now, would });
      return now;
    },
  };
}
