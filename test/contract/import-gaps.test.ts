/** A question that nobody answered must stop the contract at its line, alone: not as a type error, not as silence. */
import { describe, expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { folderWith, mutated, retailText } from './fixture.js';

const found = (dir: string) => {
  const result = compileFolder(dir, {});
  return 'diagnostics' in result ? result.diagnostics.map(({ line, column, code, message }) => ({ line, column, code, message })) : [];
};

describe('an open question', () => {
  test.each([
    ['effect: irreversible', 'effect: "GAP: write or irreversible"'],
    ['settle_after: 10s', 'settle_after: "GAP: how long"'],
    ['check: args.amount <= order.refundable', 'check: "GAP: what must hold"'],
    ['max_age: 5s', 'max_age: "GAP: how old"'],
    ['base_url: ${RETAIL_URL:-http://127.0.0.1:8090}', 'base_url: "GAP: where it is"'],
    ['purpose: Take back one store credit that was given before.', 'purpose: GAP'],
  ])('in place of %s is reported once for each place, there', (from, to) => {
    const { dir, text } = mutated(from, to);
    const at = text.split('\n').flatMap((line, index) => (line.includes(to) ? [{ line: index + 1, column: line.indexOf('GAP') + (to.includes('"') ? 0 : 1) }] : []));
    const reported = found(dir).filter(({ code }) => code !== 'CG106');
    expect(reported.map(({ line, column }) => ({ line, column }))).toEqual(at);
    expect(new Set(reported.map(({ code }) => code))).toEqual(new Set(['CG901']));
  });

  test('stands in place of a whole member, and says itself what to find out', () => {
    const { dir } = mutated('    identity: { scope: intent, arguments: [order_id, amount, currency] }', '    identity: "GAP: what makes two calls the same"');
    expect(found(dir)).toMatchObject([{ code: 'CG901', message: '`tools.issue_credit.identity` is not answered: what makes two calls the same' }]);
  });

  test('is not every text with these letters', () => {
    expect(found(folderWith(retailText.replace('Take back one', 'GAPS take back one')).dir)).toEqual([]);
  });
});
