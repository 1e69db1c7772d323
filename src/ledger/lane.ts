/**
 * One flush in flight: everything that waits goes into the next one, and an idle lane flushes at once. So concurrent
 * calls share commits without a timer, and the batch grows exactly as the database is slower than the callers.
 *
 * Rejected: several lanes, a timer, a fast path for single rows; measured without gain (performance.md, "What was learnt").
 */
import { LedgerUnavailable } from '../errors.js';
import { Line } from './line.js';

interface Waiting<T, R> { item: T; resolve(result: R): void; reject(error: unknown): void }

/** `unavailable`: the database; `contention`: this moment (serialization, deadlock); `row`: one of the items. */
export type ErrorKind = 'unavailable' | 'contention' | 'row';

export interface LaneOptions<T, R> {
  /** Makes the whole batch durable, or throws and leaves nothing. Results in the order of the items. Must be safe to repeat. */
  flush(items: T[]): Promise<R[]>;
  /** Whose it is: tenants take turns. */
  tenant(item: T): string;
  /** Two items that share one of these never go into the same flush. */
  keys?(item: T): readonly string[];
  kind(error: unknown): ErrorKind;
  /** In words for the operator. */
  ailment?(error: unknown): string | undefined;
  maxBatch: number;
  /** Items beyond this are refused at once, before anything was sent; a single tenant may hold eight ninths of it. */
  maxQueue: number;
  observed?(rows: number, seconds: number): void;
  /** Before each try again. */
  retried?(because: ErrorKind): void;
}

/** A database that is away is told soon; transactions that lost against others come through, if not at once. */
const retryDelaysMs: Readonly<Record<ErrorKind, readonly number[]>> = { unavailable: [5, 50, 250], contention: [5, 15, 40, 80, 160, 320], row: [] };

/**
 * Resolves before the next try of what failed for the n-th time. False: there is none, or it would fail again.
 * @param n from 0
 */
export async function mayTryAgain(because: ErrorKind, n: number): Promise<boolean> {
  const delay = retryDelaysMs[because][n];
  if (delay === undefined) return false;
  await new Promise((resolve) => setTimeout(resolve, delay * (0.5 + Math.random() / 2)));
  return true;
}

export class Lane<T, R> {
  private readonly line: Line<Waiting<T, R>>;
  private running = false;

  constructor(private readonly options: LaneOptions<T, R>) {
    const { keys, tenant, maxQueue } = options;
    this.line = new Line({ tenant: ({ item }) => tenant(item), ...(keys ? { keys: ({ item }) => keys(item) } : {}), room: maxQueue });
  }

  get depth(): number {
    return this.line.length;
  }

  /** @param always true for what must not be refused for want of room: the outcome of something already sent. */
  add(item: T, always = false): Promise<R> {
    if (!always && this.line.isFullFor(this.options.tenant(item))) {
      return Promise.reject(new LedgerUnavailable(new Error(`${this.line.length} commits are waiting`)));
    }
    return new Promise<R>((resolve, reject) => {
      this.line.add({ item, resolve, reject });
      if (!this.running) {
        this.running = true;
        queueMicrotask(() => void this.drain());
      }
    });
  }

  private async drain(): Promise<void> {
    while (this.line.length > 0) {
      const batch = this.line.take(this.options.maxBatch);
      const started = performance.now();
      await this.settle(batch);
      this.options.observed?.(batch.length, (performance.now() - started) / 1000);
    }
    this.running = false;
  }

  /** The whole batch, again where that may help, then one by one, so that one bad row never fails its neighbours. */
  private async settle(batch: Waiting<T, R>[]): Promise<void> {
    const failure = await this.attempt(batch);
    if (!failure) return;
    if (batch.length === 1 || this.options.kind(failure.error) === 'unavailable') {
      for (const waiting of batch) waiting.reject(this.named(failure.error));
      return;
    }
    for (const waiting of batch) {
      const alone = await this.attempt([waiting]);
      if (alone) waiting.reject(this.named(alone.error));
    }
  }

  private async attempt(batch: Waiting<T, R>[]): Promise<{ error: unknown } | undefined> {
    for (let n = 0; ; n++) {
      try {
        const results = await this.options.flush(batch.map((waiting) => waiting.item));
        batch.forEach((waiting, i) => waiting.resolve(results[i] as R));
        return undefined;
      } catch (error) {
        const because = this.options.kind(error);
        if (!(await mayTryAgain(because, n))) return { error };
        this.options.retried?.(because);
      }
    }
  }

  private named(error: unknown): unknown {
    return this.options.kind(error) === 'row' ? error : new LedgerUnavailable(error, this.options.ailment?.(error));
  }
}
