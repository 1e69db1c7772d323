/** Operations end under the contract that they began with: a stored source gives the same plans again, quickly, whatever has become stricter since. */
import { expect, test } from 'vitest';
import { compileFolder, compileSource } from '../../src/contract/compile.js';
import { EvaluationError, type ToolPlan } from '../../src/contract/plan.js';
import { catalogueOf, retailFolder } from './fixture.js';

const fresh = catalogueOf(compileFolder(retailFolder, {}));
const again = (source = fresh.source) => catalogueOf(compileSource(source, {}));

test('every member of every plan is there again and says the same', () => {
  const loaded = again();
  expect([...loaded.tools.keys()].sort()).toEqual([...fresh.tools.keys()].sort());
  for (const [name, plan] of fresh.tools) {
    const other = loaded.tools.get(name)!;
    expect(Object.keys(other).sort()).toEqual(Object.keys(plan).sort());
    expect(described(other)).toEqual(described(plan));
    expect(Object.isFrozen(other)).toBe(true);
  }
});

/** Without functions, whose sameness the examples show, and without the tools that it refers to, which are compared on their own. */
function described(plan: ToolPlan): unknown {
  return JSON.parse(
    JSON.stringify(plan, (key, value: unknown) => {
      if (key === 'tool') return (value as ToolPlan).name;
      if (key === 'type' && typeof value === 'string') return value.replace(/_\d+/g, ''); // classes are numbered as they come
      return value instanceof Set ? [...value].sort() : value;
    }),
  );
}

test('plans refer to each other, in circles too, and not to copies', () => {
  const { tools } = again();
  const credit = tools.get('issue_credit')!;
  expect(credit.entity!.observation!.tool).toBe(tools.get('get_order'));
  expect(credit.readback!.tool).toBe(tools.get('get_credit_receipt'));
  expect(tools.get('get_order')!.entity!.observation!.tool).toBe(tools.get('get_order'));
});

test('its arguments are held to its schema as before', () => {
  const { checkArguments, admitResult } = again().tools.get('issue_credit')!;
  expect(checkArguments({ order_id: 'O-417', amount: 2500, currency: 'GBP' })).toMatchObject({ ok: true });
  expect(checkArguments({ order_id: 'O-417', amount: 0, currency: 'GBP' })).toMatchObject({ ok: false, errors: [{ pointer: '/amount' }] });
  expect(admitResult({ receipt_id: 'rc_1', amount: 1, more: true })).toEqual({ result: { receipt_id: 'rc_1', amount: 1 } });
  expect(admitResult({ amount: 1 })).toBeNull();
});

test('what this version no longer admits fails where it is used, is refused there, and takes nothing else along', () => {
  const stricter = fresh.source.replace('args.amount <= order.refundable', 'dyn(args.amount) <= order.refundable');
  const credit = again(stricter).tools.get('issue_credit')!;
  const scope = { args: { order_id: 'O-417', amount: 1, currency: 'GBP' }, bound: { customer_id: 'C-17' }, order: { version: '"7"' }, operation: { id: 'op_1' } };
  expect(() => credit.preconditions.concat(credit.relations)[0]!.check.evaluate({ ...scope })).toThrow(EvaluationError);
  expect(credit.render(scope).url).toContain('/orders/O-417/credits');
});

test('an address that cannot be read from the environment is told at once', () => {
  const needs = fresh.source.replace('${RETAIL_URL:-http://127.0.0.1:8090}', '${RETAIL_URL}');
  expect(compileSource(needs, {})).toMatchObject({ diagnostics: [{ code: 'CG009' }] });
});
