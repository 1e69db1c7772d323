/**
 * The rules of the shop. A write is decided first and applied afterwards, in one turn of the event loop, so that nothing
 * comes between; the two are apart because the fault `double_effect` applies one decision twice.
 */
import { randomBytes } from 'node:crypto';
import { refusal, type Answer } from './answer.js';
import type { Books } from './books.js';
import type { Order } from './seed.js';

/** An answer that changes nothing, or the effect that was admitted; each call of it happens once more. */
export type Decision = Answer | (() => Answer);

export interface CreditRequest { amount: number; currency: string; customer_id: string }

export class Shop {
  readonly #orders: Map<string, Order>;
  readonly #books: Books;

  constructor(orders: readonly Order[], books: Books) {
    this.#orders = new Map(orders.map((order) => [order.order_id, order]));
    this.#books = books;
  }

  order(orderId: string): Answer {
    const order = this.#orders.get(orderId);
    return order === undefined ? refusal(404, 'NOT_FOUND') : { status: 200, headers: etag(order), body: { ...order } };
  }

  /** `remaining` is what stays refundable if the credit is made, and the present balance where it is not allowed. */
  quote(orderId: string, amount: number): Answer {
    const order = this.#orders.get(orderId);
    if (order === undefined) return refusal(404, 'NOT_FOUND');
    const allowed = order.status === 'DELIVERED' && amount <= order.refundable;
    const remaining = allowed ? order.refundable - amount : order.refundable;
    return { status: 200, body: { order_id: orderId, amount, remaining, allowed } };
  }

  decideCredit(orderId: string, wanted: CreditRequest, key: string, ifMatch: string | undefined): Decision {
    const order = this.#orders.get(orderId);
    if (order === undefined) return refusal(404, 'NOT_FOUND');
    if (wanted.customer_id !== order.customer_id) return refusal(403, 'NOT_OWNER');
    if (!matches(ifMatch, order)) return refusal(412, 'VERSION');
    if (order.status !== 'DELIVERED') return refusal(409, 'NOT_DELIVERED');
    if (wanted.currency !== order.currency) return refusal(422, 'CURRENCY');
    if (wanted.amount > order.refundable) return refusal(422, 'LIMIT');
    return () => this.#credit(order, wanted.amount, key);
  }

  decideVoid(receiptId: string, key: string): Decision {
    const credit = this.#books.credit(receiptId);
    const order = credit && this.#orders.get(credit.order_id);
    if (credit === undefined || order === undefined) return refusal(404, 'NOT_FOUND');
    if (this.#books.isVoided(receiptId)) return refusal(409, 'ALREADY_VOIDED');
    const { amount, order_id } = credit;
    return () => {
      order.refundable += amount;
      order.version += 1;
      this.#books.enterVoid({ receipt_id: receiptId, order_id, amount, key });
      return { status: 200, headers: etag(order), body: { receipt_id: receiptId, voided: true, amount } };
    };
  }

  decideCancel(orderId: string, key: string, ifMatch: string | undefined): Decision {
    const order = this.#orders.get(orderId);
    if (order === undefined) return refusal(404, 'NOT_FOUND');
    if (!matches(ifMatch, order)) return refusal(412, 'VERSION');
    if (order.status !== 'PENDING') return refusal(409, 'NOT_PENDING');
    return () => {
      order.status = 'CANCELLED';
      order.cancelled_by = key;
      order.version += 1;
      this.#books.enterCancellation({ order_id: orderId, key });
      return this.order(orderId);
    };
  }

  /** The read-back: what happened under this request key. Two credits under one key are told as two, never hidden. */
  receiptUnder(key: string): Answer {
    const created = this.#books.creditsUnder(key);
    const entries = created.length > 0 ? created : this.#books.voidsUnder(key);
    const [first] = entries;
    return {
      status: 200,
      body: {
        count: entries.length,
        amount: entries.reduce((sum, entry) => sum + entry.amount, 0),
        voided: first !== undefined && this.#books.isVoided(first.receipt_id),
        receipt: first === undefined ? null : { receipt_id: first.receipt_id, amount: first.amount, order_id: first.order_id },
      },
    };
  }

  #credit(order: Order, amount: number, key: string): Answer {
    // Random, so that a receipt from before a reset never names a credit from after it.
    const receipt_id = `CR-${randomBytes(5).toString('hex').toUpperCase()}`;
    order.refundable -= amount;
    order.version += 1;
    this.#books.enterCredit({ order_id: order.order_id, amount, key, receipt_id });
    const { order_id, currency, refundable } = order;
    return { status: 201, headers: etag(order), body: { receipt_id, order_id, amount, currency, refundable } };
  }
}

function etag(order: Order): Record<string, string> {
  return { etag: `"${order.version}"` };
}

/** RFC 9110 section 13.1.1: absent, `*`, or a list of entity tags. */
function matches(ifMatch: string | undefined, order: Order): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return true;
  return ifMatch.split(',').some((tag) => tag.trim() === `"${order.version}"`);
}
