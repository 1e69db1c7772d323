/**
 * Statements that are put together of what their rows need: a part that none of them needs is paid all the same (docs/performance.md, "What was learnt").
 * A part is there for a whole flush or not at all, so there are few texts, each prepared under a name of its own.
 */
import type { LaneStatement } from './pipeline.js';

export type Has<Part extends string> = Readonly<Record<Part, boolean>>;
type Text = Omit<LaneStatement, 'values'>;

/** @param needs which rows need a part; for all others it must be one that does nothing */
export function inParts<Part extends string, Item>(
  name: string, needs: Readonly<Record<Part, (item: Item) => boolean>>, text: (has: Has<Part>) => string,
): (items: readonly Item[]) => Text {
  const parts = Object.keys(needs) as Part[];
  const known = new Map<string, Text>();
  return (items) => {
    const needed = parts.filter((part) => items.some(needs[part]));
    const variant = [name, ...needed].join('_');
    const statement = known.get(variant) ?? { name, variant, text: text(Object.fromEntries(parts.map((part) => [part, needed.includes(part)])) as Has<Part>) };
    known.set(variant, statement);
    return statement;
  };
}
