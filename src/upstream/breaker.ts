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
 *
 * Where only writes without an honoured key come, the probe is a knock: a connection, over which nothing is sent. It says less than an exchange, so
 * where a better probe has ever come it is waited for much longer. That it is accepted closes the breaker on sufferance: the next failure opens it,
 * and each time nothing but a knock spoke for the service the next one waits twice as long.
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

/** Of `openMs`, between an opening and a knock. */
const knockTimesAtMost = 16;
const betterProbeTimes = 10;

export class Breaker {
  private state: BreakerState = 'closed';
  private failures = 0;
  private openUntil = 0;
  private readonly probing = { call: false, read_back: false };
  /** Grows with each change between closed and open: what was sent before says nothing afterwards. */
  private era = 0;
  private knockFrom = 0;
  /** A read, or a write under an honoured key, was sent once: another may come. */
  private probesCome = false;
  /** Doubles while nothing but knocks speaks for the service. */
  private knockTimes = 1;

  constructor(private readonly options: BreakerOptions) {}

  /** Milliseconds until it is worth asking again; 0: `enter` lets it in now. */
  shutForMs(traffic: Traffic): number {
    if (this.state === 'closed') return 0;
    const { openMs, now } = this.options;
    const left = this.openUntil - now();
    if (traffic === 'read_back') return this.probing.read_back ? openMs : 0;
    if (traffic === 'write') return Math.max(left, 0) + openMs;
    return left > 0 ? left : this.probing.call ? openMs : 0;
  }

  /** To be asked in the tick in which `shutForMs` said 0. The returned function takes what the exchange said, once. */
  enter(traffic: Traffic): (health: Health) => void {
    if (traffic === 'read' || traffic === 'keyed_write') this.probesCome = true;
    const { era } = this;
    const slot = traffic === 'read_back' ? 'read_back' : 'call';
    if (this.state === 'closed') return (health) => { if (era === this.era) this.count(slot, health); };
    this.probing[slot] = true;
    if (slot === 'call') this.become('half_open');
    return (health) => { if (era === this.era) this.probed(slot, health); };
  }

  /** Somebody is there for whom nothing else may probe: is it time for a connection? */
  mayKnock(): boolean {
    return this.state !== 'closed' && this.knockFrom <= this.options.now() && !this.probing.call;
  }

  /** To be asked in the tick in which `mayKnock` said true. The returned function takes whether the service accepted, once. */
  knock(): (accepted: boolean) => void {
    const { era } = this;
    this.probing.call = true;
    this.become('half_open');
    return (accepted) => {
      if (era !== this.era) return;
      this.probing.call = false;
      if (!accepted) return this.open();
      this.knockTimes = Math.min(2 * this.knockTimes, knockTimesAtMost);
      this.close(this.options.failures - 1);
    };
  }

  private count(slot: 'call' | 'read_back', health: Health): void {
    if (health === 'up') {
      this.failures = 0;
      this.knockTimes = 1;
    }
    if (health === 'down' && slot === 'call' && ++this.failures >= this.options.failures) this.open();
  }

  private probed(slot: 'call' | 'read_back', health: Health): void {
    this.probing[slot] = false;
    if (health === 'up') {
      this.knockTimes = 1;
      this.close(0);
    }
    if (health === 'down' && slot === 'call') this.open();
  }

  private open(): void {
    if (this.state === 'closed') this.era++;
    this.openUntil = this.options.now() + this.options.openMs;
    this.knockFrom = this.options.now() + this.knockTimes * (this.probesCome ? betterProbeTimes : 1) * this.options.openMs;
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
