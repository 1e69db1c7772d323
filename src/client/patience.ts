/** How long, and how often, one call of the client goes on. */

export interface Limits {
  /** Requests that may be made besides those that were answered and only asked how an operation stands. */
  attempts: number;
  /** For how long requests without an answer are made again, in milliseconds. */
  elapsedMs: number;
}

const firstBackoffMs = 500;
const maxBackoffMs = 10_000;
const lookMs = 250;
const maxLookMs = 4_000;
/** Whoever is told to pause for longer comes back another day. */
const maxPauseMs = 3_600_000;
/** The gateway is asked to wait no longer than this at a time: proxies give up on silent connections after a minute. */
const maxWaitMs = 30_000;

export class Patience {
  private readonly started = performance.now();
  private spent = 0;
  private pauses = 0;
  private looks = 0;

  /** @param waitMs how long the caller waits for an outcome. */
  constructor(private readonly waitMs: number, private readonly limits: Limits) {}

  get attempts(): number {
    return this.spent;
  }

  get elapsedMs(): number {
    return performance.now() - this.started;
  }

  spend(): void {
    this.spent += 1;
  }

  /** For the header Prefer. */
  wait(): number {
    return Math.min(Math.max(0, this.waitMs - this.elapsedMs), maxWaitMs);
  }

  /** Full jitter, on top of what the other side asked for: whoever was told the same pause does not come back at the same moment. */
  pause(askedMs: number | null): number {
    return (askedMs ?? 0) + Math.random() * Math.min(maxBackoffMs, firstBackoffMs * 2 ** this.pauses++);
  }

  /** Before the next look at an operation: never so short that looking becomes spinning, and rarer where the gateway does not say when. */
  look(askedMs: number | null): number {
    const apart = askedMs === null ? Math.min(maxLookMs, lookMs * 2 ** this.looks++) : Math.max(lookMs, askedMs);
    return apart + Math.random() * lookMs;
  }

  /** Whether a request may be made after a pause, when there is something to tell the caller already (`told`), or not yet. */
  allows(pauseMs: number, { told, costs }: { told: boolean; costs: boolean }): boolean {
    const until = told ? this.waitMs : Math.max(this.waitMs, this.limits.elapsedMs);
    return pauseMs <= maxPauseMs && this.elapsedMs + pauseMs < until && (!costs || this.spent < this.limits.attempts);
  }
}

/** True when it slept for the whole time; false when the signal woke it. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
  if (signal?.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const end = (slept: boolean): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', woken);
      resolve(slept);
    };
    const woken = (): void => end(false);
    const timer = setTimeout(() => end(true), ms);
    signal?.addEventListener('abort', woken);
  });
}
