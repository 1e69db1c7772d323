/** Everything that a run draws comes from its seed, so that a run can be repeated. */
export interface Random {
  /** From 0 up to, not including, `n`. */
  below(n: number): number;
  between(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<T>(all: readonly T[]): T;
  /** Each with its weight. */
  weighted<T extends string>(weights: Record<T, number>): T;
}

/** mulberry32. */
export function seeded(seed: number): Random {
  let a = seed | 0;
  const next = (): number => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number): number => Math.floor(next() * n);
  return {
    below,
    between: (least, most) => least + below(most - least + 1),
    chance: (probability) => next() < probability,
    pick: (all) => all[below(all.length)] as (typeof all)[number],
    weighted(weights) {
      const entries = Object.entries<number>(weights);
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [name, weight] of entries) {
        left -= weight;
        if (left < 0) return name as keyof typeof weights;
      }
      return entries[0]?.[0] as keyof typeof weights;
    },
  };
}
