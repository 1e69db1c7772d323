import { expect, it } from 'vitest';
import { retailGateway, type Sent, unique } from '../support/gateway.js';

const at = retailGateway();

interface Step { stage: string; times: number; ms: number }

async function steps(): Promise<Map<string, Step>> {
  const text = await (await fetch(`${at.opened.gateway.controlUrl}/metrics`)).text();
  const found = new Map<string, Step>();
  for (const [, what, stage, step, value] of text.matchAll(/^callgate_stage_seconds_(sum|count)\{stage="(\w+)",step="(\w+)"\} (\S+)$/gm)) {
    const entry = found.get(step as string) ?? { stage: stage as string, times: 0, ms: 0 };
    if (what === 'count') entry.times += Number(value);
    else entry.ms += Number(value) * 1000;
    found.set(step as string, entry);
  }
  return found;
}

/** What one call added. */
async function spentBy(call: () => Promise<Sent>): Promise<{ answer: Sent; spent: Map<string, Step> }> {
  const before = await steps();
  const answer = await call();
  const spent = [...(await steps())].map(([step, { stage, times, ms }]) => [step, { stage, times: times - (before.get(step)?.times ?? 0), ms: ms - (before.get(step)?.ms ?? 0) }] as const);
  return { answer, spent: new Map(spent.filter(([, { times }]) => times > 0)) };
}

const names = (spent: Map<string, Step>): string[] => [...spent].map(([step, { stage, times }]) => `${stage} ${step} ${times}`).sort();
const write = ['parse parse 1', 'validate shape 1', 'authorize tool 1', 'validate look_up 1', 'validate turn 1', 'validate observe 1', 'authorize resource 1',
  'validate survey 1', 'validate world 1', 'execute intent 1', 'execute exchange 1', 'reconcile reconcile 1', 'route route 1'].sort();

it('each step of a write is timed once, and the steps of a stage add up to what its trace says', async () => {
  const { answer, spent } = await spentBy(() => at.opened.agent.credit({ session_id: unique('s') }));
  expect(answer.disposition).toBe('executed');
  expect(names(spent)).toEqual(write);
  for (const { stage, ms } of answer.trace) {
    const sum = [...spent.values()].filter((step) => step.stage === stage).reduce((total, step) => total + step.ms, 0);
    expect(Math.abs(sum - ms), `${stage}: ${sum} and ${ms}`).toBeLessThan(0.1); // each was rounded to 0.01
  }
});

it('a service that is slow to show the order, and one that is slow to change it, are two steps', async () => {
  await at.house.shop.fault({ tool: 'get_order', kind: 'slow_reply', ms: 800 });
  const observed = await spentBy(() => at.opened.agent.credit({ session_id: unique('s'), arguments: { amount: 1 } }));
  expect(observed.spent.get('observe')?.ms).toBeGreaterThan(799);
  expect(observed.spent.get('exchange')?.ms).toBeLessThan(799);
  await at.house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 800 });
  const exchanged = await spentBy(() => at.opened.agent.credit({ session_id: unique('s'), arguments: { amount: 2 } }));
  expect(exchanged.spent.get('exchange')?.ms).toBeGreaterThan(799);
  expect(exchanged.spent.get('observe')?.ms).toBeLessThan(799);
});

it('a repeated call ends after it was looked up, and a wait for another call on the same order is a turn', async () => {
  const again = { session_id: unique('s'), call_id: unique('c'), arguments: { amount: 3 } };
  await at.opened.agent.credit(again);
  const { spent } = await spentBy(() => at.opened.agent.credit(again));
  expect(names(spent)).toEqual(['parse parse 1', 'validate shape 1', 'authorize tool 1', 'validate look_up 1', 'route route 1'].sort());

  await at.house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 800 });
  const both = await spentBy(async () => (await Promise.all([4, 5].map((amount) => at.opened.agent.credit({ session_id: unique('s'), arguments: { amount } }))))[1] as Sent);
  expect(both.answer.disposition).toBe('executed');
  expect(both.spent.get('turn')?.ms).toBeGreaterThan(400);
});

it('a read is looked up, asked and recorded', async () => {
  const { answer, spent } = await spentBy(() => at.opened.agent.call({ session_id: unique('s'), tool: 'get_order', arguments: { order_id: 'O-417' } }));
  expect(answer.disposition).toBe('executed');
  expect(names(spent)).toEqual(['parse parse 1', 'validate shape 1', 'authorize tool 1', 'validate look_up 1', 'validate turn 1', 'execute exchange 1', 'reconcile reconcile 1', 'route route 1'].sort());
});
