/**
 * Calls that were proposed and are not sent yet: each of them waits for its turn on its entity, for a place at its service, for a pause to end, or
 * for those before it in its own turn of calls. The ledger does not know them, so whether one is cancelled or reserved is decided here, in one
 * tick; and as to other replicas by the row that either of the two writes for the operation, of which there can be one.
 */
import type { Principal } from '../model.js';
import { Ending, type Signal } from '../signal.js';
import type { FreshCall, PermittedCall } from './calls.js';
import type { Operation } from './ports.js';

/** Why it is not sent. `cancelled`: the operation is in the ledger as that; `gone`: its caller hung up, which ends this one proposal; `draining`: another replica may send it. */
export type Given = { up: 'cancelled'; operation: Operation } | { up: 'gone' } | { up: 'draining' };

export class WaitingCall {
  /** As it was looked up last, and the operation that it would become. */
  known: { fresh: FreshCall; id: string } | null = null;
  private given: Given | null = null;
  private left = false;
  private readonly leaving = new Ending();
  private tell: (given: Given) => void = () => undefined;
  private readonly givenUp = new Promise<Given>((resolve) => { this.tell = resolve; });
  /** While its intent is being made durable, and while a cancellation is. */
  private reserving: Promise<void> | null = null;
  private deciding: Promise<void> | null = null;
  private reserved: () => void = () => undefined;

  /** @param look at it from its arguments on, for one that has not begun. Null: it will be refused. */
  constructor(readonly principal: Principal, readonly look: () => PermittedCall | null, private readonly forget: (call: WaitingCall) => void) {}

  /** Ends its waits at once when it is given up. */
  get signal(): Signal {
    return this.leaving;
  }

  get over(): Given | null {
    return this.given;
  }

  /** Whatever comes first. */
  unless<T>(work: Promise<T>): Promise<T | Given> {
    return Promise.race([work, this.givenUp]);
  }

  /** To be asked right before its intent is written. False: it is given up, and may not be. */
  async begin(): Promise<boolean> {
    while (this.deciding) await this.deciding;
    if (this.given) return false;
    this.reserving = new Promise((resolve) => { this.reserved = resolve; });
    return true;
  }

  /** Its intent was not written; it waits again, or will be refused. */
  end(): void {
    this.reserving = null;
    this.reserved();
  }

  /** It is answered, or the ledger has it. */
  leave(): void {
    this.left = true;
    this.forget(this);
    this.end();
  }

  /** Resolves when its intent is written, or was not; null when none is being written. */
  get underWay(): Promise<void> | null {
    return this.reserving;
  }

  hold(decision: Promise<void>): void {
    this.deciding = decision.finally(() => { this.deciding = null; });
  }

  giveUp(given: Given): void {
    if (this.left || this.given) return;
    this.given = given;
    this.leaving.abort();
    this.tell(given);
  }

  /** Its caller hung up: what has not been sent by then is not sent, and everything else goes on (case-56). */
  hangUp(): Promise<void> {
    return this.unlessReserving({ up: 'gone' });
  }

  /** Whoever waits need not wait for its turn to be told to go elsewhere. */
  drain(): Promise<void> {
    return this.unlessReserving({ up: 'draining' });
  }

  private async unlessReserving(given: Given): Promise<void> {
    while (this.deciding) await this.deciding;
    if (!this.reserving) this.giveUp(given);
  }
}

export class WaitingCalls {
  private readonly byPrincipal = new Map<string, Set<WaitingCall>>();

  enter(principal: Principal, look: () => PermittedCall | null): WaitingCall {
    const key = keyOf(principal);
    const calls = this.byPrincipal.get(key) ?? new Set();
    const call = new WaitingCall(principal, look, (gone) => {
      calls.delete(gone);
      if (calls.size === 0 && this.byPrincipal.get(key) === calls) this.byPrincipal.delete(key);
    });
    this.byPrincipal.set(key, calls.add(call));
    return call;
  }

  get size(): number {
    return this.byPrincipal.size;
  }

  /** Those that stand in line; the rest of a turn of calls follows by what becomes of these. */
  drain(): void {
    for (const calls of this.byPrincipal.values()) for (const call of calls) if (call.known) void call.drain();
  }

  of(principal: Pick<Principal, 'tenant' | 'id'>): WaitingCall[] {
    return [...(this.byPrincipal.get(keyOf(principal)) ?? [])];
  }
}

function keyOf({ tenant, id }: Pick<Principal, 'tenant' | 'id'>): string {
  return `${tenant}\n${id}`;
}
