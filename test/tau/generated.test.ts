/**
 * The recordings break few of the rules. Here writes are made up, several on one order, and the contracts have to decide each as the
 * store itself decides it, which asks its own conditions: what is refused before dispatch is what the store would have refused.
 */
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Edition, Item, Order } from '../../examples/tau-retail/domain/records.js';
import { readRetailData, type RetailData } from '../../examples/tau-retail/domain/store.js';
import type { JsonObject } from '../../src/model.js';
import { decide } from './decide.js';
import { attempt, compiled, freshStore, worldOf } from './edition.js';
import { dataFolder, recorded } from './recording.js';

const proposal = fc.record({
  tool: fc.constantFrom(
    'cancel_pending_order',
    'modify_pending_order_items',
    'modify_pending_order_payment',
    'modify_pending_order_address',
    'exchange_delivered_order_items',
    'return_delivered_order_items',
  ),
  picks: fc.array(fc.record({ item: fc.nat(4), variant: fc.nat(19), odd: fc.constantFrom('', '', '', '', '', 'item', 'variant', 'same') }), { maxLength: 3 }),
  lengths: fc.constantFrom('equal', 'equal', 'equal', 'equal', 'fewer', 'more'),
  method: fc.nat(3),
  methodOf: fc.constantFrom('owner', 'owner', 'owner', 'owner', 'stranger'),
  reason: fc.constantFrom('no longer needed', 'ordered by mistake'),
});
type Proposal = typeof proposal extends fc.Arbitrary<infer P> ? P : never;
const script = fc.record({ order: fc.nat(), proposals: fc.array(proposal, { minLength: 1, maxLength: 4 }) });

if (recorded) {
  describe('writes that are made up', () => {
    let data: RetailData;
    beforeAll(() => {
      data = readRetailData(dataFolder);
    });

    test.each(['tau1', 'tau2'] as const)('%s: the contracts accept exactly what the store accepts, and every rule is reached', (edition) => {
      const contracts = compiled(edition);
      const orders = Object.values(data.orders).filter(({ status }) => status === 'pending' || status === 'delivered');
      const reached = new Map<string, number>();
      fc.assert(
        fc.property(script, ({ order: chosen, proposals }) => {
          const store = freshStore(contracts, data);
          const { order_id, user_id } = orders[chosen % orders.length] as Order;
          for (const each of proposals) {
            const args = argumentsFor(each, store.order(order_id) as Order, data);
            const verdict = decide(contracts.tool(each.tool), worldOf(contracts, store, user_id), args);
            const outcome = attempt(store, each.tool, args);
            const reason = 'refused' in outcome ? outcome.refused : 'accepted';
            reached.set(reason, (reached.get(reason) ?? 0) + 1);
            expect({ args, accepted: verdict.accepted, verdict, reason }).toMatchObject({ accepted: reason === 'accepted' });
            expect(verdict, 'a rule that says no, not one that could not be worked out').not.toMatchObject({ code: 'PREDICATE_ERROR' });
          }
        }),
        { numRuns: 700, seed: 7 },
      );
      expect([...reached.keys()].sort()).toEqual(rulesOf(edition));
    });
  });
} else {
  test('the store has no data beside this checkout (../shared/data/tau-retail), so the rules of the contracts are not held against its own', () => {
    expect(recorded).toBe(false);
  });
}

function rulesOf(edition: Edition): string[] {
  const both = [
    'GIFT_CARD_TOO_SMALL', 'ITEMS_NOT_IN_ORDER', 'LENGTHS_DIFFER', 'NOT_DELIVERED', 'NOT_PAID_EXACTLY_ONCE', 'NOT_PENDING',
    'PAYMENT_METHOD_NOT_ALLOWED', 'PAYMENT_METHOD_UNKNOWN', 'SAME_PAYMENT_METHOD', 'VARIANT_NOT_AVAILABLE', 'accepted',
  ];
  return [...both, ...(edition === 'tau2' ? ['SAME_ITEM'] : [])].sort();
}

/** Mostly sensible, so that every rule is the first to fail now and then. */
function argumentsFor({ tool, picks, lengths, method, methodOf, reason }: Proposal, order: Order, data: RetailData): JsonObject {
  const items = picks.map(({ item, odd }) => (odd === 'item' ? '0000000000' : (order.items[item % order.items.length] as Item).item_id));
  const fitting = picks.map((pick) => replacementFor(pick, order, data));
  const replacements = lengths === 'equal' ? fitting : lengths === 'fewer' ? fitting.slice(1) : [...fitting, ...fitting.slice(0, 1)];
  const payer = methodOf === 'owner' ? order.user_id : 'ivan_santos_6635';
  const methods = Object.keys(data.users[payer]?.payment_methods ?? {});
  const payment_method_id = methods[method % methods.length] as string;
  const { order_id } = order;
  switch (tool) {
    case 'cancel_pending_order':
      return { order_id, reason };
    case 'modify_pending_order_payment':
      return { order_id, payment_method_id };
    case 'modify_pending_order_address':
      return { order_id, address1: '1 Elm Street', address2: '', city: 'Austin', state: 'TX', country: 'USA', zip: '78712' };
    case 'return_delivered_order_items':
      return { order_id, item_ids: items, payment_method_id };
    default:
      return { order_id, item_ids: items, new_item_ids: replacements, payment_method_id };
  }
}

function replacementFor({ item, variant, odd }: Proposal['picks'][number], order: Order, data: RetailData): string {
  const old = order.items[item % order.items.length] as Item;
  if (odd === 'same') return old.item_id;
  const products = Object.values(data.products);
  const product = odd === 'variant' ? products[variant % products.length] : data.products[old.product_id];
  const variants = Object.values(product?.variants ?? {});
  const available = variants.filter((each) => each.available);
  const from = variant % 4 === 0 || available.length === 0 ? variants : available;
  return from[variant % from.length]?.item_id as string;
}
