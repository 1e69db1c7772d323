/** What can be asked of the store, and what it answers: as the benchmark recorded it, and in cents for who has to decide. */
import { cents, type HistoryEntry, type PaymentMethod } from './records.js';
import { found } from './refused.js';
import type { Store } from './store.js';

export function findUserByEmail(store: Store, email: string): string {
  const wanted = email.toLowerCase();
  return found(store.findUser((user) => user.email.toLowerCase() === wanted));
}

export function findUserByNameAndZip(store: Store, { first_name, last_name, zip }: { first_name: string; last_name: string; zip: string }): string {
  const same = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();
  return found(
    store.findUser(({ name, address }) => same(name.first_name, first_name) && same(name.last_name, last_name) && address.zip === zip),
  );
}

/** From name to id, by name. */
export function productTypes(store: Store): Record<string, string> {
  const pairs = store.products().map(({ name, product_id }) => [name, product_id] as const);
  return Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)));
}

export function orderAmounts(store: Store, orderId: string) {
  const { items, payment_history } = found(store.order(orderId));
  return {
    items: items.map(({ item_id, product_id, price }) => ({ item_id, product_id, price_cents: cents(price) })),
    payments: payment_history.map(({ amount, ...entry }): Omit<HistoryEntry, 'amount'> & { amount_cents: number } => ({
      ...entry,
      amount_cents: cents(amount),
    })),
  };
}

export function wallet(store: Store, userId: string) {
  const methods = Object.entries(found(store.user(userId)).payment_methods);
  return { payment_methods: Object.fromEntries(methods.map(([id, method]) => [id, methodInCents(method)])) };
}

function methodInCents({ source, balance }: PaymentMethod) {
  return { source, ...(balance === undefined ? {} : { balance_cents: cents(balance) }) };
}

export function productPrices(store: Store, productId: string) {
  const variants = Object.entries(found(store.product(productId)).variants);
  return { variants: Object.fromEntries(variants.map(([id, { available, price }]) => [id, { available, price_cents: cents(price) }])) };
}
