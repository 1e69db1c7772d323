/**
 * A call's place in the line for what it wants to change, and its patience. In this process calls on one entity go one after another;
 * over replicas the ledger's guard keys decide, and a lock keeps contenders in line only once there is contention.
 */
import type { Signal } from '../signal.js';
import type { PermittedCall } from './calls.js';
import type { Locks, Operation } from './ports.js';

const firstPollMs = 25;
const maxPollMs = 500;

/** Announced when whoever held the guard key has let go of it. */
export function guardTopic(tenant: string, guardKey: string): string {
  return JSON.stringify([tenant, guardKey]);
}

export class Turn {
  private place: { leave(): void } | undefined;
  private lock: { release(): void } | undefined;
  private polls = 0;
  private handedOver: Promise<unknown> | undefined;
  private readonly key: string | undefined;

  /** @param signal ends its wait in line */
  constructor(private readonly locks: Locks, call: PermittedCall, readonly until: number, private readonly signal?: Signal) {
    const { queue } = call.identity;
    this.key = queue === null ? undefined : guardTopic(call.principal.tenant, queue);
  }

  /** `waited`: others went first, so what was looked up before may be old. */
  async enter(patienceMs = this.left()): Promise<'entered' | 'waited' | 'late'> {
    if (!this.key || this.place) return 'entered';
    const place = await this.locks.enter(this.key, patienceMs, this.signal);
    if (!place) return 'late';
    this.place = place;
    return place.waited ? 'waited' : 'entered';
  }

  /** Somebody on another replica holds it: line up there too, then give that one time to finish. False: patience is over. */
  async contend(): Promise<boolean> {
    if (this.left() <= 0) return false;
    if (!this.lock && this.key) {
      this.lock = await this.locks.contend(this.key, this.left());
      if (!this.lock) return false;
    }
    return this.pause(this.key ?? '');
  }

  /** Waits for news of an open operation. False: patience is over. */
  changed(operation: Operation): Promise<boolean> {
    return this.pause(operation.id);
  }

  /** The rest goes on without the caller, and keeps the place until it is done. */
  handOver(work: Promise<unknown>): void {
    this.handedOver = work;
  }

  /** May be entered again. */
  leave(): void {
    const { place, lock } = this;
    this.place = undefined;
    this.lock = undefined;
    const leave = (): void => {
      place?.leave();
      lock?.release();
    };
    if (this.handedOver) void this.handedOver.then(leave, leave);
    else leave();
  }

  private left(): number {
    return Math.max(0, this.until - performance.now());
  }

  private async pause(topic: string): Promise<boolean> {
    const left = this.left();
    if (left <= 0) return false;
    await this.locks.heard(topic, Math.min(left, firstPollMs * 2 ** this.polls++, maxPollMs));
    return true;
  }
}
