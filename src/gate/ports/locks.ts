/** Queues and wakes; never decides. Losing it changes speed, not results. */
import type { Signal } from '../../signal.js';

export interface Locks {
  /** FIFO within this process. Undefined: not within `patienceMs`, or `signal` came first. */
  enter(key: string, patienceMs: number, signal?: Signal): Promise<{ waited: boolean; leave(): void } | undefined>;
  /** One contender per key over all replicas; used only once the ledger has said that somebody else holds the key. */
  contend(key: string, patienceMs: number): Promise<{ release(): void } | undefined>;
  /** Wakes whoever hears `topic`, on every replica; best effort. */
  announce(topic: string): void;
  /** Resolves when `topic` is announced, or after `ms`. */
  heard(topic: string, ms: number): Promise<void>;
  close(): Promise<void>;
}
