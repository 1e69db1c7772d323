/** More orders than the example has, so that many intents are independent: `vi.mock` the example's seed with `manyOrders`. */
import type { Order } from '../../examples/retail/service/seed.js';

export const extraOrders = 120;
export const extraOrder = (n: number): string => `O-${1000 + n}`;

/** @param original the example's own seed module */
export function manyOrders(original: { seedOrders(): Order[] }): { seedOrders(): Order[] } {
  return {
    seedOrders: () => [
      ...original.seedOrders(),
      ...Array.from({ length: extraOrders }, (_, n): Order => ({
        order_id: extraOrder(n), status: 'DELIVERED', refundable: 100_000, version: 1, currency: 'GBP', tenant: 'acme', customer_id: 'C-17',
      })),
    ],
  };
}
