/**
 * Everything that `POST /_reset` replaces at once: orders, books, keys, faults and running timers. What happens here is
 * first written to the journal, if there is one, and made so in the same turn of the event loop.
 */
import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Answer } from './answer.js';
import { Books } from './books.js';
import { FaultQueue, type Tool } from './faults.js';
import { Journal, type Entry, type Outcome } from './journal.js';
import { IdempotencyKeys } from './keys.js';
import type { Execute, Manner } from './perform.js';
import { nameOf, routeNamed, routeNames, type ApiRequest, type PreparedWrite, type Route, type Write } from './routes.js';
import type { Order } from './seed.js';
import { Shop } from './shop.js';
import type { Webhooks } from './webhooks.js';

export class World {
  readonly books = new Books(routeNames);
  readonly faults = new FaultQueue();
  readonly #shop: Shop;
  readonly #orders: () => Order[];
  readonly #keys = new IdempotencyKeys();
  readonly #journal: Journal | null;
  readonly #webhooks: Webhooks | null;
  readonly #ended = new AbortController();

  private constructor(journal: Journal | null, orders: () => Order[], webhooks: Webhooks | null) {
    this.#journal = journal;
    this.#webhooks = webhooks;
    this.#orders = orders;
    this.#shop = new Shop(orders(), this.books);
    setMaxListeners(0, this.#ended.signal);
  }

  /** The world as the journal of an earlier process left it, at work on what is still owed; a new one without. @throws JournalError */
  static open(journalPath: string | null, orders: () => Order[], webhooks: Webhooks | null = null): World {
    const world = new World(journalPath === null ? null : new Journal(journalPath), orders, webhooks);
    world.#recover();
    return world;
  }

  /**
   * Ends this world for a new one, which takes over the journal, emptied. A request that hangs on this one is dropped; it
   * can only have changed a world that is gone, and writes no more to the journal.
   */
  next(): World {
    this.#ended.abort();
    this.#journal?.clear();
    return new World(this.#journal, this.#orders, this.#webhooks);
  }

  /** Ends this world with its process; what is still owed stays in the journal. */
  close(): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#journal?.close();
  }

  /** Counts a request under its route's name when it arrives, whatever becomes of it. */
  arrived(route: string): void {
    this.#record({ arrived: route });
    this.books.arrived(route);
  }

  /** Checks the form of a request and says how to carry it out. @throws Malformed */
  prepare(route: Route, request: ApiRequest): Execute {
    const prepared = route.prepare(request, this.#shop);
    if ('look' in prepared) return ({ due = 0 } = {}) => this.#read(prepared.look, due);
    const { param, body, key, ifMatch } = request;
    return (manner) => this.#write({ route: nameOf(route), param, body, key, ifMatch }, prepared, manner);
  }

  /** Nobody waits for what was accepted: it is told, where there is somebody to be told. Ended with this world. */
  tell(tool: Tool, key: string, deciding: Promise<Answer>): void {
    deciding.then((answer) => this.#webhooks?.tell(tool, key, answer, this.#ended.signal)).catch(() => undefined);
  }

  /** @throws AbortError as soon as this world ends. */
  async wait(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#ended.signal });
  }

  #recover(): void {
    const accepted: { tool: Tool; key: string; execute: Execute; effects: number; due: number }[] = [];
    this.#journal?.replay((entry) => {
      if ('arrived' in entry) {
        this.books.arrived(entry.arrived);
      } else if ('accepted' in entry) {
        const { write, effects, due } = entry.accepted;
        const route = routeNamed(write.route);
        accepted.push({ tool: route.tool, key: write.key, execute: this.prepare(route, { ...write, query: new URLSearchParams() }), effects, due });
      } else {
        const { key, fingerprint, outcome } = entry.decided;
        const answer = this.#make(outcome);
        void this.#keys.once(key, fingerprint, () => Promise.resolve(answer));
      }
    });
    // As after a 202, nobody waits for these. Their keys keep those that were decided from a second time; what is overdue is
    // decided here and now, in the order in which it was due.
    for (const { tool, key, execute, effects, due } of accepted.sort((a, b) => a.due - b.due)) {
      this.tell(tool, key, execute({ effects, due }));
    }
  }

  async #read(look: () => Answer, due: number): Promise<Answer> {
    const early = due - Date.now();
    if (early > 0) await this.wait(early);
    return look();
  }

  /** Throws at once, and leaves the key free, when a write cannot be recorded: what was not recorded was not accepted. */
  #write(write: Write, prepared: PreparedWrite, { effects = 1, due = 0 }: Manner = {}): Promise<Answer> {
    const { key } = write;
    // Without `ifMatch`: a re-send whose version has gone stale since is still the same request.
    const fingerprint = JSON.stringify([write.route, write.param, prepared.meaning ?? null]);
    return this.#keys.once(key, fingerprint, () => {
      const early = due - Date.now();
      if (early <= 0) return Promise.resolve(this.#decide(key, fingerprint, prepared, effects));
      this.#record({ accepted: { write, effects, due } });
      return this.wait(early).then(() => this.#decide(key, fingerprint, prepared, effects));
    });
  }

  #decide(key: string, fingerprint: string, prepared: PreparedWrite, effects: number): Answer {
    const decision = prepared.decide();
    const outcome: Outcome = typeof decision === 'function'
      ? { changes: [decision(), ...Array.from({ length: effects - 1 }, () => decision())] }
      : { refused: decision };
    this.#record({ decided: { key, fingerprint, outcome } });
    return this.#make(outcome);
  }

  /** The answer is the first change's; it is not in the journal, because the same changes give the same answers. */
  #make(outcome: Outcome): Answer {
    if ('refused' in outcome) return outcome.refused;
    const [first, ...again] = outcome.changes;
    const answer = this.#shop.make(first);
    for (const change of again) this.#shop.make(change);
    return answer;
  }

  #record(entry: Entry): void {
    if (!this.#ended.signal.aborted) this.#journal?.append(entry);
  }
}
