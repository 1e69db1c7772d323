/** What became of each item of a list that one call was about (`partial` of a contract): a function of the arguments and the result alone. */
import { EvaluationError, type Scope, type ToolPlan } from '../contract/plan.js';
import type { ItemOutcome, Json } from '../model.js';

export interface ItemOutcomes {
  /** Failed ones first, within each kind in the order of the list. */
  items: ItemOutcome[];
  counts: { total: number; committed: number; failed: number };
}

/** `unreadable`: the effect may have happened, and to which items is not known. Null: the contract speaks of no items. */
export function itemOutcomes({ partial }: ToolPlan, scope: Scope, result: Json): ItemOutcomes | 'unreadable' | null {
  if (!partial) return null;
  try {
    const seen = { ...scope, result };
    const keys = (partial.keys.evaluate(seen) as Json[]).map(String);
    const failed = partial.failed.evaluate(seen) as boolean[];
    if (keys.length !== failed.length || new Set(keys).size !== keys.length) return 'unreadable';
    const items = keys.map((key, index): ItemOutcome => ({ key, outcome: failed[index] ? 'failed' : 'committed' }));
    const [bad, good] = [items.filter(({ outcome }) => outcome === 'failed'), items.filter(({ outcome }) => outcome === 'committed')];
    return { items: [...bad, ...good], counts: { total: items.length, committed: good.length, failed: bad.length } };
  } catch (error) {
    if (error instanceof EvaluationError) return 'unreadable';
    throw error;
  }
}
