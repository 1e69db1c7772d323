/** Locks within one process: FIFO queues by key, and a bell by topic. The whole of it without Redis, the near half of it with. */
import type { Locks } from '../gate/ports.js';
import type { Signal } from '../signal.js';

type Wake = () => void;

export class MemoryLocks implements Locks {
  /** A key is here while somebody holds it; in its set are those who wait, in their order. */
  private readonly queues = new Map<string, Set<Wake>>();
  private readonly bells = new Map<string, Set<Wake>>();

  async enter(key: string, patienceMs: number, signal?: Signal): Promise<{ waited: boolean; leave(): void } | undefined> {
    if (signal?.aborted) return undefined;
    const queue = this.queues.get(key);
    if (!queue) {
      this.queues.set(key, new Set());
      return { waited: false, leave: once(() => this.next(key)) };
    }
    const entered = await new Promise<boolean>((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
        resolve(true);
      };
      // Whoever gives up is out of the line at once, so that no turn is ever given to somebody who has left.
      const giveUp = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
        queue.delete(wake);
        resolve(false);
      };
      const timer = setTimeout(giveUp, patienceMs);
      signal?.addEventListener('abort', giveUp);
      queue.add(wake);
    });
    return entered ? { waited: true, leave: once(() => this.next(key)) } : undefined;
  }

  /** Within one process whoever entered is alone already. */
  contend(): Promise<{ release(): void }> {
    return Promise.resolve({ release: () => undefined });
  }

  announce(topic: string): void {
    for (const ring of this.bells.get(topic) ?? []) ring();
  }

  heard(topic: string, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const ring = (): void => {
        clearTimeout(timer);
        listeners.delete(ring);
        if (listeners.size === 0) this.bells.delete(topic);
        resolve();
      };
      const timer = setTimeout(ring, ms);
      const listeners = this.bells.get(topic) ?? new Set<Wake>();
      this.bells.set(topic, listeners.add(ring));
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  private next(key: string): void {
    const queue = this.queues.get(key);
    const [first] = queue ?? [];
    if (!first) return void this.queues.delete(key);
    queue?.delete(first);
    first();
  }
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (!done) action();
    done = true;
  };
}
