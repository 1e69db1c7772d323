/** `callgate policy test`: what it says of a case is what the gate would decide, and a case that proves nothing is never said to hold. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { policy } from '../../src/cli/policy.js';
import { UsageError } from '../../src/cli/usage.js';
import { compileFolder } from '../../src/contract/compile.js';
import type { Catalogue } from '../../src/contract/plan.js';
import { parseContractFile } from '../../src/contract/yaml-file.js';
import { decideResource, decideTool } from '../../src/gate/authorize.js';
import type { Principal } from '../../src/model.js';
import { type CaseResult, type PolicySet, runCases } from '../../src/policy/cases.js';
import { loadPolicies } from '../../src/policy/cedar.js';
import { policySchemaOf } from '../../src/policy/schema.js';
import { projectFile } from '../../src/project.js';

const folder = projectFile('examples', 'retail', 'contracts');
const cases = readFileSync(join(folder, 'policies', 'retail.cases.yaml'), 'utf8');
const cedar = readFileSync(join(folder, 'policies', 'retail.cedar'), 'utf8');

function compiled(dir: string): Catalogue {
  const { catalogue } = compileFolder(dir, {}) as { catalogue: Catalogue };
  return catalogue;
}
const catalogue = compiled(folder);
const schema = policySchemaOf(catalogue.tools.values());
const set: PolicySet = { tools: catalogue.tools, schema, engine: loadPolicies(catalogue.policies, schema) };

function ran(text: string, policies?: string): CaseResult[] {
  const parsed = parseContractFile('some.cases.yaml', text);
  if (!('source' in parsed)) throw new Error(JSON.stringify(parsed.diagnostics));
  return runCases(parsed.source, policies === undefined ? set : { ...set, engine: loadPolicies([{ file: 'p.cedar', text: policies }], schema) });
}

const changed = (...changes: [string, string][]): string => changes.reduce((text, [from, to]) => {
  if (!text.includes(from)) throw new Error(`the cases no longer say \`${from}\``);
  return text.replace(from, () => to);
}, cases);

describe('the cases of the example', () => {
  test('hold, each with who decided it', () => {
    const results = ran(cases);
    expect(results).toHaveLength(9);
    expect(results.filter(({ problem }) => problem !== null)).toEqual([]);
    expect(results[2]).toMatchObject({ decided: 'deny', by: ['nobody-crosses-tenants'], question: 'resource', line: 20 });
  });

  test('notice each policy that is taken away', () => {
    const policies = cedar.split(/(?=@id|\/\/)/).filter((text) => text.startsWith('@id'));
    expect(policies).toHaveLength(4);
    for (const gone of policies) expect(ran(cases, cedar.replace(gone, '')).some(({ problem }) => problem !== null), gone).toBe(true);
  });

  test('with the opposite expected, none holds', () => {
    const opposite = ran(cases.replaceAll('expect: allow', 'expect: ALLOW').replaceAll('expect: deny', 'expect: allow').replaceAll('expect: ALLOW', 'expect: deny'));
    expect(opposite.map(({ problem }) => problem)).toEqual(opposite.map(() => expect.stringMatching(/^expected (allow|deny), and it is (denied|allowed) /)));
  });
});

describe('a case that proves nothing is wrong', () => {
  const wrong: [what: string, change: [string, string], problem: RegExp][] = [
    ['another policy decides', ['by: [agents-may-use-tools]', 'by: [nobody-crosses-tenants]'], /^expected to be decided by nobody-crosses-tenants, and it is decided by agents-may-use-tools$/],
    ['a policy decides where none was expected', ['by: [agents-may-use-tools]', 'by: []'], /^expected to be decided by no policy/],
    ['arguments that the schema refuses', ['amount: 2500', 'amount: 0'], /^a call with these arguments is refused before policy is asked: `\/amount`/],
    ['an attribute that nothing shows', ['customer_id: U-7, tenant', 'customer: U-7, tenant'], /^no policy is ever shown `customer` of order; it has .*customer_id/],
    ['an attribute is left out that a policy reads', ['customer_id: U-7, tenant: acme', 'tenant: acme'], /^a policy could not be evaluated, which denies: .*customer_id/],
    ['a tool that is none', ['tool: get_order', 'tool: get_ordre'], /^there is no tool `get_ordre`$/],
    ['a principal that is none', ['principal: of-nobody\n    expect', 'principal: of-everybody\n    expect'], /^there is no principal `of-everybody`/],
    ['no principal', ['    principal: of-nobody\n    expect', '    expect'], /does not say who asks/],
    ['nothing expected', ['    expect: allow\n    by', '    by'], /does not say what is to be decided/],
    ['no word about the resource', ['    resource: null\n', ''], /say what was observed of it under `resource`, or `resource: null`/],
    ['a resource of a tool that acts on none', ['tool: convert_temperature', 'tool: convert_temperature\n    resource: { a: 1 }'], /policy is never shown a resource$/],
  ];
  test.each(wrong)('%s', (_, change, problem) => {
    const found = ran(changed(change)).filter((result) => result.problem !== null);
    expect(found.length).toBeGreaterThan(0);
    expect(found[0]?.problem).toMatch(problem);
  });

  test('the form of the file is held to, at its place, all at once', () => {
    const found = ran(changed(['roles: [agent], subject: U-7 }\n  of-nobody', 'roles: [agnt], subject: U-7 }\n  of-nobody'], ['    resource: null', '    resouce: null'], ['callgate_policy_cases: 1', 'callgate_policy_cases: 2']));
    expect(found.map(({ line, problem }) => [line, problem])).toEqual(expect.arrayContaining([
      [2, expect.stringContaining('callgate_policy_cases')], [5, expect.stringContaining('roles')], [34, expect.stringContaining('resouce')],
    ]));
  });
});

describe('what it decides is what the gate decides', () => {
  const text = fc.constantFrom('U-7', 'U-8', '');
  const tenant = fc.constantFrom('acme', 'globex');
  const any = fc.record({
    roles: fc.subarray(['agent', 'reviewer'] as const), subject: text, tenant, purpose: fc.constantFrom('refund', 'support', ''), untrusted: fc.boolean(),
    customer: text, owner: tenant, tool: fc.constantFrom('issue_credit', 'cancel_order', 'quote_credit'),
  });
  /** Half of them by whom it belongs to, since that is rare among the others. */
  const asked = fc.oneof(any, any.map((one) => ({ ...one, roles: ['agent' as const], subject: 'U-7', customer: 'U-7', owner: one.tenant, purpose: 'refund' })));
  const policies = `${cedar}\n@id("nothing-after-foreign-text") forbid (principal, action == Action::"cancel_order", resource) when { context.untrusted };`;
  const engine = loadPolicies([{ file: 'p.cedar', text: policies }], schema);

  test('over principals, purposes, sessions and resources', () => {
    const seen = { allow: 0, tool: 0, resource: 0 };
    fc.assert(fc.property(asked, ({ roles, subject, tenant: of, purpose, untrusted, customer, owner, tool: name }) => {
      const args = { issue_credit: { order_id: 'O-1', amount: 1, currency: 'GBP' }, cancel_order: { order_id: 'O-1' }, quote_credit: { order_id: 'O-1', amount: 1 } }[name];
      const resource = { order_id: 'O-1', status: 'DELIVERED', refundable: 1, currency: 'GBP', customer_id: customer, tenant: owner };
      const principal: Principal = { tenant: of, id: 'p', roles, subject: subject || null, purposes: [], tools: '*', grants: { assertSubject: false, ownKeys: false } };
      const call = { principal, envelope: { subject, purpose }, args, untrusted };
      const tool = catalogue.tools.get(name);
      if (!tool) throw new Error(name);
      const byGate = decideTool(engine, { ...call, untrusted: false }, tool).allowed && decideTool(engine, call, tool).allowed
        ? { question: 'resource', ...decideResource(engine, call, name, { type: 'order', id: 'O-1', attributes: resource }) } : { question: 'tool', allowed: false };

      const row = { name: 'it', tool: name, principal: { tenant: of, id: 'p', roles, ...(subject ? { subject } : {}) }, purpose, untrusted, args, resource, expect: byGate.allowed ? 'allow' : 'deny' };
      const [result] = ran(JSON.stringify({ callgate_policy_cases: 1, cases: [row] }), policies);
      expect(result).toMatchObject({ problem: null, question: byGate.question });
      seen[byGate.allowed ? 'allow' : (byGate.question as 'tool' | 'resource')]++;
    }), { numRuns: 800 });
    for (const n of Object.values(seen)) expect(n).toBeGreaterThan(10);
  });
});

describe('the command', () => {
  async function run(...args: string[]): Promise<{ status: number; out: string }> {
    const out: string[] = [];
    vi.spyOn(console, 'log').mockImplementation((line: string) => void out.push(line));
    return { status: await policy(['test', ...args]), out: out.join('\n') };
  }
  afterEach(() => { vi.restoreAllMocks(); });

  test('is 0 where all hold, and says which policies no case was about', async () => {
    const { status, out } = await run(folder);
    expect(status).toBe(0);
    expect(out).toContain('9 of 9 cases hold.');
    expect(out).not.toContain('No case was decided by');
    const one = join(mkdtempSync(join(tmpdir(), 'callgate-cases-')), 'one.cases.yaml');
    writeFileSync(one, changed(['cases:\n', 'cases:\n  - { name: all, tool: get_credit_receipt, principal: of-nobody, expect: allow }\nx:\n']).split('\nx:')[0] as string);
    expect((await run(folder, '--cases', one)).out).toContain('No case was decided by reviewers-take-credits-back, agents-act-on-orders-of-their-customer, nobody-crosses-tenants.');
  });

  test('is 1 where one does not, at its line, and lies beside contracts without being one', async () => {
    const copy = mkdtempSync(join(tmpdir(), 'callgate-cases-'));
    cpSync(folder, copy, { recursive: true });
    writeFileSync(join(copy, 'more.cases.yaml'), changed(['by: [agents-may-use-tools]', 'by: []']));
    const { status, out } = await run(copy);
    expect(status).toBe(1);
    expect(out).toMatch(/^WRONG .*more\.cases\.yaml:25:5 who only looks needs no purpose: expected to be decided by no policy/m);
    expect(out).toContain('17 of 18 cases hold.');
    const { cases: told, untried } = JSON.parse((await run(copy, '--format', 'json')).out) as { cases: CaseResult[]; untried: string[] };
    expect(told.filter(({ problem }) => problem !== null)).toMatchObject([{ line: 25, column: 5, decided: 'allow', by: ['agents-may-use-tools'] }]);
    expect(untried).toEqual([]);
  });

  test('finds nothing to do: that is told, and is no success', async () => {
    const empty = mkdtempSync(join(tmpdir(), 'callgate-cases-'));
    cpSync(join(folder, 'retail.yaml'), join(empty, 'retail.yaml'));
    cpSync(join(folder, 'policies', 'retail.cedar'), join(empty, 'policies', 'retail.cedar'));
    await expect(run(empty)).rejects.toThrow(UsageError);
    await expect(run(folder, '--cases', '/nowhere')).rejects.toThrow(UsageError);
    await expect(policy(['tset'])).rejects.toThrow(UsageError);
  });
});
