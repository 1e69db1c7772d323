/**
 * The last answers that were asked for again and cannot become other ones, so that a caller who repeats itself many times a second does not ask
 * the ledger each time. Of this process, bounded in number, bytes and age. The ledger stays the authority: what is here is what it said a moment
 * ago, and what its retention or an erasure takes is gone here within that time too.
 */
import type { CallIdentities } from './calls.js';
import type { Operation } from './ports.js';

/** Milliseconds after the ledger was asked; docs/receipts.md promises it. */
export const replaysKeptMs = 1_000;

export interface ReplayBounds { entries: number; bytes: number; keptMs: number }

const defaults: ReplayBounds = { entries: 2_048, bytes: 4 * 1024 * 1024, keptMs: replaysKeptMs };
/** Of the bytes, what one answer may take: a few large ones would leave no room for the others. */
const largestShare = 1 / 16;

interface Kept { operation: Operation; bytes: number; until: number }

export class ReplayMemory {
  /** In the order in which they were kept, which is the order in which their time is over. */
  private readonly kept = new Map<string, Kept>();
  private bytes = 0;
  private ending: NodeJS.Timeout | undefined;

  constructor(private readonly bounds: ReplayBounds = defaults) {}

  get size(): number {
    return this.kept.size;
  }

  /** Undefined: the ledger is to be asked. */
  recall(of: CallIdentities): Operation | undefined {
    if (this.kept.size === 0) return undefined;
    const found = this.kept.get(keyOf(of));
    return found && performance.now() < found.until ? found.operation : undefined;
  }

  /** @param askedAt when the ledger was asked for it, on the clock of `performance.now()`: a slow one cannot stretch its time */
  keep(of: CallIdentities, operation: Operation, askedAt: number): void {
    const bytes = 2 * JSON.stringify(operation.answer).length;
    if (bytes > this.bounds.bytes * largestShare) return;
    const key = keyOf(of);
    this.forget(key);
    this.kept.set(key, { operation, bytes, until: askedAt + this.bounds.keptMs });
    this.bytes += bytes;
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= this.bounds.entries && this.bytes <= this.bounds.bytes) break;
      this.forget(oldest);
    }
    this.ending ??= this.later();
  }

  private forget(key: string): void {
    this.bytes -= this.kept.get(key)?.bytes ?? 0;
    this.kept.delete(key);
  }

  /** What nobody asks for any more is not left in memory either. */
  private later(): NodeJS.Timeout {
    return setTimeout(() => {
      const now = performance.now();
      for (const [key, { until }] of this.kept) {
        if (until > now) break;
        this.forget(key);
      }
      this.ending = this.kept.size > 0 ? this.later() : undefined;
    }, this.bounds.keptMs).unref();
  }
}

/** Who asks is in the identities, and what is asked in the fingerprint: nobody recalls what was told to somebody else, or to another question. */
function keyOf({ callKey, fingerprint, operation }: CallIdentities): string {
  return `${(callKey ?? operation).toString('latin1')}${fingerprint.toString('latin1')}${operation.toString('latin1')}`;
}
