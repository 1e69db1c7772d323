import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Line } from '../../src/ledger/line.js';

interface Item { tenant: string; n: number; key?: string }

const line = (room = 1_000): Line<Item> => new Line<Item>({ tenant: ({ tenant }) => tenant, keys: ({ key }) => (key === undefined ? [] : [key]), room });
const many = (tenant: string, count: number, from = 0): Item[] => Array.from({ length: count }, (_, n) => ({ tenant, n: from + n }));
const names = (items: Item[]): string => items.map(({ tenant, n }) => `${tenant}${n}`).join(' ');

/** If this is lost, one tenant that sends a thousand calls makes everybody else wait behind them, or be refused. */
describe('who waits for a flush', () => {
  it('takes turns, tenant by tenant, and each in its own order', () => {
    const one = line();
    for (const item of [...many('a', 6), ...many('b', 2), ...many('c', 1)]) one.add(item);
    expect([names(one.take(4)), names(one.take(4)), names(one.take(4))]).toEqual(['a0 b0 c0 a1', 'b1 a2 a3 a4', 'a5']);
    expect(one.length).toBe(0);
  });

  it('takes whoever was not reached first the next time, however many tenants there are', () => {
    const one = line();
    for (const item of ['a', 'b', 'c', 'd', 'e'].flatMap((tenant) => many(tenant, 2))) one.add(item);
    expect([names(one.take(3)), names(one.take(3)), names(one.take(3))]).toEqual(['a0 b0 c0', 'd0 e0 a1', 'b1 c1 d1']);
  });

  it('loses and doubles nothing, keeps the order of a tenant and of a key, and leaves no room in a batch that it could fill (property)', () => {
    const step = fc.oneof(
      fc.record({ tenant: fc.constantFrom('a', 'b', 'c'), key: fc.option(fc.constantFrom('x', 'y'), { nil: undefined }) }).map(({ tenant, key }) => ({ tenant, key: key && `${tenant}/${key}` })),
      fc.record({ take: fc.integer({ min: 1, max: 6 }) }),
    );
    fc.assert(fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const one = line();
      const [waiting, taken]: [Item[], Item[]] = [[], []];
      for (const [n, each] of steps.entries()) {
        if ('take' in each) {
          const before = [...waiting];
          const batch = one.take(each.take);
          const keys = batch.flatMap(({ key }) => key ?? []);
          expect(new Set(keys).size).toBe(keys.length);
          for (const item of batch) waiting.splice(waiting.indexOf(item), 1);
          taken.push(...batch);
          if (batch.length < each.take) expect(waiting.every((item) => item.key !== undefined && keys.includes(item.key))).toBe(true);
          expectFair(before, batch);
        } else {
          const item: Item = { tenant: each.tenant, n, ...(each.key === undefined ? {} : { key: each.key }) };
          one.add(item);
          waiting.push(item);
        }
        expect(one.length).toBe(waiting.length);
      }
      const rest = one.take(1_000);
      const all = [...taken, ...rest, ...one.take(1_000)];
      expect(new Set(all).size).toBe(all.length);
      for (const key of ['a/x', 'a/y', 'b/x', 'b/y', 'c/x', 'c/y']) expectOrdered(all.filter((item) => item.key === key));
      for (const tenant of ['a', 'b', 'c']) expectOrdered(all.filter((item) => item.tenant === tenant && item.key === undefined));
    }), { numRuns: 300 });
  });

  it('is never full for a tenant that has less than its share in it, and holds no more than its room', () => {
    const one = line(90);
    const fill = (tenant: string): number => {
      let added = 0;
      for (; !one.isFullFor(tenant); added++) one.add({ tenant, n: added });
      return added;
    };
    expect([fill('a'), fill('b'), fill('c')]).toEqual([80, 9, 1]);
    expect(one.length).toBe(90);
    one.take(45);
    expect(one.isFullFor('d')).toBe(false);
  });
});

/** Nobody without a key gets two more than somebody else who had more to give and no key to wait for. */
function expectFair(waiting: Item[], batch: Item[]): void {
  if (waiting.some(({ key }) => key !== undefined)) return;
  const count = (items: Item[], tenant: string): number => items.filter((item) => item.tenant === tenant).length;
  for (const a of ['a', 'b', 'c']) {
    for (const b of ['a', 'b', 'c']) {
      if (count(batch, b) < count(waiting, b)) expect(count(batch, a)).toBeLessThanOrEqual(count(batch, b) + 1);
    }
  }
}

function expectOrdered(items: Item[]): void {
  expect(items.map(({ n }) => n)).toEqual(items.map(({ n }) => n).sort((a, b) => a - b));
}
