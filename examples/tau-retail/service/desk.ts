/** One world of the store and what has been done in it: every request is decided here, in one go. */
import type { Edition } from '../domain/records.js';
import { Refused, type RefusalCode } from '../domain/refused.js';
import { type RetailData, Store } from '../domain/store.js';
import { run } from '../domain/tools.js';
import { type Answer, refusal } from './answer.js';
import { Receipts } from './receipts.js';

export interface Write {
  tool: string;
  /** The order or user that is changed. */
  target: string;
  args: Record<string, unknown>;
  /** The user on whose behalf it is asked. */
  customer: string;
  key: string;
  ifMatch: string | undefined;
}

const statuses: Partial<Record<RefusalCode, number>> = { NOT_FOUND: 404, NOT_PENDING: 409, NOT_DELIVERED: 409 };

export class Desk {
  readonly store: Store;
  readonly receipts = new Receipts();
  /** Every write that was asked for, repetitions and refused ones too. */
  readonly requests: { tool: string; target: string }[] = [];

  constructor(edition: Edition, data: RetailData) {
    this.store = new Store(edition, data);
  }

  /** @param versioned the order or user whose version the answer carries. */
  read(tool: string, args: Record<string, unknown>, versioned?: string): Answer {
    return this.#attempt(tool, args, versioned);
  }

  write({ tool, target, args, customer, key, ifMatch }: Write): Answer {
    this.requests.push({ tool, target });
    const meaning = JSON.stringify([tool, args, customer]);
    return this.receipts.once(key, { meaning, tool, target }, () => {
      const owner = this.store.order(target)?.user_id ?? (this.store.user(target) ? target : undefined);
      if (owner === undefined) return refusal(404, 'NOT_FOUND');
      if (owner !== customer) return refusal(403, 'NOT_OWNER');
      if (ifMatch !== undefined && ifMatch !== this.#etag(target)) return refusal(412, 'VERSION');
      return this.#attempt(tool, args, target);
    });
  }

  #attempt(tool: string, args: Record<string, unknown>, versioned: string | undefined): Answer {
    try {
      const body = run(this.store, tool, args);
      return { status: 200, body, ...(versioned === undefined ? {} : { headers: { etag: this.#etag(versioned) } }) };
    } catch (thrown) {
      if (!(thrown instanceof Refused)) throw thrown;
      return refusal(statuses[thrown.code] ?? 422, thrown.code);
    }
  }

  #etag(id: string): string {
    return `"${this.store.version(id)}"`;
  }
}
