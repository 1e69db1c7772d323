/**
 * The rules of the shop. A write is decided first and the change that it admits made afterwards, in one turn of the event
 * loop, so that nothing comes between. The two are apart because the journal comes between them and makes the same changes
 * again after a restart, and because the fault `double_effect` has one decision happen twice.
 */
import { randomBytes } from 'node:crypto';
import { refusal, type Answer } from './answer.js';
import type { Books, Cancellation, Credit, Void } from './books.js';
import type { Order } from './seed.js';

/** Something that can happen to an order, in full: nothing else is needed to make it so. */
export type Change = { credited: Credit } | { voided: Void } | { cancelled: Cancellation };

/** An answer that changes nothing, or the change that was admitted; each call of it is one more of it. */
export type Decision = Answer | (() => Change);

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
    return () => ({ credited: { order_id: orderId, amount: wanted.amount, key, receipt_id: newReceiptId() } });
  }

  /** @param customer where it is named, another customer's credit is not there */
  decideVoid(receiptId: string, key: string, customer: string | null = null): Decision {
    const credit = this.#books.credit(receiptId);
    if (credit === undefined || !this.#belongs(credit.order_id, customer)) return refusal(404, 'NOT_FOUND');
    if (this.#books.isVoided(receiptId)) return refusal(409, 'ALREADY_VOIDED');
    const { amount, order_id } = credit;
    return () => ({ voided: { receipt_id: receiptId, order_id, amount, key } });
  }

  #belongs(orderId: string, customer: string | null): boolean {
    return customer === null || this.#orders.get(orderId)?.customer_id === customer;
  }

  decideCancel(orderId: string, key: string, ifMatch: string | undefined): Decision {
    const order = this.#orders.get(orderId);
    if (order === undefined) return refusal(404, 'NOT_FOUND');
    if (!matches(ifMatch, order)) return refusal(412, 'VERSION');
    if (order.status !== 'PENDING') return refusal(409, 'NOT_PENDING');
    return () => ({ cancelled: { order_id: orderId, key } });
  }

  /** Makes a change, just decided or read from the journal, and answers for it. @throws Error for an order that is not here. */
  make(change: Change): Answer {
    if ('credited' in change) return this.#credit(change.credited);
    if ('voided' in change) return this.#void(change.voided);
    return this.#cancel(change.cancelled);
  }

  /** The read-back: what happened under this request key. Two credits under one key are told as two, never hidden. */
  receiptUnder(key: string, customer: string | null = null): Answer {
    const created = this.#books.creditsUnder(key);
    const entries = (created.length > 0 ? created : this.#books.voidsUnder(key)).filter(({ order_id }) => this.#belongs(order_id, customer));
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

  #credit(credit: Credit): Answer {
    const { order_id, amount, receipt_id } = credit;
    const order = this.#changed(order_id);
    order.refundable -= amount;
    this.#books.enterCredit(credit);
    const { currency, refundable } = order;
    return { status: 201, headers: etag(order), body: { receipt_id, order_id, amount, currency, refundable } };
  }

  #void(entry: Void): Answer {
    const { order_id, amount, receipt_id } = entry;
    const order = this.#changed(order_id);
    order.refundable += amount;
    this.#books.enterVoid(entry);
    return { status: 200, headers: etag(order), body: { receipt_id, voided: true, amount } };
  }

  #cancel(entry: Cancellation): Answer {
    const order = this.#changed(entry.order_id);
    order.status = 'CANCELLED';
    order.cancelled_by = entry.key;
    this.#books.enterCancellation(entry);
    return this.order(entry.order_id);
  }

  /** The order in its next version. */
  #changed(orderId: string): Order {
    const order = this.#orders.get(orderId);
    if (order === undefined) throw new Error(`there is no order \`${orderId}\``);
    order.version += 1;
    return order;
  }
}

/** Random, so that a receipt from before a reset never names a credit from after it. */
function newReceiptId(): string {
  return `CR-${randomBytes(5).toString('hex').toUpperCase()}`;
}

function etag(order: Order): Record<string, string> {
  return { etag: `"${order.version}"` };
}

/** RFC 9110 section 13.1.1: absent, `*`, or a list of entity tags. */
function matches(ifMatch: string | undefined, order: Order): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return true;
  return ifMatch.split(',').some((tag) => tag.trim() === `"${order.version}"`);
}
