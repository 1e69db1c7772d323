/** Every tool of the contracts by name: what the store does when it is called. */
import { calculate } from './calculate.js';
import type { Address } from './records.js';
import { findUserByEmail, findUserByNameAndZip, orderAmounts, productPrices, productTypes, wallet } from './reads.js';
import { found } from './refused.js';
import type { Store } from './store.js';
import {
  cancelPendingOrder,
  exchangeDeliveredOrderItems,
  modifyPendingOrderAddress,
  modifyPendingOrderItems,
  modifyPendingOrderPayment,
  modifyUserAddress,
  type Replacement,
  returnDeliveredOrderItems,
} from './writes.js';

/** Arguments that satisfy the schema of the tool. */
type Arguments = Record<string, unknown>;
type Tool = (store: Store, args: Arguments) => unknown;

const reads: Readonly<Record<string, Tool>> = {
  calculate: (_, { expression }) => calculate(expression as string),
  think: () => '',
  transfer_to_human_agents: () => 'Transfer successful',
  find_user_id_by_email: (store, { email }) => findUserByEmail(store, email as string),
  find_user_id_by_name_zip: (store, args) => findUserByNameAndZip(store, args as Parameters<typeof findUserByNameAndZip>[1]),
  list_all_product_types: productTypes,
  get_product_details: (store, { product_id }) => found(store.product(product_id as string)),
  get_order_details: (store, { order_id }) => found(store.order(order_id as string)),
  get_user_details: (store, { user_id }) => found(store.user(user_id as string)),
  get_order_amounts: (store, { order_id }) => orderAmounts(store, order_id as string),
  get_wallet: (store, { user_id }) => wallet(store, user_id as string),
  get_product_prices: (store, { product_id }) => productPrices(store, product_id as string),
};

const writes: Readonly<Record<string, Tool>> = {
  cancel_pending_order: (store, args) => cancelPendingOrder(store, args as { order_id: string; reason: string }),
  modify_pending_order_items: (store, args) => modifyPendingOrderItems(store, args as unknown as Replacement),
  modify_pending_order_payment: (store, args) => modifyPendingOrderPayment(store, args as { order_id: string; payment_method_id: string }),
  modify_pending_order_address: (store, args) => modifyPendingOrderAddress(store, args as unknown as { order_id: string } & Address),
  exchange_delivered_order_items: (store, args) => exchangeDeliveredOrderItems(store, args as unknown as Replacement),
  return_delivered_order_items: (store, args) => returnDeliveredOrderItems(store, args as unknown as Omit<Replacement, 'new_item_ids'>),
  modify_user_address: (store, args) => modifyUserAddress(store, args as unknown as { user_id: string } & Address),
};

export const readTools: readonly string[] = Object.keys(reads);
export const writeTools: readonly string[] = Object.keys(writes);

/** @throws Refused when the store does not do it; nothing has then changed. @throws Error for a name that is no tool of the store. */
export function run(store: Store, tool: string, args: Arguments): unknown {
  const known = reads[tool] ?? writes[tool];
  if (!known) throw new Error(`the store has no tool \`${tool}\``);
  return known(store, args);
}
