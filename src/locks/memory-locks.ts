/** Locks within one process: FIFO queues by key, and a bell by topic. The whole of it without Redis, the near half of it with. */
import type { Locks } from '../gate/ports.js';

interface Waiter { wake(): void; gone: boolean }

export class MemoryLocks implements Locks {
  private readonly queues = new Map<string, Waiter[]>();
  private readonly bells = new Map<string, Set<() => void>>();

  async enter(key: string, patienceMs: number): Promise<{ waited: boolean; leave(): void } | undefined> {
    const queue = this.queues.get(key);
    if (!queue) {
      this.queues.set(key, []);
      return { waited: false, leave: once(() => this.next(key)) };
    }
    const entered = await new Promise<boolean>((resolve) => {
      const waiter: Waiter = { gone: false, wake: () => { clearTimeout(timer); resolve(true); } };
      const timer = setTimeout(() => { waiter.gone = true; resolve(false); }, patienceMs);
      queue.push(waiter);
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
        const listeners = this.bells.get(topic);
        listeners?.delete(ring);
        if (listeners?.size === 0) this.bells.delete(topic);
        resolve();
      };
      const timer = setTimeout(ring, ms);
      const listeners = this.bells.get(topic) ?? new Set();
      this.bells.set(topic, listeners.add(ring));
    });
  }

  /** True while somebody in this process listens to the topic. */
  listens(topic: string): boolean {
    return this.bells.has(topic);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  private next(key: string): void {
    const queue = this.queues.get(key);
    for (let waiter = queue?.shift(); waiter; waiter = queue?.shift()) {
      if (!waiter.gone) return waiter.wake();
    }
    this.queues.delete(key);
  }
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (!done) action();
    done = true;
  };
}
