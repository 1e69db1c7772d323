/** Everything that `POST /_reset` replaces at once: orders, books, keys, faults and running timers. */
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Books } from './books.js';
import { FaultQueue } from './faults.js';
import { IdempotencyKeys } from './keys.js';
import { routeNames } from './routes.js';
import { seedOrders } from './seed.js';
import { Shop } from './shop.js';

export class World {
  readonly books = new Books(routeNames);
  readonly shop = new Shop(seedOrders(), this.books);
  readonly faults = new FaultQueue();
  readonly keys = new IdempotencyKeys();
  readonly #ended = new AbortController();

  constructor() {
    setMaxListeners(0, this.#ended.signal);
  }

  /** @throws AbortError as soon as this world ends. */
  async wait(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#ended.signal });
  }

  /** Cancels what is still to come. A request that hangs on it is dropped; it can only have changed a world that is gone. */
  end(): void {
    this.#ended.abort();
  }
}
