/**
 * The service's own record of what happened to it and in it. Tests count effects here and never in the gateway's log.
 */
export interface Credit { order_id: string; amount: number; key: string; receipt_id: string }
export interface Void { receipt_id: string; order_id: string; amount: number; key: string }
export interface Cancellation { order_id: string; key: string }

export class Books {
  readonly #credits: Credit[] = [];
  readonly #voids: Void[] = [];
  readonly #cancellations: Cancellation[] = [];
  readonly #requests: Map<string, number>;
  readonly #creditByReceipt = new Map<string, Credit>();
  readonly #creditsByKey = new Map<string, Credit[]>();
  readonly #voidsByKey = new Map<string, Void[]>();
  readonly #voided = new Set<string>();

  /** @param routes Names of the routes, such as `POST /orders/{id}/credits`; each is counted from 0. */
  constructor(routes: readonly string[]) {
    this.#requests = new Map(routes.map((route) => [route, 0]));
  }

  /** Counts a request under its route's name when it arrives, whatever becomes of it. */
  arrived(route: string): void {
    this.#requests.set(route, (this.#requests.get(route) ?? 0) + 1);
  }

  enterCredit(credit: Credit): void {
    this.#credits.push(credit);
    this.#creditByReceipt.set(credit.receipt_id, credit);
    append(this.#creditsByKey, credit.key, credit);
  }

  enterVoid(entry: Void): void {
    this.#voids.push(entry);
    this.#voided.add(entry.receipt_id);
    append(this.#voidsByKey, entry.key, entry);
  }

  enterCancellation(entry: Cancellation): void {
    this.#cancellations.push(entry);
  }

  credit(receiptId: string): Credit | undefined {
    return this.#creditByReceipt.get(receiptId);
  }

  isVoided(receiptId: string): boolean {
    return this.#voided.has(receiptId);
  }

  creditsUnder(key: string): readonly Credit[] {
    return this.#creditsByKey.get(key) ?? [];
  }

  voidsUnder(key: string): readonly Void[] {
    return this.#voidsByKey.get(key) ?? [];
  }

  /** The body of `GET /_books`. */
  open(): Record<string, unknown> {
    return {
      credits: this.#credits,
      voids: this.#voids,
      cancellations: this.#cancellations,
      requests: Object.fromEntries(this.#requests),
    };
  }
}

function append<T>(index: Map<string, T[]>, key: string, entry: T): void {
  const entries = index.get(key);
  if (entries === undefined) index.set(key, [entry]);
  else entries.push(entry);
}
