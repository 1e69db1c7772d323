/** The orders that the service starts with, and returns to on `POST /_reset`. */
export interface Order {
  order_id: string;
  status: 'PENDING' | 'DELIVERED' | 'CANCELLED';
  /** Pence that may still be credited. */
  refundable: number;
  currency: 'GBP';
  version: number;
  customer_id: string;
  tenant: string;
  /** The Idempotency-Key of the request that cancelled it, when it was cancelled through the API. */
  cancelled_by?: string;
}

export function seedOrders(): Order[] {
  const acme = { currency: 'GBP', customer_id: 'C-17', tenant: 'acme' } as const;
  const globex = { currency: 'GBP', customer_id: 'C-90', tenant: 'globex' } as const;
  return [
    { order_id: 'O-417', status: 'DELIVERED', refundable: 5_000, version: 7, ...acme },
    { order_id: 'O-418', status: 'PENDING', refundable: 3_000, version: 3, ...acme },
    { order_id: 'O-419', status: 'CANCELLED', refundable: 0, version: 5, ...acme },
    { order_id: 'O-420', status: 'DELIVERED', refundable: 90_000, version: 2, ...acme },
    { order_id: 'O-900', status: 'DELIVERED', refundable: 5_000, version: 1, ...globex },
  ];
}
