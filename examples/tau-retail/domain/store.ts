/** Orders, users and products as they stand now. Records are replaced whole and never changed in place. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Edition, Order, Product, Requested, User } from './records.js';

export interface RetailData {
  readonly orders: Readonly<Record<string, Order>>;
  readonly users: Readonly<Record<string, User>>;
  readonly products: Readonly<Record<string, Product>>;
}

/** @param folder with `orders.json`, `users.json` and `products.json`. */
export function readRetailData(folder: string): RetailData {
  const read = (name: string): unknown => JSON.parse(readFileSync(join(folder, name), 'utf8'));
  return { orders: read('orders.json'), users: read('users.json'), products: read('products.json') } as RetailData;
}

const nothingRequested: Required<Requested> = {
  cancel_reason: null,
  exchange_items: null,
  exchange_new_items: null,
  exchange_payment_method_id: null,
  exchange_price_difference: null,
  return_items: null,
  return_payment_method_id: null,
};

export class Store {
  readonly #changed = { orders: new Map<string, Order>(), users: new Map<string, User>() };
  readonly #versions = new Map<string, number>();

  constructor(
    readonly edition: Edition,
    private readonly data: RetailData,
  ) {}

  order(id: string): Order | undefined {
    const first = own(this.data.orders, id);
    return this.#changed.orders.get(id) ?? (first && this.edition === 'tau2' ? { ...first, ...nothingRequested } : first);
  }

  user(id: string): User | undefined {
    const first = own(this.data.users, id);
    return this.#changed.users.get(id) ?? (first && this.edition === 'tau2' ? { user_id: id, ...first } : first);
  }

  product(id: string): Product | undefined {
    return own(this.data.products, id);
  }

  products(): Product[] {
    return Object.values(this.data.products);
  }

  findUser(matches: (user: User) => boolean): string | undefined {
    return Object.keys(this.data.users).find((id) => matches(this.user(id) as User));
  }

  putOrder(order: Order): Order {
    this.#changed.orders.set(order.order_id, order);
    this.#count(order.order_id);
    return order;
  }

  putUser(id: string, user: User): User {
    this.#changed.users.set(id, user);
    this.#count(id);
    return user;
  }

  /** Of an order or a user: how often it was replaced, from 1. */
  version(id: string): number {
    return this.#versions.get(id) ?? 1;
  }

  #count(id: string): void {
    this.#versions.set(id, this.version(id) + 1);
  }

  /** Every order and user that is not as it was in the beginning. */
  changes(): { orders: Record<string, Order>; users: Record<string, User> } {
    return { orders: Object.fromEntries(this.#changed.orders), users: Object.fromEntries(this.#changed.users) };
  }
}

/** Ids come from callers: `constructor` is no order. */
function own<T>(records: Readonly<Record<string, T>>, id: string): T | undefined {
  return Object.hasOwn(records, id) ? records[id] : undefined;
}
