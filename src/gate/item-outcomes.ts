/** What became of each item of a list that one call was about (`partial` of a contract): a function of the arguments and the result alone. */
import { EvaluationError, type Scope, type ToolPlan } from '../contract/plan.js';
import type { ItemOutcome, Json, JsonObject } from '../model.js';

export interface ItemOutcomes {
  /** Failed ones first, then those that are not known, within each kind in the order of the list. */
  items: ItemOutcome[];
  counts: { total: number; committed: number; failed: number; unknown: number };
}

/**
 * `unreadable`: the effect may have happened, and to which items is not known. Null: the contract speaks of no items.
 * @param before what was known of the same call already: an item that was done stays done, whatever a later answer says of it
 */
export function itemOutcomes({ partial }: ToolPlan, scope: Scope, result: Json, before?: ItemOutcomes): ItemOutcomes | 'unreadable' | null {
  if (!partial) return null;
  const seen = { ...scope, result };
  return orUnreadable(() => {
    const keys = (partial.keys.evaluate(seen) as Json[]).map(String);
    const failed = partial.failed.evaluate(seen) as boolean[];
    const unknown = (partial.unknown?.evaluate(seen) ?? []) as boolean[];
    if (keys.length !== failed.length || new Set(keys).size !== keys.length) return 'unreadable';
    const done = new Set(before?.items.filter(({ outcome }) => outcome === 'committed').map(({ key }) => key));
    return sorted(keys.map((key, n) => ({ key, outcome: done.has(key) ? 'committed' : unknown[n] ? 'unknown' : failed[n] ? 'failed' : 'committed' })));
  });
}

/** Of a call whose answer was lost. Null where the arguments alone do not tell its items. */
export function allUnknown({ partial }: ToolPlan, scope: Scope): ItemOutcomes | null {
  if (!partial?.at) return null;
  const keys = orUnreadable(() => (partial.keys.evaluate(scope) as Json[]).map(String));
  return keys === 'unreadable' ? null : sorted(keys.map((key) => ({ key, outcome: 'unknown' })));
}

/** Of what is not settled yet, or was verified later: what was known of its items before. */
export function knownItems({ operation }: { operation: { answer: JsonObject | null } }): ItemOutcomes | undefined {
  return operation.answer?.['partial'] as unknown as ItemOutcomes | undefined;
}

/** Each item is either done or not. */
export function settlesItems(tool: ToolPlan, scope: Scope, result: Json): boolean {
  const found = itemOutcomes(tool, scope, result);
  return found === null || (found !== 'unreadable' && found.counts.unknown === 0);
}

/** An item that is not done may be, if the same request is sent again. */
export function mayDoMore({ partial }: ToolPlan, scope: Scope, result: Json, { items }: ItemOutcomes): boolean {
  if (!partial?.retry) return false;
  const { keys, retry } = partial;
  const seen = { ...scope, result };
  const failed = new Set(items.filter(({ outcome }) => outcome === 'failed').map(({ key }) => key));
  const found = orUnreadable(() => {
    const again = retry.evaluate(seen) as boolean[];
    return (keys.evaluate(seen) as Json[]).some((key, n) => again[n] && failed.has(String(key)));
  });
  return found === true;
}

function sorted(items: ItemOutcome[]): ItemOutcomes {
  const [failed, unknown, committed] = (['failed', 'unknown', 'committed'] as const).map((kind) => items.filter(({ outcome }) => outcome === kind)) as [ItemOutcome[], ItemOutcome[], ItemOutcome[]];
  return {
    items: [...failed, ...unknown, ...committed],
    counts: { total: items.length, committed: committed.length, failed: failed.length, unknown: unknown.length },
  };
}

function orUnreadable<T>(evaluate: () => T): T | 'unreadable' {
  try {
    return evaluate();
  } catch (error) {
    if (error instanceof EvaluationError) return 'unreadable';
    throw error;
  }
}
