/** An evaluation that expects the wrong thing calls a right gateway wrong, or worse: these follow from the contract alone. */
import { describe, expect, test } from 'vitest';
import { compileFolder } from '../../../src/contract/compile.js';
import { evaluatorView } from '../../../src/contract/views/evaluator.js';
import { dispositions, nextActions } from '../../../src/model.js';
import { problems } from '../../../src/errors.js';
import { catalogueOf, retailFolder } from '../fixture.js';
import { voidCreditWithoutReadback } from './without.js';

const catalogue = catalogueOf(compileFolder(retailFolder, {}));
const view = evaluatorView(catalogue);
const tool = (name: string, of = view) => of.tools.find((each) => each.tool === name)!;

describe('the evaluator view', () => {
  test('has every tool under its digest, and is plain JSON', () => {
    expect(view.digest).toBe(catalogue.digest);
    expect(view.tools.map(({ tool: name, digest }) => [name, digest])).toEqual([...catalogue.tools.values()].map(({ name, digest }) => [name, digest]));
    expect(JSON.parse(JSON.stringify(view))).toEqual(view);
  });

  test('has each state of the entity with the action: done where the table says so, refused with what is legal elsewhere', () => {
    expect(tool('issue_credit').states).toEqual([
      { entity: 'order', state: 'PENDING', next_state: null, expect: { disposition: 'transition_error', code: 'TRANSITION_ERROR', legal_actions: ['cancel_order'] } },
      { entity: 'order', state: 'DELIVERED', next_state: 'DELIVERED', expect: { disposition: 'executed', next_action: 'continue' } },
      { entity: 'order', state: 'CANCELLED', next_state: null, expect: { disposition: 'transition_error', code: 'TRANSITION_ERROR', legal_actions: [] } },
    ]);
  });

  test('has each rule broken, each mapped answer, each approval and each repeat with what is to come of it', () => {
    const { rules, answers, approvals, repeats, examples } = tool('issue_credit');
    expect(rules).toEqual([{ id: 'within_balance', broken: 'args.amount <= order.refundable', expect: { disposition: 'precondition_failed', code: 'AMOUNT_EXCEEDS_BALANCE', next_action: 'ask' } }]);
    expect(answers.map(({ expect: { disposition, next_action: next } }) => [disposition, next])).toEqual([
      ['version_conflict', 'refresh'], ['rejected', 'escalate'], ['rejected', 'refresh'], ['rejected', 'abandon'], ['rejected', 'retry'],
    ]);
    expect(approvals.map(({ by, approvals: count, expect: { next_action: next } }) => [by, count, next])).toEqual([['application', 1, 'ask'], ['reviewer', 2, 'escalate']]);
    expect(repeats.map(({ expect: { disposition }, effects }) => [disposition, effects])).toEqual([['replayed', 1], ['id_conflict', 1], ['replayed', 1]]);
    expect(examples).toEqual([{ order_id: 'O-417', amount: 2500, currency: 'GBP' }]);
  });

  test('asks afterwards what the contract asks: read-back, what changed and what never may', () => {
    expect(tool('issue_credit').postconditions).toEqual({
      readback: { tool: 'get_credit_receipt', args: { request_key: 'operation.id' }, committed: 'result.count == 1 && result.amount == args.amount', absent: 'result.count == 0', settle_after_ms: 10_000, lag_ms: 0 },
      changes: ['order.refundable', 'order.version'],
      never: ['order.status'],
      observe: { entity: 'order', tool: 'get_order', state: 'order.status' },
    });
  });

  test('a write is torn before, while and after it is sent, and has one effect where the service did it, never two', () => {
    const { faults } = tool('issue_credit');
    for (const { upstream, effects } of faults) {
      expect(effects.max).toBeLessThanOrEqual(1);
      if (upstream === 'commits') expect(effects.min).toBe(1);
    }
    expect(faults.find(({ fault, upstream }) => upstream === 'commits' && fault.includes('500'))).toMatchObject({ settled_by: 'read_back', finally: [{ disposition: 'executed' }] });
    expect(faults.find(({ fault }) => fault.includes('read-back cannot be made'))).toMatchObject({ finally: [{ disposition: 'review', next_action: 'escalate' }] });
  });

  test('without a read-back a lost answer ends with the same key, and without a key with a person', () => {
    const lost = (keyed: boolean) => tool('void_credit', evaluatorView(voidCreditWithoutReadback(keyed))).faults.find(({ upstream }) => upstream === 'commits');
    expect(lost(true)).toMatchObject({ settled_by: 'send_again_under_the_same_key', finally: [{ disposition: 'executed' }], effects: { min: 1, max: 1 } });
    expect(lost(false)).toMatchObject({ settled_by: 'review', finally: [{ disposition: 'review' }], effects: { min: 1, max: 1 } });
  });

  test('a read has no effect whatever happens to it', () => {
    const { faults, states, repeats } = tool('get_order');
    expect(faults.length).toBeGreaterThan(2);
    for (const { effects } of faults) expect(effects).toEqual({ min: 0, max: 0 });
    expect([states, repeats]).toEqual([[], []]);
  });

  test('expects only words and codes that the gateway has', () => {
    const expectations = view.tools.flatMap(({ states, rules, answers, approvals, repeats, faults }) => [
      ...[...states, ...rules, ...answers, ...approvals, ...repeats].map(({ expect: each }) => each),
      ...faults.flatMap((fault) => fault.finally),
    ]);
    for (const { disposition, next_action: next } of expectations) {
      expect(dispositions).toContain(disposition);
      if (next !== undefined) expect(nextActions).toContain(next);
    }
    for (const code of ['TRANSITION_ERROR', 'ID_CONFLICT']) expect(problems).toHaveProperty(code);
  });
});
