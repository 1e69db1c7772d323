/**
 * What this replica may let in of one caller. Over all replicas the bounds hold by what Redis lends: places until they are given back or their
 * lease ends, tokens for a moment. A few idle places are kept, so that a call is let in without asking anybody; where another replica lacks them
 * they are called back. Without Redis this replica goes by its own share of the bounds: never without a bound, never with a closed door.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { SharedBounds } from '../ports.js';

/** 0: no bound. */
export interface CallerBound { perSecond: number; atOnce: number }

export interface Denial {
  bound: 'rate' | 'concurrency';
  /** The bound that it met, which is this replica's own where it decided alone. */
  limit: number;
  alone: boolean;
  retryAfterMs: number;
}

export interface ShareParts {
  shared: SharedBounds | null;
  /** Of a bound, that this replica lets in by itself while it cannot ask. */
  aloneShare: number;
  now(): number;
  /** A request was decided by this replica alone, because Redis did not answer. */
  decidedAlone(): void;
}

const busyMs = 1_000;
/** Until places are there that were called back, or that a replica is just giving back. */
const recallMs = 20;
const pressedMs = 1_000;
/** Tokens that are not used for as long lapse; the bucket has filled again by then. */
const tokensMs = 250;
/** After an answer that did not come, so that not every request waits for one. */
const aloneMs = 1_000;
/** Of a bound: places kept idle, and tokens taken at once. */
const spareOf = 16;
const lotOf = 20;

type Entry = Denial | null;
interface Waiter { answer(entry: Entry): void; tried: boolean }

export class CallerShare {
  private running = 0;
  private held = 0;
  private heldUntil = 0;
  private tokens = 0;
  private tokensUntil = 0;
  private lot = 1;
  private dryUntil = 0;
  private pressedUntil = 0;
  private aloneUntil = 0;
  private asking = false;
  private usedAt: number;
  private waiters: Waiter[] = [];
  private own: { tokens: number; since: number };
  private readonly alone: CallerBound;

  constructor(readonly name: string, private readonly bound: CallerBound, private readonly parts: ShareParts) {
    const ofOwn = (limit: number): number => (limit === 0 ? 0 : Math.max(1, Math.floor(limit * parts.aloneShare)));
    this.alone = { perSecond: ofOwn(bound.perSecond), atOnce: ofOwn(bound.atOnce) };
    this.usedAt = parts.now();
    this.own = { tokens: this.alone.perSecond, since: this.usedAt };
  }

  /** Null: let in, until `leave`. A promise only while others have to be asked. */
  enter(): Entry | Promise<Entry> {
    const now = this.parts.now();
    this.usedAt = now;
    if (!this.parts.shared?.reachable() || now < this.aloneUntil) return this.enterAlone(now);
    if (this.waiters.length === 0 && this.ready(now)) return this.take();
    if (this.tokens < 1 && now < this.dryUntil) return this.dry(now);
    return new Promise((resolve) => {
      this.waiters.push({ answer: resolve, tried: false });
      void this.ask();
    });
  }

  leave(): void {
    this.running -= 1;
    if (this.hasWhatOthersLack()) void this.ask();
  }

  /** It was let in here, and refused elsewhere. */
  undo(): void {
    if (this.parts.now() < this.tokensUntil) this.tokens += 1;
    else this.own.tokens = Math.min(this.alone.perSecond, this.own.tokens + 1);
    this.leave();
  }

  /** Another replica lacks what this one has idle. */
  recalled(): void {
    this.pressedUntil = this.parts.now() + pressedMs;
    if (this.hasWhatOthersLack()) void this.ask();
  }

  /** Before leases end, and when Redis is there again: tells what is held, gives back what is not needed. */
  renew(): void {
    if (this.bound.atOnce > 0 && (this.held > 0 || this.running > 0)) void this.ask();
  }

  /** Whether nothing would be lost if it were forgotten. */
  idleFor(ms: number): boolean {
    return this.running === 0 && this.waiters.length === 0 && !this.asking && this.parts.now() - this.usedAt >= ms;
  }

  private ready(now: number): boolean {
    const { atOnce, perSecond } = this.bound;
    return (atOnce === 0 || (this.running < this.held && now < this.heldUntil)) && (perSecond === 0 || (this.tokens >= 1 && now < this.tokensUntil));
  }

  private take(): null {
    this.running += 1;
    if (this.bound.perSecond === 0) return null;
    this.tokens -= 1;
    if (this.runsLow()) void this.ask();
    return null;
  }

  /** Who asks often takes more at a time, and before it has none. */
  private runsLow(): boolean {
    return this.lot > 1 && this.tokens < this.lot / 2 && this.parts.now() >= this.dryUntil;
  }

  /** One question at a time, for all who came meanwhile: what Redis knows and what is known here are never two things. */
  private async ask(): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    do {
      const asked = this.waiters.splice(0);
      const again = await this.askFor(asked);
      if (again.length > 0) {
        this.waiters.unshift(...again);
        await delay(recallMs);
      }
    } while (this.waiters.length > 0 || this.hasWhatOthersLack());
    this.asking = false;
  }

  private hasWhatOthersLack(): boolean {
    return this.held > this.running && this.parts.now() < this.pressedUntil;
  }

  /** @returns those who lack a place for the first time */
  private async askFor(asked: Waiter[]): Promise<Waiter[]> {
    const { bound, parts } = this;
    const at = parts.now();
    const pressed = at < this.pressedUntil;
    const spare = pressed ? 0 : Math.max(1, Math.floor(bound.atOnce / spareOf));
    this.held = this.running + Math.max(0, Math.min(this.held - this.running, asked.length + spare));
    const places = asked.length === 0 ? 0 : Math.max(0, asked.length + spare - (this.held - this.running));
    const tokens = this.tokensFor(asked.length, at);
    const lent = await parts.shared?.lend(this.name, { keep: this.held, places, tokens, ...bound, recall: asked.length > 0 && !pressed });
    const now = parts.now();
    if (!lent) {
      this.aloneUntil = now + aloneMs;
      for (const { answer } of asked) answer(this.enterAlone(now));
      return [];
    }
    this.held += lent.places;
    this.heldUntil = at + (parts.shared?.leaseMs ?? 0);
    this.tokens += lent.tokens;
    if (lent.tokens > 0) this.tokensUntil = now + tokensMs;
    if (tokens > 0 && lent.tokens === 0) this.dryUntil = now + lent.tokenInMs;
    return asked.filter((waiter) => !this.answered(waiter, now));
  }

  /** @returns false where it is worth trying again */
  private answered(waiter: Waiter, now: number): boolean {
    const busy: Denial = { bound: 'concurrency', limit: this.bound.atOnce, alone: false, retryAfterMs: busyMs };
    const entry = this.ready(now) ? this.take() : this.bound.perSecond > 0 && this.tokens < 1 ? this.dry(now) : busy;
    if (entry === busy) this.pressedUntil = Math.max(this.pressedUntil, now + pressedMs);
    if (entry === busy && !waiter.tried) {
      waiter.tried = true;
      return false;
    }
    waiter.answer(entry);
    return true;
  }

  private tokensFor(asked: number, now: number): number {
    if (this.bound.perSecond === 0) return 0;
    const inTime = now < this.tokensUntil;
    if (!inTime) this.tokens = 0;
    const lacking = asked - this.tokens;
    if (lacking <= 0 && !this.runsLow()) return 0;
    this.lot = inTime ? Math.min(this.lot * 2, Math.max(1, Math.floor(this.bound.perSecond / lotOf))) : 1;
    return Math.max(0, lacking) + this.lot - (lacking > 0 ? 1 : 0);
  }

  private dry(now: number): Denial {
    return { bound: 'rate', limit: this.bound.perSecond, alone: false, retryAfterMs: Math.max(1, Math.ceil(this.dryUntil - now)) };
  }

  private enterAlone(now: number): Entry {
    const { atOnce, perSecond } = this.alone;
    if (this.parts.shared) this.parts.decidedAlone();
    if (atOnce > 0 && this.running >= atOnce) return { bound: 'concurrency', limit: atOnce, alone: true, retryAfterMs: busyMs };
    // a second's worth may come at once
    this.own = { tokens: Math.min(perSecond, this.own.tokens + ((now - this.own.since) / 1000) * perSecond), since: now };
    const untilNextMs = perSecond === 0 ? 0 : Math.ceil(((1 - this.own.tokens) / perSecond) * 1000);
    if (untilNextMs > 0) return { bound: 'rate', limit: perSecond, alone: true, retryAfterMs: untilNextMs };
    this.own.tokens -= 1;
    this.running += 1;
    return null;
  }
}
