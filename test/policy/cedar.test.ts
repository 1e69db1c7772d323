import { isAuthorized } from '@cedar-policy/cedar-wasm/nodejs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { loadPolicies } from '../../src/policy/cedar.js';
import type { PolicyEngine, PolicyRequest } from '../../src/policy/decision.js';

function engineOf(...texts: string[]): PolicyEngine {
  const loaded = loadPolicies(texts.map((text, index) => ({ file: `p${index}.cedar`, text })));
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems));
  return loaded.engine;
}

function problemsOf(...texts: string[]) {
  const loaded = loadPolicies(texts.map((text, index) => ({ file: `p${index}.cedar`, text })));
  return 'problems' in loaded ? loaded.problems : [];
}

function request(over: Partial<PolicyRequest> = {}): PolicyRequest {
  return {
    principal: {
      tenant: 'acme', id: 'bot', roles: ['agent'], subject: 'u-1', purposes: ['refund'], tools: '*',
      grants: { assertSubject: false, ownKeys: false },
    },
    subject: 'u-1', purpose: 'refund', action: 'issue_credit',
    resource: { type: 'order', id: 'O-417', attributes: { customer_id: 'u-1', tenant: 'acme', refundable: 5000 } },
    args: { order_id: 'O-417', amount: 2500 },
    ...over,
  };
}

const retail = `
@id("use-tools")
permit (principal, action, resource is Tool) when { principal.roles.contains("agent") };

@id("own-orders")
permit (principal, action == Action::"issue_credit", resource is order)
when { resource.customer_id == principal.subject && context.purpose == "refund" };

@id("ceiling")
forbid (principal, action == Action::"issue_credit", resource is order) when { context.args.amount > 50000 };
`;

describe('deciding', () => {
  test('nothing is permitted without a policy that permits it', () => {
    expect(engineOf().decide(request())).toEqual({ allowed: false, determining: [], errors: [] });
  });

  test('a permit names the policy that decided, by its @id or by its place in the file', () => {
    expect(engineOf(retail).decide(request())).toEqual({ allowed: true, determining: ['own-orders'], errors: [] });
    expect(engineOf('\n\npermit (principal, action, resource);').decide(request()).determining).toEqual(['p0.cedar:3:1']);
  });

  test('a forbid wins over a permit', () => {
    const decision = engineOf(retail).decide(request({ args: { amount: 50001 } }));
    expect(decision).toEqual({ allowed: false, determining: ['ceiling'], errors: [] });
  });

  test('subject, tenant, roles, purpose and tool reach the policies', () => {
    const engine = engineOf(`permit (principal == Principal::"bot", action == Action::"issue_credit", resource == order::"O-417")
      when { principal.tenant == "acme" && principal.subject == "u-1" && principal.roles == ["agent"] && context.purpose == "refund" };`);
    expect(engine.decide(request()).allowed).toBe(true);
    expect(engine.decide(request({ subject: 'u-2' })).allowed).toBe(false);
    expect(engine.decide(request({ subject: null })).allowed).toBe(false);
    expect(engine.decide(request({ purpose: null })).allowed).toBe(false);
    expect(engine.decide(request({ action: 'void_credit' })).allowed).toBe(false);
  });

  test('a forbid that fails to evaluate denies, although Cedar itself would permit', () => {
    const engine = engineOf(`permit (principal, action, resource); @id("broken") forbid (principal, action, resource) when { context.args.nothing > 1 };`);
    const decision = engine.decide(request());
    expect(decision.allowed).toBe(false);
    expect(decision.errors).toEqual([expect.stringMatching(/^broken: .*nothing/)]);
  });

  test('a resource type that is no Cedar name denies and does not throw', () => {
    const decision = engineOf('permit (principal, action, resource);').decide(request({ resource: { type: 'if', id: 'x', attributes: {} } }));
    expect(decision.allowed).toBe(false);
    expect(decision.errors).toHaveLength(1);
  });

  test('text that Cedar cannot take denies and does not throw', () => {
    const engine = engineOf('permit (principal, action, resource) when { context.args has x };');
    expect(engine.decide(request({ args: { x: '\ud800' } }))).toMatchObject({ allowed: false, errors: [expect.any(String)] });
  });

  test('what a caller does to a decision does not reach the next one', () => {
    const engine = engineOf(retail);
    engine.decide(request()).determining.push('forged');
    expect(engine.decide(request()).determining).toEqual(['own-orders']);
  });
});

describe('values', () => {
  const when = (condition: string) => engineOf(`permit (principal, action, resource) when { ${condition} };`);

  test.each([
    ['an entity', { __entity: { type: 'Principal', id: 'bot' } }, 'context.args.x == principal'],
    ['an extension value', { __extn: { fn: 'decimal', arg: '0.5' } }, 'context.args.x.lessThan(decimal("1.0"))'],
    ['an expression', { __expr: 'principal' }, 'context.args.x == principal'],
    ['an entity among others', { __entity: { type: 'Principal', id: 'bot' }, y: 1 }, 'context.args.x has y'],
    ['an entity in a list', [[{ __entity: { type: 'Principal', id: 'bot' } }]], '!(context.args.x.isEmpty())'],
  ])('an argument cannot pass itself off as %s', (_, x, condition) => {
    const decision = when(condition).decide(request({ args: { x } }));
    expect(decision.allowed).toBe(false);
    expect(decision.errors).toEqual([expect.stringContaining('which Cedar reserves')]);
  });

  test('neither the whole of the arguments nor an observed attribute can be an entity', () => {
    const forged = { __entity: { type: 'Principal', id: 'bot' } };
    expect(when('context.args == principal').decide(request({ args: forged })).allowed).toBe(false);
    expect(when('resource.owner == principal').decide(request({ resource: { type: 'order', id: 'O-1', attributes: { owner: forged } } })).allowed).toBe(false);
  });

  test('a limit is not passed by a number that Cedar has no integer for', () => {
    const engine = engineOf(`permit (principal, action, resource); forbid (principal, action, resource) when { context.args has amount && context.args.amount > 100 };`);
    expect(engine.decide(request({ args: { amount: 100 } })).allowed).toBe(true);
    for (const amount of [100.5, 0.1, 1e300, 2 ** 53, 1.00000001]) expect(engine.decide(request({ args: { amount } })).allowed, String(amount)).toBe(false);
  });

  test('a number with up to four decimal places is a decimal', () => {
    const engine = when('context.args.rate.lessThan(decimal("0.25"))');
    expect(engine.decide(request({ args: { rate: 0.2499 } })).allowed).toBe(true);
    expect(engine.decide(request({ args: { rate: -12345.678 } })).allowed).toBe(true);
    expect(engine.decide(request({ args: { rate: 0.25 } })).allowed).toBe(false);
  });

  test('null members are absent, objects are records, arrays are sets', () => {
    const args = { gone: null, nested: { deep: { flag: true } }, tags: ['a', null, 'b', 'a'] };
    expect(when('!(context.args has gone)').decide(request({ args })).allowed).toBe(true);
    expect(when('context.args.nested.deep.flag').decide(request({ args })).allowed).toBe(true);
    expect(when('context.args.tags == ["b", "a"]').decide(request({ args })).allowed).toBe(true);
  });

  test('a member named __proto__ is data', () => {
    const args = JSON.parse('{"x": {"__proto__": {"admin": true}}}');
    expect(when('context.args.x has admin').decide(request({ args })).allowed).toBe(false);
    expect(when('context.args.x["__proto__"].admin').decide(request({ args })).allowed).toBe(true);
  });
});

describe('loading', () => {
  test('a syntax error names file, line and column, counted in characters', () => {
    const problems = problemsOf('permit (principal, action, resource);', '// é€😀\npermit (principal, action, resource) when { context.n == };');
    expect(problems).toEqual([{ file: 'p1.cedar', line: 2, column: 58, message: expect.stringContaining('unexpected token') }]);
  });

  test('all files are reported on in one go', () => {
    expect(problemsOf('permit (', 'forbid (').map(({ file }) => file)).toEqual(['p0.cedar', 'p1.cedar']);
  });

  test('an id used twice is refused, and both places are named', () => {
    const problems = problemsOf('@id("a")\npermit (principal, action, resource);', '\n@id("a") forbid (principal, action, resource);');
    expect(problems).toEqual([{ file: 'p1.cedar', line: 2, column: 1, message: '@id("a") is taken by p0.cedar:1' }]);
  });

  test('a template is refused, since it would never decide anything', () => {
    expect(problemsOf('\n  permit (principal == ?principal, action, resource);')).toMatchObject([{ line: 2, column: 3 }]);
  });

  test('equal policies at two places keep their own ids', () => {
    const twelve = Array.from({ length: 12 }, () => 'permit (principal, action, resource);').join('\n');
    const { determining } = engineOf(twelve).decide(request());
    expect(determining.toSorted()).toEqual(Array.from({ length: 12 }, (_, index) => `p0.cedar:${index + 1}:1`).toSorted());
  });

  test('the version follows the texts and not the order of the files', () => {
    const [a, b] = [{ file: 'a', text: '@id("a") permit (principal, action, resource);' }, { file: 'b', text: '@id("b") forbid (principal, action, resource);' }];
    const version = (...texts: { file: string; text: string }[]) => {
      const loaded = loadPolicies(texts);
      return 'engine' in loaded ? loaded.engine.version : 'not loaded';
    };
    expect(version(a, b)).toBe(version(b, a));
    expect(version(a)).not.toBe(version(b));
    expect(version(a)).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  test('two versions decide side by side, each by its own policies', () => {
    const before = engineOf('permit (principal, action, resource);');
    const after = engineOf('forbid (principal, action, resource);');
    expect([before.decide(request()).allowed, after.decide(request()).allowed, before.decide(request()).allowed]).toEqual([true, false, true]);
  });
});

describe('shortcuts', () => {
  const condition = fc.constantFrom(
    'true', 'context.args.a == 1', 'context.args has b', 'context has args.c.d', 'context.args["a"] > 0', 'resource.s == "x"',
    'resource has t && resource.t', 'context == {"purpose": "refund", "args": {"a": 1}}', 'context.args == {"b": "x"}',
    'context["args"]["c"]["d"]', '{"v": context.args}.v has a', '{"has": context, ".": resource}["has"].args has b',
    'if principal.subject == "u-1" then resource.n < 5 else context.args.a == 2', '[context.args.a, 2].contains(1)', 'resource in order::"O-417"',
  );
  const head = fc.constantFrom('action', 'action == Action::"one"', 'action in Action::"two"', 'action in [Action::"one", Action::"two"]', 'action == Other::Action::"one"');
  const policy = fc.record({ effect: fc.constantFrom('permit', 'forbid'), head, condition })
    .map(({ effect, head, condition }) => `${effect} (principal, ${head}, resource) when { ${condition} };`);
  const args = fc.record({ a: fc.integer({ min: 0, max: 2 }), b: fc.constantFrom('x', 'y'), c: fc.record({ d: fc.boolean() }) }, { requiredKeys: [] });
  const attributes = fc.record({ s: fc.constantFrom('x', 'y'), t: fc.boolean(), n: fc.integer({ min: 3, max: 6 }) }, { requiredKeys: [] });

  test('parsing per tool, passing only what is read, and remembering change no decision', () => {
    fc.assert(fc.property(
      fc.array(policy, { maxLength: 5 }), fc.array(fc.tuple(fc.constantFrom('one', 'two', 'three'), args, attributes), { minLength: 1, maxLength: 4 }),
      (policies, calls) => {
        const engine = engineOf(policies.join('\n'));
        for (const [action, callArgs, resourceAttributes] of [...calls, ...calls]) {
          const decision = engine.decide(request({ action, args: callArgs, resource: { type: 'order', id: 'O-417', attributes: resourceAttributes } }));
          const plain = isAuthorized({
            policies: { staticPolicies: policies.join('\n') },
            principal: { type: 'Principal', id: 'bot' }, action: { type: 'Action', id: action }, resource: { type: 'order', id: 'O-417' },
            context: { purpose: 'refund', args: callArgs },
            entities: [
              { uid: { type: 'Principal', id: 'bot' }, attrs: { tenant: 'acme', subject: 'u-1', roles: ['agent'] }, parents: [] },
              { uid: { type: 'order', id: 'O-417' }, attrs: resourceAttributes, parents: [] },
            ],
          });
          if (plain.type === 'failure') throw new Error(plain.errors[0]?.message);
          const { decision: verdict, diagnostics } = plain.response;
          expect(decision.allowed).toBe(verdict === 'allow' && diagnostics.errors.length === 0);
          expect(decision.determining).toHaveLength(diagnostics.reason.length);
          expect(decision.errors).toHaveLength(diagnostics.errors.length);
        }
      },
    ), { numRuns: 150 });
  });

  test('an argument that no policy reads is not even looked at', () => {
    const engine = engineOf(retail);
    expect(engine.decide(request({ args: { amount: 1, note: { __entity: { type: 'Principal', id: 'bot' } } } })).allowed).toBe(true);
  });
});
