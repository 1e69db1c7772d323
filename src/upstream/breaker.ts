/**
 * Keeps calls from a domain service that does not work, and finds out cheaply when it does again.
 *
 *   closed ──failures in a row──► open ──openMs──► half-open ──a probe succeeds──► closed
 *                                  ▲                  │
 *                                  └──a probe fails───┘
 *
 * A probe is one exchange alone, and never a write that the service would carry out twice: a read, or a write under a key that it honours. Read-backs
 * are what settles open operations, so they may probe before the time, one by one. They are asked over and over for one operation: that they
 * fail opens nothing and keeps nobody else from probing.
 */

/** What a call would send. `write`: one without an honoured key. */
export type Traffic = 'write' | 'keyed_write' | 'read' | 'read_back';
export type BreakerState = 'closed' | 'open' | 'half_open';
/** What an exchange says of the health of the service; `nothing` where it was not asked. */
export type Health = 'up' | 'down' | 'nothing';

export interface BreakerOptions {
  /** In a row, that open it. */
  failures: number;
  openMs: number;
  now(): number;
  changed(state: BreakerState): void;
}

/** Of `openMs`: where nothing came that may probe for so long, nothing will, and a write goes as if nothing were known. */
const unprobedTimes = 10;

export class Breaker {
  private state: BreakerState = 'closed';
  private failures = 0;
  private openUntil = 0;
  private readonly probing = { call: false, read_back: false };
  /** Grows with each change between closed and open: what was sent before says nothing afterwards. */
  private era = 0;

  constructor(private readonly options: BreakerOptions) {}

  /** Milliseconds until it is worth asking again; 0: `enter` lets it in now. */
  shutForMs(traffic: Traffic): number {
    if (this.state === 'closed') return 0;
    const { openMs, now } = this.options;
    const left = this.openUntil - now();
    if (traffic === 'read_back') return this.probing.read_back ? openMs : 0;
    if (traffic === 'write') return left + unprobedTimes * openMs <= 0 && !this.probing.call ? 0 : Math.max(left, 0) + openMs;
    return left > 0 ? left : this.probing.call ? openMs : 0;
  }

  /** To be asked in the tick in which `shutForMs` said 0. The returned function takes what the exchange said, once. */
  enter(traffic: Traffic): (health: Health) => void {
    if (this.state !== 'closed' && traffic === 'write') this.close(this.options.failures - 1);
    const { era } = this;
    const slot = traffic === 'read_back' ? 'read_back' : 'call';
    if (this.state === 'closed') return (health) => { if (era === this.era) this.count(slot, health); };
    this.probing[slot] = true;
    if (slot === 'call') this.become('half_open');
    return (health) => { if (era === this.era) this.probed(slot, health); };
  }

  private count(slot: 'call' | 'read_back', health: Health): void {
    if (health === 'up') this.failures = 0;
    else if (health === 'down' && slot === 'call' && ++this.failures >= this.options.failures) this.open();
  }

  private probed(slot: 'call' | 'read_back', health: Health): void {
    this.probing[slot] = false;
    if (health === 'up') this.close(0);
    else if (health === 'down' && slot === 'call') this.open();
  }

  private open(): void {
    if (this.state === 'closed') this.era++;
    this.openUntil = this.options.now() + this.options.openMs;
    this.become('open');
  }

  private close(failures: number): void {
    this.era++;
    this.failures = failures;
    this.probing.call = this.probing.read_back = false;
    this.become('closed');
  }

  private become(state: BreakerState): void {
    if (this.state === state) return;
    this.state = state;
    this.options.changed(state);
  }
}
