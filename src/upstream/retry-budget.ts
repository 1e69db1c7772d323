/**
 * How much of the traffic to one domain service may be sent again (semantics.md section 5): each first send earns a share of a retry, and
 * a little comes with time, so that a quiet service can be tried again at all. Many small retry loops cannot become one storm that keeps
 * a struggling service down.
 */
export class RetryBudget {
  private tokens = retriesAtOnce;
  private filledAt: number;

  constructor(private readonly ratio: number, private readonly now: () => number) {
    this.filledAt = now();
  }

  earn(): void {
    this.fill(this.ratio);
  }

  /** False: no retry is left now. */
  spend(): boolean {
    this.fill(0);
    if (this.tokens < 1) return false;
    this.tokens--;
    return true;
  }

  private fill(more: number): void {
    const now = this.now();
    this.tokens = Math.min(retriesAtOnce, this.tokens + more + ((now - this.filledAt) / 1000) * retriesPerSecond);
    this.filledAt = now;
  }
}

export const retriesAtOnce = 10;
export const retriesPerSecond = 1;
