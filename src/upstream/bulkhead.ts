import type { Signal } from '../signal.js';

/**
 * Places at one domain service: as many calls as its contract allows at a time, and a bounded line of those who wait, in their order. A service
 * that does not answer fills its own places and its own line, and nobody else's.
 */
export class Bulkhead {
  private taken = 0;
  private limit = 0;
  private readonly line = new Set<() => void>();

  constructor(private readonly maxWaiting: number) {}

  /** @param until on the clock of `performance.now()`. Undefined: no place within it or before `signal`, or too many wait already. */
  async enter(limit: number, until: number, signal?: Signal): Promise<'entered' | 'waited' | undefined> {
    this.limit = limit;
    if (this.taken < limit && this.line.size === 0) {
      this.taken++;
      return 'entered';
    }
    const patienceMs = until - performance.now();
    if (patienceMs <= 0 || signal?.aborted || this.line.size >= this.maxWaiting) return undefined;
    return (await this.wait(patienceMs, signal)) ? 'waited' : undefined;
  }

  leave(): void {
    this.taken--;
    for (const next of this.line) {
      if (this.taken >= this.limit) return;
      this.line.delete(next);
      this.taken++;
      next();
    }
  }

  private wait(ms: number, signal: Signal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const next = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
        resolve(true);
      };
      // Whoever gives up is out of the line at once, so that no place is ever given to somebody who has left.
      const giveUp = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
        this.line.delete(next);
        resolve(false);
      };
      const timer = setTimeout(giveUp, ms);
      signal?.addEventListener('abort', giveUp);
      this.line.add(next);
    });
  }
}
