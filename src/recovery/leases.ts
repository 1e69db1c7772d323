/** Leases of what this process works on, renewed together. One that was taken over is not won back; its fence has moved on. */
export interface Held { tenant: string; id: string; fence: number }

const idleLookMs = 10;

export class Leases {
  private readonly held = new Map<string, Held & { since: number }>();
  private readonly timer: NodeJS.Timeout;

  /** @param renew must not throw for a database that is away: the lease then runs out, which is safe. */
  constructor(private readonly leaseMs: number, private readonly renew: (held: Held[]) => Promise<void>) {
    this.timer = setInterval(() => void this.renewOld(), leaseMs / 3);
    this.timer.unref();
  }

  /** Resolves when nothing is worked on any more, or after `ms`. */
  async idle(ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (this.held.size > 0 && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, idleLookMs));
  }

  hold = (operation: Held): (() => void) => {
    const key = `${operation.tenant}\n${operation.id}\n${operation.fence}`;
    this.held.set(key, { ...operation, since: performance.now() });
    return () => this.held.delete(key);
  };

  stop(): void {
    clearInterval(this.timer);
  }

  /** Most operations end long before their lease is old: only the long ones cost a statement. */
  private async renewOld(): Promise<void> {
    const now = performance.now();
    const old = [...this.held.values()].filter(({ since }) => now - since > this.leaseMs / 4);
    if (old.length > 0) await this.renew(old);
  }
}
