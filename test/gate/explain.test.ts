/** `callgate explain` against a running gateway: which stage, which policy, why, and what became of it; for who may read receipts alone. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { explain } from '../../src/cli/explain.js';
import { UsageError } from '../../src/cli/usage.js';
import { projectFile } from '../../src/project.js';
import { folderWith, retailText } from '../contract/fixture.js';
import { retailGateway, unique } from '../support/gateway.js';

const folder = projectFile('examples', 'retail', 'contracts');
const at = retailGateway();
afterEach(() => { vi.restoreAllMocks(); });

async function run(...args: string[]): Promise<{ status: number; out: string }> {
  const out: string[] = [];
  for (const stream of ['log', 'error'] as const) vi.spyOn(console, stream).mockImplementation((line: string) => void out.push(line));
  return { status: await explain([...args, '--url', at.opened.gateway.controlUrl]), out: out.join('\n') };
}
const asAuditor = (id: string, ...more: string[]) => run(id, '--key', at.house.keys.auditor, ...more);

it('tells of an effect what was observed, who permitted it and what became of it, by receipt or by operation', async () => {
  const answer = await at.opened.agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420' } });
  expect(answer.disposition).toBe('executed');
  const { status, out } = await asAuditor(answer.operation_id as string, '--contracts', folder);
  expect(status).toBe(0);
  expect(out).toMatch(/observed {5}order by get_order, \d+ ms before, version/);
  expect(out).toMatch(/budget {7}\d+ of \d+ executions/);
  expect(out).toMatch(/policies {5}sha256:[0-9a-f]{64}, which are those at hand/);
  expect(out).toMatch(/permitted {2}agents-act-on-orders-of-their-customer {2}policies\/retail\.cedar:\d+\n/);
  expect(out).toContain('               | permit (principal, action, resource is order)\n');
  expect(out).toMatch(/executed, committed, verified by a read-back/);
  expect(out).toContain(`key          ${answer.operation_id}`);
  expect((await asAuditor(answer.receipts.decision as string, '--contracts', folder)).out).toBe(out);
  expect((await asAuditor(answer.receipts.effect as string, '--contracts', folder)).out).toBe(out);
});

it('tells which stage refused, with the policy that forbids, or those that might have permitted', async () => {
  const hidden = await at.opened.as(at.house.keys.otherSubject).credit({ session_id: unique('s'), arguments: { order_id: 'O-420' } });
  expect(hidden.code).toBe('NOT_FOUND');
  const { out } = await asAuditor(hidden.receipts.decision as string, '--contracts', folder);
  expect(out).toMatch(/refused {6}in authorize: NOT_FOUND\. There is no such order for this caller/);
  expect(out).toMatch(/permitted {2}agents-may-use-tools/);
  expect(out).toMatch(/no policy permits it on this resource; these could have, and their conditions did not hold: agents-act-on-orders-of-their-customer \(policies\/retail\.cedar:\d+\)/);
  expect(out).toMatch(/ {2}what to do {3}\S/);

  const elsewhere = await at.opened.as(at.house.keys.otherTenant).credit({ session_id: unique('s'), arguments: { order_id: 'O-420' } });
  const across = await at.opened.control(at.house.keys.auditor).get(`/v1/receipts/${elsewhere.receipts.decision}`);
  expect(across.http).toBe(404); // its own tenant's auditor may read it, this one may not

  const wrong = await at.opened.agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-417', amount: 0 } });
  expect((await asAuditor(wrong.receipts.decision as string)).out).toMatch(/refused {6}in validate: INVALID_ARGUMENTS.*\n {15}\/amount {2}/);

  const overBalance = await at.opened.agent.credit({ session_id: unique('s'), arguments: { amount: 9_999, order_id: 'O-417' } });
  expect(overBalance.disposition).toBe('precondition_failed');
  const told = (await asAuditor(overBalance.receipts.decision as string)).out;
  expect(told).toMatch(/refused {6}in validate: AMOUNT_EXCEEDS_BALANCE/);
  expect(told).toMatch(/permitted {2}agents-may-use-tools$/m);
});

it('tells of a call that runs what is known of it so far, and where it stands', async () => {
  await at.house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 3_000 });
  const { operation_id: id } = await at.opened.agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420', amount: 321 } }, { prefer: 'wait=0' });
  const running = await asAuditor(id as string, '--contracts', folder);
  expect(running.status).toBe(0);
  expect(running.out).toMatch(/admitted {5}\w+\n {2}policies/);
  expect(running.out).toMatch(/\n\nnow {2}sending: it is being sent; what becomes of it is not known yet\n {2}attempt {6}1\n {2}held by {6}\S+\n {2}looked at {4}\S+Z?, if nobody/);
  expect(await at.opened.agent.settled(id as string)).toMatchObject({ disposition: 'executed' });
  expect((await asAuditor(id as string)).out).not.toMatch(/^now/m);
});

it('tells of one that waits for a person, that it does and that nothing was sent', async () => {
  const waiting = await at.opened.agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420', amount: 20_000 } });
  expect(waiting).toMatchObject({ http: 202, disposition: 'approval_required' });
  expect((await asAuditor(waiting.operation_id as string)).out).toMatch(/approval {5}\{.*\}[\s\S]*\nnow {2}parked: it waits for an approval; nothing was sent\n/);
});

it('tells of one that was refused before there was an operation, by its receipt', async () => {
  const unknown = await at.opened.agent.call({ session_id: unique('s'), tool: 'no_such_tool', arguments: {} });
  expect([unknown.http, unknown.operation_id]).toEqual([404, null]);
  expect((await asAuditor(unknown.receipts.decision as string)).out).toMatch(/no_such_tool {2}\(rcp_[\s\S]*refused {6}in parse: BLOCKED_TOOL\./);
});

it('says when the policies at hand are not those that decided', async () => {
  const { dir } = folderWith(retailText);
  writeFileSync(join(dir, 'policies', 'retail.cedar'), '@id("everything")\npermit (principal, action, resource);\n@id("no-amounts") forbid (principal, action == Action::"issue_credit", resource is order) when { context.args.amount > 1 };');
  const answer = await at.opened.agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420' } });
  const { out } = await asAuditor(answer.operation_id as string, '--contracts', dir);
  expect(out).toContain('; those at hand are others');
  expect(out).toMatch(/permitted {2}agents-may-use-tools$/m);
});

it('tells nothing to who may not read it, nothing of another tenant, and what it lacks', async () => {
  const answer = await at.opened.agent.credit({ session_id: unique('s'), arguments: { order_id: 'O-420' } });
  await expect(run(answer.operation_id as string, '--key', at.house.keys.agent)).rejects.toThrow(/^403 /);
  await expect(run(answer.operation_id as string, '--key', 'cg_nobody')).rejects.toThrow(/^401 /);
  const none = await asAuditor('op_00000000000000000000000000000000');
  expect(none).toEqual({ status: 1, out: expect.stringContaining('has no `op_') as string });
  await expect(run(answer.operation_id as string)).rejects.toThrow(UsageError);
  await expect(asAuditor('c-1')).rejects.toThrow(UsageError);
  await expect(explain(['op_x', '--key', 'k', '--url', 'http://127.0.0.1:9'])).rejects.toThrow(/does not answer/);
});
