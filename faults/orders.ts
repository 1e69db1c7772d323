/** The orders of the suite's shop: enough of them that most calls are independent, few enough that some are not. */
import type { Order } from '../examples/retail/service/seed.js';

export const customers = [
  { tenant: 'acme', customer_id: 'C-17' },
  { tenant: 'acme', customer_id: 'C-18' },
  { tenant: 'globex', customer_id: 'C-90' },
] as const;
export type Customer = 0 | 1 | 2;

/** Of each customer: orders that take credits, orders to be cancelled once, one that never leaves PENDING, one with hardly any balance. */
export interface Stock { delivered: number; pending: number }

export const deliveredOrder = (customer: Customer, n: number): string => `O-${customer + 1}0${n}`;
export const pendingOrder = (customer: Customer, n: number): string => `O-${customer + 1}1${n}`;
export const keptPending = (customer: Customer): string => `O-${customer + 1}2`;
export const nearlyEmpty = (customer: Customer): string => `O-${customer + 1}3`;

export function ordersOf({ delivered, pending }: Stock): Order[] {
  return customers.flatMap((who, n) => {
    const customer = n as Customer;
    const order = (order_id: string, status: Order['status'], refundable: number): Order => ({ order_id, status, refundable, version: 1, currency: 'GBP', ...who });
    return [
      ...Array.from({ length: delivered }, (_, i) => order(deliveredOrder(customer, i), 'DELIVERED', 2_000_000_000)),
      ...Array.from({ length: pending }, (_, i) => order(pendingOrder(customer, i), 'PENDING', 0)),
      order(keptPending(customer), 'PENDING', 0),
      order(nearlyEmpty(customer), 'DELIVERED', 50),
    ];
  });
}
