import type { Catalogue } from '../contract/plan.js';
import type { PolicyEngine } from '../policy/decision.js';

/** One set of contracts with the policies that came with it. A call keeps the one that it began with. */
export interface Served {
  catalogue: Catalogue;
  policy: PolicyEngine;
}
