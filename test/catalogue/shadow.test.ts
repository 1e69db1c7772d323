/**
 * A new set of policies is tried beside the one that decides. If it decided anything, trying it would be an outage; if it were asked about
 * other calls than those that happen, what it would have changed would be a guess.
 */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { projectFile } from '../../src/project.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';

const shadow = mkdtempSync(join(tmpdir(), 'callgate-shadow-'));
const today = projectFile('examples', 'retail', 'contracts', 'policies', 'retail.cedar');
const stricter = '@id("small-credits") forbid (principal, action == Action::"issue_credit", resource is order) when { context.args.amount > 1000 };';

let house: House;
let open: Opened;
beforeAll(async () => {
  cpSync(today, join(shadow, 'today.cedar'));
  writeFileSync(join(shadow, 'stricter.cedar'), stricter);
  house = await openHouse({ CALLGATE_CONTRACTS_SHADOW_POLICIES: shadow, CALLGATE_CONTRACTS_RELOAD: '50ms' });
  open = await openGateway(house);
});
afterAll(async () => {
  await open.gateway.close();
  await house.close();
  rmSync(shadow, { recursive: true });
});

const differences = async (): Promise<Record<string, number>> => {
  const text = await (await fetch(`${open.gateway.controlUrl}/metrics`)).text();
  return Object.fromEntries([...text.matchAll(/callgate_policy_shadow_differences_total\{would="(\w+)",tool="(\w+)"\} (\d+)/g)].map(([, would, tool, n]) => [`${would} ${tool}`, Number(n)]));
};
interface Status { digest: string; refused: object | null; shadow: { version: string | null; problem: string | null } | null }
const until = async (enough: (now: Status) => boolean): Promise<Status> => {
  for (let n = 0; n < 200; n++) {
    const now = (await open.control().get('/v1/contracts')) as unknown as Status;
    if (enough(now)) return now;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('it did not come to pass in 10 s');
};
const credit = (amount: number, session = unique('s')) => open.agent.credit({ session_id: session, arguments: { order_id: 'O-420', amount } });

it('decides nothing: a call that it would deny is executed, and told; one that both allow, or both deny, is not', async () => {
  expect(await credit(900)).toMatchObject({ disposition: 'executed' });
  expect(await open.as(house.keys.otherSubject).credit({ session_id: unique('s'), arguments: { order_id: 'O-420', amount: 5000 } })).toMatchObject({ code: 'NOT_FOUND' });
  expect(await differences()).toEqual({});
  const answer = await credit(1500);
  expect(answer).toMatchObject({ disposition: 'executed' });
  expect(await differences()).toEqual({ 'deny issue_credit': 1 });
  const receipt = await open.control().get(`/v1/receipts/${answer.receipts.decision}`);
  expect(JSON.stringify(receipt)).not.toContain('small-credits');
});

it('what is only listed is not counted as a call', async () => {
  const before = await differences();
  expect((await open.agent.get('/v1/tools')).http).toBe(200);
  expect(await open.agent.call({ session_id: unique('s'), tool: 'get_order', arguments: { order_id: 'O-420' } })).toMatchObject({ disposition: 'executed' });
  expect(await differences()).toEqual(before);
});

it('would allow what is denied: told too, and still denied', async () => {
  const first = (await until(({ shadow: now }) => now?.version != null)).shadow?.version;
  writeFileSync(join(shadow, 'wider.cedar'), '@id("everybodys-orders") permit (principal, action == Action::"get_order", resource is order);');
  await until(({ shadow: now }) => now?.version !== first && now?.version !== null);
  expect(await open.as(house.keys.otherSubject).call({ session_id: unique('s'), tool: 'get_order', arguments: { order_id: 'O-420' } })).toMatchObject({ code: 'NOT_FOUND' });
  expect(await differences()).toMatchObject({ 'allow get_order': 1 });
});

it('a set that does not fit the contracts is told with its place, and left out; calls go on', async () => {
  const { digest } = await until(() => true);
  writeFileSync(join(shadow, 'stricter.cedar'), stricter.replace('context.args.amount', 'context.args.amuont'));
  const wrong = await until(({ shadow: now }) => now?.problem != null);
  expect(wrong).toMatchObject({ digest, refused: null, shadow: { version: null, problem: expect.stringMatching(/^stricter\.cedar:1:\d+ .*amuont/) as string } });
  const before = await differences();
  expect(await credit(1600)).toMatchObject({ disposition: 'executed' });
  expect(await differences()).toEqual(before);
  writeFileSync(join(shadow, 'stricter.cedar'), stricter);
  await until(({ shadow: now }) => now?.problem === null);
  expect(await credit(1700)).toMatchObject({ disposition: 'executed' });
  expect((await differences())['deny issue_credit']).toBe((before['deny issue_credit'] ?? 0) + 1);
});
