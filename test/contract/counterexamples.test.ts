/** What a model is shown as wrong is wrong, by the very rules that will refuse it. */
import { expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { mutated } from './fixture.js';

const relation = '    preconditions:\n      - { id: whole_pounds, check: args.amount % 100 == 0, otherwise: { code: NOT_WHOLE } }\n';
const withCounterexample = (args: string) =>
  compileFolder(mutated('    preconditions:\n', `    counterexamples: [{ args: ${args}, why: Never. }]\n${relation}`).dir, {});

test.each([
  ['the schema', '{ order_id: O-417, amount: 0, currency: GBP }'],
  ['the schema, which is closed', '{ order_id: O-417, amount: 100, currency: GBP, customer_id: C-18 }'],
  ['a relation', '{ order_id: O-417, amount: 150, currency: GBP }'],
])('a counterexample that %s refuses is taken, and shown', (_, args) => {
  const result = withCounterexample(args);
  if (!('catalogue' in result)) throw new Error(JSON.stringify(result.diagnostics));
  expect(result.catalogue.tools.get('issue_credit')!.counterexamples).toEqual([{ args: expect.objectContaining({ order_id: 'O-417' }), why: 'Never.' }]);
});

test('one that only the world could refuse is not', () => {
  expect(withCounterexample('{ order_id: O-417, amount: 50000, currency: GBP }')).toMatchObject({ diagnostics: [{ code: 'CG618' }] });
});
