/**
 * Who waits for a flush. Within a tenant first come, first served; tenants take turns, item by item, so that whoever sends a thousand at once waits
 * behind itself and nobody else does.
 */
export interface LineOptions<T> {
  tenant(item: T): string;
  /** Two items that share one of these are never taken together, and keep their order. */
  keys?(item: T): readonly string[];
  /** How many may wait. */
  room: number;
}

/** One tenant at one taking: how far it was looked through, and what must wait for the next. */
interface Turn<T> { tenant: string; items: T[]; at: number; taken: number; later: T[] }

/**
 * How much of what is free a tenant may hold: alone it fills eight ninths of the room, two that do hold eight seventeenths each, and whoever comes next finds
 * some free (dynamic thresholds of shared buffers: Choudhury and Hahne, 1998).
 */
const timesWhatIsFree = 8;

export class Line<T> {
  /** In the order of their turns. */
  private waiting = new Map<string, T[]>();
  private count = 0;

  constructor(private readonly options: LineOptions<T>) {}

  get length(): number {
    return this.count;
  }

  isFullFor(tenant: string): boolean {
    return (this.waiting.get(tenant)?.length ?? 0) >= timesWhatIsFree * (this.options.room - this.count);
  }

  add(item: T): void {
    const tenant = this.options.tenant(item);
    const before = this.waiting.get(tenant);
    if (before) before.push(item);
    else this.waiting.set(tenant, [item]);
    this.count += 1;
  }

  /** The next ones, `most` at most. */
  take(most: number): T[] {
    const batch: T[] = [];
    const held = new Set<string>();
    const turns = [...this.waiting].map(([tenant, items]): Turn<T> => ({ tenant, items, at: 0, taken: 0, later: [] }));
    let left = turns;
    while (left.length > 0 && batch.length < most) left = left.filter((turn) => batch.length < most && this.takeOne(turn, batch, held));
    // Whoever was not reached in the last round comes first in the next.
    turns.sort((a, b) => a.taken - b.taken);
    this.waiting = new Map(turns.filter(({ items, taken }) => taken < items.length).map(({ tenant, items, at, later }) => [tenant, [...later, ...items.slice(at)]]));
    this.count -= batch.length;
    return batch;
  }

  /** @returns whether that tenant may have another one. */
  private takeOne(turn: Turn<T>, batch: T[], held: Set<string>): boolean {
    while (turn.at < turn.items.length) {
      const item = turn.items[turn.at++] as T;
      const keys = this.options.keys?.(item) ?? [];
      const free = !keys.some((key) => held.has(key));
      for (const key of keys) held.add(key);
      if (free) {
        batch.push(item);
        turn.taken += 1;
        return turn.at < turn.items.length;
      }
      turn.later.push(item);
    }
    return false;
  }
}
