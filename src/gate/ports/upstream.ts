/** What stands between the callers in this process and a domain service. */
import type { UpstreamPlan } from '../../contract/plan.js';
import type { Signal } from '../../signal.js';
import type { Exchange } from '../../upstream/exchange.js';

/** Asks for a place at a domain service. */
export interface Entrance {
  /** `write`: one that the service would carry out twice, for want of a key that it honours. */
  traffic: 'write' | 'keyed_write' | 'read' | 'read_back';
  /** A first send earns retries of its service, and a retry costs one; a further question, or what a person decided, does neither. */
  as: 'first' | 'retry' | 'neither';
  /** How long it may wait for its place, on the clock of `performance.now()`. */
  until: number;
  /** Ends the wait before. */
  signal?: Signal | undefined;
}

/** Held from before the intent of a write, or the sending of a read, until its exchange has ended. */
export interface Place {
  /** It had to stand in line, so that what was observed before may be old. */
  waited: boolean;
  /** Once is enough; without an exchange nothing was sent. */
  leave(exchange?: Exchange): void;
}

/** Nothing may be sent now: a pause that the service asked for, its breaker, no place, no retry left. */
export interface Closed { closed: 'paused' | 'suspended' | 'busy' | 'retry_ratio'; forMs: number }

export interface UpstreamGate {
  enter(upstream: UpstreamPlan, entrance: Entrance): Promise<Place | Closed>;
  /** Milliseconds still to wait, 0 when there is no pause. */
  pausedForMs(service: string): number;
  /** Kept by every caller of the service. */
  pause(service: string, ms: number): void;
}

/** Pauses of domain services over replicas; best effort, and never waited for. */
export interface SharedPauses {
  tell(service: string, ms: number): void;
  /** @param hear may be called with what was told by this process itself */
  heard(hear: (service: string, ms: number) => void): void;
  /** What was told before this process listened is heard soon. */
  look(service: string): void;
}
