/** One version of the domain: its contracts as compiled, its policies, and worlds over its data. */
import { fileURLToPath } from 'node:url';
import type { Edition } from '../../examples/tau-retail/domain/records.js';
import { Refused } from '../../examples/tau-retail/domain/refused.js';
import { type RetailData, Store } from '../../examples/tau-retail/domain/store.js';
import { run } from '../../examples/tau-retail/domain/tools.js';
import { compileFolder } from '../../src/contract/compile.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import type { Json } from '../../src/model.js';
import { loadPolicies } from '../../src/policy/cedar.js';
import type { PolicyEngine } from '../../src/policy/decision.js';
import { policySchemaOf } from '../../src/policy/schema.js';
import { catalogueOf } from '../contract/fixture.js';
import type { World } from './decide.js';

export interface Compiled {
  edition: Edition;
  policy: PolicyEngine;
  tool(name: string): ToolPlan;
}

export function compiled(edition: Edition): Compiled {
  const folder = fileURLToPath(new URL(`../../examples/tau-retail/contracts/${edition}`, import.meta.url));
  const { tools, policies } = catalogueOf(compileFolder(folder, {}));
  return {
    edition,
    policy: loadPolicies(policies, policySchemaOf(tools.values())),
    tool: (name) => {
      const plan = tools.get(name);
      if (!plan) throw new Error(`the contracts of ${edition} have no tool ${name}`);
      return plan;
    },
  };
}

export function worldOf({ policy }: Compiled, store: Store, subject: string | null): World {
  return {
    policy,
    subject,
    read: (tool, args) => {
      const outcome = attempt(store, tool, args);
      return 'refused' in outcome ? undefined : outcome.result;
    },
  };
}

/** What the store itself does: the other party to each comparison. */
export function attempt(store: Store, tool: string, args: Record<string, unknown>): { result: Json } | { refused: string } {
  try {
    return { result: run(store, tool, args) as Json };
  } catch (thrown) {
    if (!(thrown instanceof Refused)) throw thrown;
    return { refused: thrown.code };
  }
}

export function freshStore({ edition }: Compiled, data: RetailData): Store {
  return new Store(edition, data);
}
