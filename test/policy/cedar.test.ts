import { isAuthorized } from '@cedar-policy/cedar-wasm/nodejs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { loadPolicies } from '../../src/policy/cedar.js';
import type { PolicyEngine, PolicyRequest } from '../../src/policy/decision.js';
import { readPolicies } from '../../src/policy/read.js';
import { object, schemaOf } from './governed.js';

const text = { type: 'string' };
const flags = object({ flag: { type: 'boolean' } });
const args = object({
  order_id: text, amount: { type: 'integer' }, rate: { type: 'number' }, text, gone: text, tags: { type: 'array', items: { type: ['string', 'null'] } },
  nested: object({ deep: flags }), forged: object({ __entity: flags, y: { type: 'integer' } }), x: object({ admin: { type: 'boolean' } }),
  a: { type: 'integer' }, b: text, c: object({ d: { type: 'boolean' } }),
});
const order = object({ customer_id: text, tenant: text, refundable: { type: 'integer' }, owner: text, s: text, t: { type: 'boolean' }, n: { type: 'integer' } });
const acts = { args, entity: 'order' };
const schema = schemaOf({ issue_credit: acts, void_credit: acts, one: acts, two: acts, three: acts }, { order });

const files = (texts: string[]) => texts.map((one, index) => ({ file: `p${index}.cedar`, text: one }));

function engineOf(...texts: string[]): PolicyEngine {
  return loadPolicies(files(texts), schema);
}

function problemsOf(...texts: string[]) {
  return readPolicies(files(texts)).problems;
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
    untrusted: false,
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
    const engine = engineOf('permit (principal, action, resource) when { context.args has text };');
    expect(engine.decide(request({ args: { text: '\ud800' } }))).toMatchObject({ allowed: false, errors: [expect.any(String)] });
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
    ['an entity', { __entity: { type: 'Principal', id: 'bot' } }, 'context.args.forged == principal'],
    ['an entity in the place of text', { __entity: { type: 'Principal', id: 'bot' } }, 'context.args.text == principal'],
    ['an extension value', { __extn: { fn: 'decimal', arg: '0.5' } }, 'context.args.rate.lessThan(decimal("1.0"))'],
    ['an expression', { __expr: 'principal' }, 'context.args.forged == principal'],
    ['an entity in a list', [{ __entity: { type: 'Principal', id: 'bot' } }], '!(context.args.tags.isEmpty())'],
  ])('an argument cannot pass itself off as %s', (_, value, condition) => {
    const name = /args\.(\w+)/.exec(condition)?.[1] as string;
    expect(when(condition).decide(request({ args: { [name]: value as never } })).allowed).toBe(false);
  });

  test('members that Cedar gives a meaning of its own are not passed, those beside them are', () => {
    const forged = { __entity: { type: 'Principal', id: 'bot' }, y: 1 };
    expect(when('context.args.forged has y').decide(request({ args: { forged } })).allowed).toBe(true);
  });

  test('neither the whole of the arguments nor an observed attribute can be an entity', () => {
    const forged = { __entity: { type: 'Principal', id: 'bot' } };
    expect(when('context.args == principal').decide(request({ args: forged })).allowed).toBe(false);
    expect(when('resource.owner == principal').decide(request({ resource: { type: 'order', id: 'O-1', attributes: { owner: forged } } })).allowed).toBe(false);
  });

  test('a member that no schema names is not there', () => {
    expect(when('context.args has invented').decide(request({ args: { invented: 1 } })).allowed).toBe(false);
    expect(when('!(resource has invented)').decide(request({ resource: { type: 'order', id: 'O-1', attributes: { invented: 1 } } })).allowed).toBe(true);
  });

  test('a limit is not passed by a number that Cedar has no integer for', () => {
    const engine = engineOf(`permit (principal, action, resource); forbid (principal, action, resource) when { context.args has amount && context.args.amount > 100 };`);
    expect(engine.decide(request({ args: { amount: 100 } })).allowed).toBe(true);
    for (const amount of [100.5, 0.1, 1e300, 2 ** 53, 1.00000001]) expect(engine.decide(request({ args: { amount } })).allowed, String(amount)).toBe(false);
  });

  test('a number is a decimal, and what has no exact one is denied, whatever the policy', () => {
    const engine = when('context.args.rate.lessThan(decimal("0.25"))');
    for (const rate of [0.2499, -12345.678, 0, -3]) expect(engine.decide(request({ args: { rate } })).allowed, String(rate)).toBe(true);
    for (const rate of [0.25, 7]) expect(engine.decide(request({ args: { rate } }))).toMatchObject({ allowed: false, errors: [] });
    for (const rate of [0.00001, 1e-7, -1e15, 1e300]) {
      expect(engine.decide(request({ args: { rate } }))).toMatchObject({ allowed: false, errors: [expect.stringContaining('no exact form')] });
    }
  });

  test('null members are absent, objects are records, arrays are sets', () => {
    const given = { gone: null, nested: { deep: { flag: true } }, tags: ['a', null, 'b', 'a'] };
    expect(when('!(context.args has gone)').decide(request({ args: given })).allowed).toBe(true);
    expect(when('context.args.nested.deep.flag').decide(request({ args: given })).allowed).toBe(true);
    expect(when('context.args.tags == ["b", "a"]').decide(request({ args: given })).allowed).toBe(true);
  });

  test('a member named __proto__ is data', () => {
    const given = JSON.parse('{"x": {"__proto__": {"admin": true}}}');
    expect(when('context.args.x has admin').decide(request({ args: given })).allowed).toBe(false);
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
      return loadPolicies(texts, schema).version;
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
    'resource has t && resource.t', 'context == {"purpose": "refund", "untrusted": false, "args": {"a": 1}}', 'context.args == {"b": "x"}',
    'context["args"]["c"]["d"]', '{"v": context.args}.v has a', '{"has": context, ".": resource}["has"].args has b',
    'if principal.subject == "u-1" then resource.n < 5 else context.args.a == 2', '[context.args.a, 2].contains(1)', 'resource in order::"O-417"',
  );
  const head = fc.constantFrom('action', 'action == Action::"one"', 'action in Action::"two"', 'action in [Action::"one", Action::"two"]', 'action == Other::Action::"one"');
  const policy = fc.record({ effect: fc.constantFrom('permit', 'forbid'), head, condition })
    .map(({ effect, head, condition }) => `${effect} (principal, ${head}, resource) when { ${condition} };`);
  const given = fc.record({ a: fc.integer({ min: 0, max: 2 }), b: fc.constantFrom('x', 'y'), c: fc.record({ d: fc.boolean() }) }, { requiredKeys: [] });
  const attributes = fc.record({ s: fc.constantFrom('x', 'y'), t: fc.boolean(), n: fc.integer({ min: 3, max: 6 }) }, { requiredKeys: [] });

  test('parsing per tool, passing only what is read, and remembering change no decision', () => {
    fc.assert(fc.property(
      fc.array(policy, { maxLength: 5 }), fc.array(fc.tuple(fc.constantFrom('one', 'two', 'three'), given, attributes), { minLength: 1, maxLength: 4 }),
      (policies, calls) => {
        const engine = engineOf(policies.join('\n'));
        for (const [action, callArgs, resourceAttributes] of [...calls, ...calls]) {
          const decision = engine.decide(request({ action, args: callArgs, resource: { type: 'order', id: 'O-417', attributes: resourceAttributes } }));
          const plain = isAuthorized({
            policies: { staticPolicies: policies.join('\n') },
            principal: { type: 'Principal', id: 'bot' }, action: { type: 'Action', id: action }, resource: { type: 'order', id: 'O-417' },
            context: { purpose: 'refund', untrusted: false, args: callArgs },
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
    expect(engine.decide(request({ args: { amount: 1, text: { __entity: { type: 'Principal', id: 'bot' } } } })).allowed).toBe(true);
  });
});
