/** What the store keeps, in the form in which it was recorded. Amounts are in dollars. */

export type Edition = 'tau1' | 'tau2';

export interface Address {
  address1: string;
  address2: string;
  city: string;
  state: string;
  country: string;
  zip: string;
}

export interface Item {
  name: string;
  product_id: string;
  item_id: string;
  price: number;
  options: Record<string, string>;
}

export interface HistoryEntry {
  transaction_type: 'payment' | 'refund';
  amount: number;
  payment_method_id: string;
}

export type Status =
  | 'pending'
  | 'pending (item modified)'
  | 'processed'
  | 'delivered'
  | 'cancelled'
  | 'exchange requested'
  | 'return requested';

/** What requests leave in an order: absent in tau1, and null in tau2, until there is one. */
export interface Requested {
  cancel_reason?: string | null;
  exchange_items?: string[] | null;
  exchange_new_items?: string[] | null;
  exchange_payment_method_id?: string | null;
  exchange_price_difference?: number | null;
  return_items?: string[] | null;
  return_payment_method_id?: string | null;
}

export interface Order extends Requested {
  order_id: string;
  user_id: string;
  address: Address;
  items: Item[];
  fulfillments: { tracking_id: string[]; item_ids: string[] }[];
  status: Status;
  payment_history: HistoryEntry[];
}

export interface PaymentMethod {
  source: 'credit_card' | 'gift_card' | 'paypal';
  id: string;
  brand?: string;
  last_four?: string;
  /** Of a gift card. */
  balance?: number;
}

export interface User {
  /** In tau2 alone. */
  user_id?: string;
  name: { first_name: string; last_name: string };
  address: Address;
  email: string;
  payment_methods: Record<string, PaymentMethod>;
  orders: string[];
}

export interface Variant {
  item_id: string;
  options: Record<string, string>;
  available: boolean;
  price: number;
}

export interface Product {
  name: string;
  product_id: string;
  variants: Record<string, Variant>;
}

/** Recorded amounts carry binary noise; every decision is made, and every sum formed, in whole cents. */
export function cents(amount: number): number {
  return Math.round(amount * 100);
}
