/**
 * A policy that names what is not there, or fails where it is asked, denies everybody or protects nothing, and looks like a rule all the
 * same. Each is refused at its line in the `.cedar` file, with what is wrong and how to mend it.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { compileFolder } from '../../src/contract/compile.js';
import { type DiagnosticCode, diagnosticHelp } from '../../src/contract/diagnostics.js';
import { retailFolder, retailText } from './fixture.js';

const own = readFileSync(join(retailFolder, 'policies/retail.cedar'), 'utf8');

/** The example with another policy behind its own. */
function folder(policy: string, change: (contract: string) => string = (text) => text): string {
  const dir = mkdtempSync(join(tmpdir(), 'callgate-policies-'));
  cpSync(retailFolder, dir, { recursive: true });
  writeFileSync(join(dir, 'policies/retail.cedar'), `${own}\n// é€😀\n${policy}\n`);
  writeFileSync(join(dir, 'retail.yaml'), change(retailText));
  return dir;
}

function found(dir: string): { file: string; code: string; message: string; at: string }[] {
  const result = compileFolder(dir, {});
  if ('catalogue' in result) return [];
  return result.diagnostics.map(({ file, line, column, code, message }) => ({
    file, code, message, at: (readFileSync(join(dir, file), 'utf8').split('\n')[line - 1] ?? '').slice(column - 1),
  }));
}

const order = 'principal, action, resource is order';
const credit = 'principal, action == Action::"issue_credit", resource is order';

describe('refused at its place', () => {
  test.each<[DiagnosticCode, string, string, string, RegExp]>([
    ['CG504', 'an attribute that no observation gives', `forbid (${order}) when { resource.custmer_id == "x" };`, 'resource.custmer_id', /did you mean `customer_id`/],
    ['CG504', 'an attribute of the principal', `forbid (${order}) when { principal.role == "x" };`, 'principal.role', /`role` on entity type `Principal`/],
    ['CG504', 'an argument that the tool does not have', `forbid (${credit}) when { context.args.amuont > 3 };`, 'context.args.amuont', /did you mean `amount`/],
    ['CG504', 'a member of the context', `forbid (${order}) when { context.puprose == "x" };`, 'context.puprose', /did you mean `purpose`/],
    ['CG504', 'an action', 'forbid (principal, action == Action::"issue_credt", resource);', 'Action::"issue_credt"', /did you mean `Action::"issue_credit"`/],
    ['CG504', 'a resource type', 'forbid (principal, action, resource is ordr);', 'ordr', /did you mean `order`/],
    ['CG504', 'a principal type', 'forbid (principal is User, action, resource);', 'User', /`User`/],
    ['CG504', 'an attribute of orders, asked of a Tool as well', 'forbid (principal, action, resource) when { resource.refundable > 3 };', 'resource.refundable', /`Tool`.*resource is/],
    ['CG504', 'an argument, asked of a Tool as well', 'forbid (principal, action == Action::"issue_credit", resource) when { context.args.amount > 3 };', 'context.args.amount', /not found/],
    ['CG504', 'a `has` of what is never there', `forbid (${credit}) when { context.args has amout && context.args.amout > 3 };`, 'has amout', /never true/],
    ['CG505', 'a number compared with text', `forbid (${credit}) when { context.args.amount > "3" };`, '"3"', /expected Long/],
    ['CG505', 'two types compared', `forbid (${order}) when { resource.customer_id == resource.refundable };`, 'resource.customer_id ==', /not compatible/],
    ['CG505', 'text with letters of two scripts', `forbid (${order}) when { resource.customer_id == "c\u0430t" };`, '"c', /./],
    ['CG506', 'an optional attribute without asking', `forbid (${order}) when { resource.version == "7" };`, 'resource.version', /optional attribute `version`/],
    ['CG507', 'an action that no order is asked about', 'forbid (principal, action == Action::"send_survey", resource is order);', 'forbid', /never apply: no action/],
    ['CG507', 'conditions that are false', `forbid (${order}) when { resource.customer_id == "x" && false };`, 'forbid', /never apply: its conditions/],
  ])('%s: %s', (code, _what, policy, at, says) => {
    const dir = folder(policy, (text) => text.replace('\ntools:\n', `\ntools:\n${pureTool('send_survey')}`));
    expect(found(dir)).toEqual([{ file: 'policies/retail.cedar', code, message: expect.stringMatching(says), at: expect.stringMatching(new RegExp(`^${at.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`)) }]);
  });

  function pureTool(name: string): string {
    return `  ${name}:\n    version: 1.0.0\n    effect: none\n    purpose: Ask.\n    args: { type: object }\n    result: { type: object }\n    http: { method: GET, path: /survey }\n`;
  }

  test.each([
    ['currency: { enum: [GBP, EUR] }', 'currency: { enum: [GBP, 3] }', 'resource.currency == "GBP"', 'resource.currency', /not passed to policies: it may be integer or string/],
    ['customer_id: { type: string }', 'customer_id: { type: string }\n        labels: { type: object, additionalProperties: { type: string } }', 'resource has labels', 'has labels', /not passed to policies: its members are not named/],
  ])('CG508: what has no Cedar type, with the reason', (from, to, condition, at, says) => {
    const source = retailText.includes(from) ? from : /currency: \{[^}]*\}/.exec(retailText)![0];
    const dir = folder(`forbid (${order}) when { ${condition} };`, (text) => text.replace(source, to));
    expect(found(dir)).toEqual([{ file: 'policies/retail.cedar', code: 'CG508', message: expect.stringMatching(says), at: expect.stringMatching(new RegExp(`^${at}`)) }]);
  });
});

describe('admitted', () => {
  test.each([
    ['an attribute that is there', `forbid (${order}) when { resource.refundable > 900000 };`],
    ['an argument of the one tool that has it', `forbid (${credit}) when { context.args.amount > 50000 };`],
    ['an argument that only some tools have, after asking', `forbid (${order}) when { context.args has amount && context.args.amount > 50000 };`],
    ['an optional attribute after asking', `forbid (${order}) when { resource has version && resource.version == "0" };`],
    ['the mark of the session', 'forbid (principal, action == Action::"issue_credit", resource) when { context.untrusted };'],
    ['a condition about the kind of resource', 'forbid (principal, action, resource) when { resource is order && resource.refundable > 900000 };'],
    ['everything', '@id("all") permit (principal, action, resource);'],
  ])('%s', (_what, policy) => {
    expect(found(folder(policy))).toEqual([]);
  });
});

describe('what decides an authority', () => {
  const without = (text: string): string => text.replace('check: args.amount <= order.refundable', 'check: args.amount <= 50000');
  const authority = 'authority: [args.amount]';

  function judged(...policies: string[]): string[] {
    const dir = folder('', without);
    writeFileSync(join(dir, 'policies/retail.cedar'), policies.join('\n'));
    return found(dir).map(({ code, at }) => `${code} ${at.split(']')[0]}`);
  }

  const tool = 'permit (principal, action, resource is Tool);';
  const refused = [expect.stringMatching(/^CG501 /)];

  test('the example without its precondition is held by nothing', () => {
    expect(retailText).toContain(authority);
    expect(judged(own)).toEqual(refused);
  });

  test.each([
    ['a limit in a forbid', [tool, `permit (${order});`, `forbid (${credit}) when { context.args.amount > 50000 };`]],
    ['a comparison with what was observed', [tool, `permit (${credit}) when { context.args.amount <= resource.refundable };`]],
    ['a comparison in every permit', [tool, `permit (${credit}) when { principal.subject == "a" && context.args.amount < 5 };`, `permit (${credit}) when { resource.refundable >= context.args.amount };`]],
    ['every branch of a condition', [tool, `permit (${credit}) when { (principal.subject == "a" && context.args.amount < 5) || context.args.amount < 3 };`]],
    ['an unless', [tool, `permit (${order});`, `forbid (${credit}) unless { context.args.amount <= resource.refundable };`]],
    ['a list', [tool, `permit (${credit}) when { [100, 200].contains(context.args.amount) };`]],
  ])('%s holds it', (_what, policies) => {
    expect(judged(...policies)).toEqual([]);
  });

  test.each([
    ['other text of the model', [tool, `permit (${credit}) when { context.args.amount <= context.args.amount };`]],
    ['another argument', [tool, `permit (${credit}) when { context.args.amount < 5 || context.args.currency == "GBP" };`]],
    ['its presence alone', [tool, `permit (${credit}) when { context.args has amount };`]],
    ['a comment', [tool, `permit (${credit}); // context.args.amount < 5`]],
    ['one of two permits', [tool, `permit (${credit}) when { context.args.amount < 5 };`, `permit (${order});`]],
    ['one branch of a condition', [tool, `permit (${credit}) when { principal.subject == "a" || context.args.amount < 5 };`]],
    ['a policy of another tool', [tool, `permit (${order});`, 'forbid (principal, action == Action::"void_credit", resource is order) when { context.args has amount };']],
  ])('%s does not', (_what, policies) => {
    expect(judged(...policies)).toContainEqual(expect.stringMatching(/^CG501 /));
  });
});

test('`callgate check` tells it like any other finding, in every form', () => {
  const dir = folder(`forbid (${order}) when { resource.custmer_id == "x" };`);
  const [before] = readFileSync(join(dir, 'policies/retail.cedar'), 'utf8').split(`forbid (${order}) when { resource.custmer_id`) as [string];
  const line = before.split('\n').length;
  const bin = new URL('../../bin/callgate.mjs', import.meta.url).pathname;
  const run = (format: string): { status: number | null; text: string } => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [bin, 'check', dir, '--format', format], { encoding: 'utf8' });
    return { status, text: format === 'human' ? stderr : stdout };
  };
  const human = run('human');
  expect(human.status).toBe(1);
  expect(human.text).toContain(`policies/retail.cedar:${line}:54: error CG504`);
  expect(human.text).toContain(diagnosticHelp.CG504);
  expect(JSON.parse(run('json').text)).toMatchObject([{ code: 'CG504', line, column: 54 }]);
  expect(JSON.parse(run('sarif').text)).toMatchObject({ runs: [{ results: [{ ruleId: 'CG504', locations: [{ physicalLocation: { region: { startLine: line, startColumn: 54 } } }] }] }] });
});
