/** Deciding for hours. Were it to fail, the whole gateway would: V8 ends the process, and no handler hears of it. */
import { expect, test } from 'vitest';
import { loadPolicies } from '../../src/policy/cedar.js';
import type { PolicyEngine, PolicyRequest } from '../../src/policy/decision.js';
import { object, schemaOf } from './governed.js';

function engineOf(text: string): PolicyEngine {
  return loadPolicies([{ file: 'p.cedar', text }], schemaOf({ issue_credit: { entity: 'order' } }, { order: object({ customer_id: { type: 'string' } }) }));
}

function order(id: string, customer = 'u-1'): PolicyRequest {
  return {
    principal: {
      tenant: 'acme', id: 'bot', roles: ['agent'], subject: 'u-1', purposes: ['refund'], tools: '*', grants: { assertSubject: false, ownKeys: false },
    },
    subject: 'u-1', purpose: 'refund', action: 'issue_credit', args: {}, untrusted: false,
    resource: { type: 'order', id, attributes: { customer_id: customer } },
  };
}

test('a decision that comes back from WebAssembly ten thousands of times over does not bring V8 down', () => {
  const engine = engineOf('permit (principal, action, resource is order) when { resource.customer_id == principal.subject };');
  for (let n = 0; n < 20_000; n++) {
    if (engine.decide(order('O-1', `u-${n}`)).allowed !== (n === 1)) throw new Error(`decision ${n} is wrong`);
  }
}, 60_000);

test.each([
  ['its head', 'permit (principal, action, resource == order::"O-1");'],
  ['a condition', 'permit (principal, action, resource) when { resource == order::"O-1" };'],
  ['a set in a condition', 'permit (principal, action, resource) when { [order::"O-1", order::"O-2"].contains(resource) && resource != order::"O-2" };'],
  ['a parent in its head', 'permit (principal, action, resource is order in order::"O-1");'],
])('a policy that names a resource in %s permits that one alone, however equal another is', (_where, text) => {
  const engine = engineOf(text);
  const allowed = ['O-1', 'O-2', 'O-1', 'O-2'].map((id) => engine.decide(order(id)).allowed);
  expect(allowed).toEqual([true, false, true, false]);
});
