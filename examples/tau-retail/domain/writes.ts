/**
 * The seven writes. Each asks its conditions in the order in which the benchmark asks them, and changes something only when all of
 * them hold; nothing here waits, so that nothing can come between.
 */
import { cents, type Address, type HistoryEntry, type Order, type PaymentMethod, type Status, type User, type Variant } from './records.js';
import { found, insist, Refused } from './refused.js';
import type { Store } from './store.js';

export interface Replacement {
  order_id: string;
  item_ids: string[];
  new_item_ids: string[];
  payment_method_id: string;
}

const reasons = ['no longer needed', 'ordered by mistake'];

export function cancelPendingOrder(store: Store, { order_id, reason }: { order_id: string; reason: string }): Order {
  const order = found(store.order(order_id));
  insist(order.status === 'pending', 'NOT_PENDING');
  insist(reasons.includes(reason), 'INVALID_REASON');
  // Every entry counts, a refund too: what the benchmark recorded after a change of the payment method.
  const refunds = order.payment_history.map((entry): HistoryEntry => ({ ...entry, transaction_type: 'refund' }));
  for (const { payment_method_id, amount } of refunds) credit(store, order.user_id, payment_method_id, cents(amount));
  return store.putOrder({
    ...order,
    status: 'cancelled',
    cancel_reason: reason,
    payment_history: [...order.payment_history, ...refunds],
  });
}

export function modifyPendingOrderItems(store: Store, replacement: Replacement): Order {
  const order = found(store.order(replacement.order_id));
  insist(order.status === 'pending', 'NOT_PENDING');
  const { variants, differenceCents } = checkReplacement(store, order, replacement, store.edition === 'tau2');
  const { payment_method_id } = replacement;
  credit(store, order.user_id, payment_method_id, -differenceCents);
  const entry: HistoryEntry = {
    transaction_type: differenceCents > 0 ? 'payment' : 'refund',
    amount: Math.abs(differenceCents) / 100,
    payment_method_id,
  };
  return store.putOrder({
    ...order,
    status: 'pending (item modified)',
    items: replaceItems(order.items, replacement.item_ids, variants),
    payment_history: [...order.payment_history, entry],
  });
}

export function exchangeDeliveredOrderItems(store: Store, replacement: Replacement): Order {
  const order = found(store.order(replacement.order_id));
  insist(order.status === 'delivered', 'NOT_DELIVERED');
  const { differenceCents } = checkReplacement(store, order, replacement, false);
  return store.putOrder({
    ...order,
    status: 'exchange requested',
    exchange_items: replacement.item_ids.toSorted(),
    exchange_new_items: replacement.new_item_ids.toSorted(),
    exchange_payment_method_id: replacement.payment_method_id,
    exchange_price_difference: differenceCents / 100,
  });
}

interface Return {
  order_id: string;
  item_ids: string[];
  payment_method_id: string;
}

export function returnDeliveredOrderItems(store: Store, { order_id, item_ids, payment_method_id }: Return): Order {
  const order = found(store.order(order_id));
  insist(order.status === 'delivered', 'NOT_DELIVERED');
  const { source } = methodOf(store, order, payment_method_id);
  insist(source === 'gift_card' || payment_method_id === order.payment_history[0]?.payment_method_id, 'PAYMENT_METHOD_NOT_ALLOWED');
  checkItems(order, item_ids);
  return store.putOrder({
    ...order,
    status: 'return requested',
    return_items: item_ids.toSorted(),
    return_payment_method_id: payment_method_id,
  });
}

interface PaymentChange {
  order_id: string;
  payment_method_id: string;
}

export function modifyPendingOrderPayment(store: Store, { order_id, payment_method_id }: PaymentChange): Order {
  const order = found(store.order(order_id));
  insist(order.status === 'pending', 'NOT_PENDING');
  const method = methodOf(store, order, payment_method_id);
  const [first, ...others] = order.payment_history;
  insist(first?.transaction_type === 'payment' && others.length === 0, 'NOT_PAID_EXACTLY_ONCE');
  insist(first.payment_method_id !== payment_method_id, 'SAME_PAYMENT_METHOD');
  insist(covers(method, cents(first.amount)), 'GIFT_CARD_TOO_SMALL');
  credit(store, order.user_id, payment_method_id, -cents(first.amount));
  credit(store, order.user_id, first.payment_method_id, cents(first.amount));
  return store.putOrder({
    ...order,
    payment_history: [first, { ...first, payment_method_id }, { ...first, transaction_type: 'refund' }],
  });
}

export function modifyPendingOrderAddress(store: Store, { order_id, ...address }: { order_id: string } & Address): Order {
  const order = found(store.order(order_id));
  const open: Status[] = store.edition === 'tau2' ? ['pending', 'pending (item modified)'] : ['pending'];
  insist(open.includes(order.status), 'NOT_PENDING');
  return store.putOrder({ ...order, address });
}

export function modifyUserAddress(store: Store, { user_id, ...address }: { user_id: string } & Address): User {
  return store.putUser(user_id, { ...found(store.user(user_id)), address });
}

/** Items of an order for variants of the same products. @returns the variants, and what they cost more than the items. */
function checkReplacement(
  store: Store,
  order: Order,
  { item_ids, new_item_ids, payment_method_id }: Replacement,
  eachDiffers: boolean,
): { variants: Variant[]; differenceCents: number } {
  checkItems(order, item_ids);
  insist(item_ids.length === new_item_ids.length, 'LENGTHS_DIFFER');
  insist(!eachDiffers || item_ids.every((id, index) => id !== new_item_ids[index]), 'SAME_ITEM');
  const replaced = item_ids.map((id) => found(order.items.find((item) => item.item_id === id)));
  const variants = replaced.map(({ product_id }, index) => availableVariant(store, product_id, new_item_ids[index] as string));
  const method = methodOf(store, order, payment_method_id);
  const differenceCents = total(variants) - total(replaced);
  insist(covers(method, differenceCents), 'GIFT_CARD_TOO_SMALL');
  return { variants, differenceCents };
}

function checkItems(order: Order, wanted: readonly string[]): void {
  const times = (ids: readonly string[], id: string): number => ids.filter((each) => each === id).length;
  const held = order.items.map(({ item_id }) => item_id);
  insist(wanted.every((id) => times(wanted, id) <= times(held, id)), 'ITEMS_NOT_IN_ORDER');
}

function availableVariant(store: Store, productId: string, itemId: string): Variant {
  const variants = store.product(productId)?.variants ?? {};
  const variant = Object.hasOwn(variants, itemId) ? variants[itemId] : undefined;
  if (!variant?.available) throw new Refused('VARIANT_NOT_AVAILABLE');
  return variant;
}

/** One after another: an item that is listed twice is the next one of its kind the second time. */
function replaceItems(items: readonly Order['items'][number][], itemIds: readonly string[], variants: readonly Variant[]): Order['items'] {
  const result = [...items];
  itemIds.forEach((id, index) => {
    const at = result.findIndex((item) => item.item_id === id);
    const { item_id, price, options } = variants[index] as Variant;
    result[at] = { ...(result[at] as Order['items'][number]), item_id, price, options };
  });
  return result;
}

function methodOf(store: Store, order: Order, id: string): PaymentMethod {
  const methods = store.user(order.user_id)?.payment_methods ?? {};
  const method = Object.hasOwn(methods, id) ? methods[id] : undefined;
  if (!method) throw new Refused('PAYMENT_METHOD_UNKNOWN');
  return method;
}

function covers({ source, balance = 0 }: PaymentMethod, amountCents: number): boolean {
  return source !== 'gift_card' || cents(balance) >= amountCents;
}

/** At once to a gift card; to any other method by the bank, some days later and outside of this store. */
function credit(store: Store, userId: string, methodId: string, amountCents: number): void {
  const user = found(store.user(userId));
  const method = user.payment_methods[methodId];
  if (method?.source !== 'gift_card') return;
  const balance = (cents(method.balance ?? 0) + amountCents) / 100;
  store.putUser(userId, { ...user, payment_methods: { ...user.payment_methods, [methodId]: { ...method, balance } } });
}

function total(priced: readonly { price: number }[]): number {
  return priced.reduce((sum, { price }) => sum + cents(price), 0);
}
