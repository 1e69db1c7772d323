/**
 * A tool that a caller may not use is, for it, one that does not exist: in no list, suggestion, legal action, undo, read-back or prompt, at no
 * door. Held by two gateways: one where the tools are there and hidden, and one where they have other names. Whatever the caller asks, it is
 * answered the same by both.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dialects } from '../../src/contract/views/dialects.js';
import type { Joints } from '../../src/main.js';
import { anotherKey } from '../gate/guarded.js';
import { seeing } from '../people/reviews.js';
import { changedContracts } from '../recovery/quick.js';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { ask, type Comparable, comparable, noting, still } from './witness.js';

const visible = ['get_order', 'quote_credit', 'issue_credit'];
/** Of equal length, so that a misspelt name is as near to both. */
const hidden: [string, string][] = [['cancel_order', 'revoke_order'], ['void_credit', 'drop_credit'], ['get_credit_receipt', 'get_payout_receipt'], ['convert_temperature', 'convert_fahrenheits']];
const hiddenName = new RegExp(hidden.flat().join('|'));

const sight = { blind: false };
const joints: Joints = { upstream: (upstream) => (noting.upstream as NonNullable<Joints['upstream']>)((seeing(sight).upstream as NonNullable<Joints['upstream']>)(upstream)) };
let house: House;
/** The tools are there, or others are in their place. */
let gateways: [Opened, Opened];
let narrow: string;
beforeAll(async () => {
  house = await openHouse();
  const slow: [string, string] = ['settle_after: 10s', 'settle_after: 9s'];
  const renamed = changedContracts([slow, ...hidden]);
  const policies = join(renamed, 'policies', 'retail.cedar');
  writeFileSync(policies, readFileSync(policies, 'utf8').replaceAll('void_credit', 'drop_credit'));
  gateways = [
    await openGateway(house, { ...still, CALLGATE_CONTRACTS_FOLDER: changedContracts([slow]) }, joints),
    await openGateway(house, { ...still, CALLGATE_CONTRACTS_FOLDER: renamed }, joints),
  ];
  narrow = await anotherKey(house, { tools: visible });
  for (const { agent } of gateways) await agent.credit({ session_id: unique('s'), arguments: { amount: 1 } }); // whose day's purse is there afterwards
});
afterAll(async () => {
  for (const { gateway } of gateways ?? []) await gateway.close();
  await house.close();
});

interface Asked { method?: string; path: string; body?: object }

/** The same of both; nothing of it names a tool of either that the caller has not named itself. */
async function asBoth(make: (session: string) => Asked, key = narrow): Promise<Comparable> {
  const seen: Comparable[] = [];
  const session = unique('s');
  for (const [n, { gateway }] of gateways.entries()) {
    const { method, path, body } = make(`${session}${n}`);
    const given = body === undefined ? undefined : JSON.stringify(body);
    await house.shop.reset();
    const one = await ask({ method: method ?? (given === undefined ? 'GET' : 'POST'), url: gateway.agentUrl + path, headers: { authorization: `Bearer ${key}` }, ...(given === undefined ? {} : { body: given }) });
    const own = given?.match(new RegExp(hiddenName, 'g')) ?? [];
    const { body: told, ...rest } = comparable(one, [`${session}${n}`, ...own]);
    const digestless = JSON.parse(JSON.stringify(told).replace(/sha256:[0-9a-f]{64}/g, 'digest').replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME').replace(/"credit_[^"]*"|"rc_[^"]*"|"CR[^"]*"/g, '"CR"')) as unknown;
    expect(JSON.stringify(digestless)).not.toMatch(hiddenName);
    seen.push({ ...rest, body: digestless });
  }
  expect(seen[0]).toEqual(seen[1]);
  return seen[0] as Comparable;
}

const named = (tool: string, args: object): { name: string; arguments: string } => ({ name: tool, arguments: JSON.stringify(args) });
const doors: Record<string, (session: string, tool: string, args: object) => object> = {
  '/v1/calls': (session_id, tool, args) => ({ session_id, call_id: 'c', tool, arguments: args }),
  '/v1/batches': (session_id, tool, args) => ({ session_id, turn_id: 't', calls: [
    { call_id: 'a', tool, arguments: args }, { call_id: 'b', tool: 'issue_credit', arguments: { order_id: 'O-420', amount: 1, currency: 'GBP' } }, { call_id: 'c', tool: 'get_order', arguments: { order_id: 'O-420' } }] }),
  '/v1/dialects/openai-chat': (session_id, tool, args) => ({ session_id, message: { tool_calls: [{ id: 'c', type: 'function', function: named(tool, args) }] }, finish_reason: 'tool_calls' }),
  '/v1/dialects/openai-responses': (session_id, tool, args) => ({ session_id, output: [{ type: 'function_call', call_id: 'c', ...named(tool, args) }], status: 'completed' }),
  '/v1/dialects/anthropic': (session_id, tool, args) => ({ session_id, message: { content: [{ type: 'tool_use', id: 'c', name: tool, input: args }] }, stop_reason: 'tool_use' }),
};

describe('a tool that is not on the caller’s list', () => {
  it.each(Object.keys(doors).flatMap((door) => hidden.map(([tool]): [string, string] => [door, tool])))('%s %s: called, misspelt, pinned and with arguments that it would refuse', async (door, tool) => {
    const body = doors[door] as (typeof doors)[string];
    for (const name of [tool, `${tool}s`, tool.slice(1), tool.toUpperCase()]) {
      for (const args of [{ order_id: 'O-420' }, {}, { wrong: [1] }]) {
        const { body: told } = await asBoth((session) => ({ path: door, body: body(session, name, args) }));
        expect(JSON.stringify(told)).toContain('BLOCKED_TOOL');
      }
    }
    if (door === '/v1/calls') await asBoth((session) => ({ path: door, body: { ...body(session, tool, {}), contract: '1.0.0', occurrence: 2, expected_version: 'x', idempotency_key: unique('k') } }));
  }, 60_000);

  it.each([undefined, ...dialects])('is in no list of tools, and not counted: %s', async (dialect) => {
    const { body } = await asBoth(() => ({ path: `/v1/tools${dialect ? `?dialect=${dialect}` : ''}` }));
    expect(JSON.stringify(body)).toContain('issue_credit');
  });

  it('is no legal action, whether one asks for a state, acts in the wrong one, or reads the prompt of the session', async () => {
    for (const tool of ['get_order', 'issue_credit']) {
      await asBoth((session_id) => ({ path: '/v1/calls', body: { session_id, tool, arguments: { order_id: 'O-418', ...(tool === 'issue_credit' ? { amount: 1, currency: 'GBP' } : {}) } } }));
    }
    const session_id = unique('s');
    for (const { as } of gateways) await as(narrow).call({ session_id, tool: 'get_order', arguments: { order_id: 'O-418' } });
    const { body } = await asBoth(() => ({ path: `/v1/sessions/${session_id}/context` }));
    expect(JSON.stringify(body)).toContain('O-418');
  });

  it('is named neither as what takes an effect back nor as what would confirm it', async () => {
    const credit = (amount: number) => (session_id: string): Asked => ({ path: '/v1/calls', body: { session_id, tool: 'issue_credit', arguments: { order_id: 'O-420', amount, currency: 'GBP' } } });
    expect((await asBoth(credit(2))).body).toMatchObject({ disposition: 'executed', verified: true });
    sight.blind = true;
    try {
      expect((await asBoth(credit(3))).body).toMatchObject({ disposition: 'executed', verified: false, next_action: 'verify', detail: expect.any(String) });
    } finally {
      sight.blind = false;
    }
  });

  it('is not in an answer that is told again, although the key under which it was first told may use it', async () => {
    const [{ as, agent }] = gateways;
    const session_id = unique('s');
    const wide = await agent.call({ session_id, call_id: 'c', tool: 'get_order', arguments: { order_id: 'O-418' } });
    expect(wide.legal_actions).toEqual(['cancel_order']);
    const owed = await blind(() => agent.credit({ session_id, call_id: 'd', arguments: { order_id: 'O-420', amount: 4 } }));
    expect(owed).toMatchObject({ verify_with: { tool: 'get_credit_receipt' }, compensate: { tool: 'void_credit' } });
    const again = [
      await as(narrow).call({ session_id, call_id: 'c', tool: 'get_order', arguments: { order_id: 'O-418' } }),
      await as(narrow).get(`/v1/operations/${wide.operation_id}`), await as(narrow).get(`/v1/operations/${owed.operation_id}`),
      await as(narrow).credit({ session_id, call_id: 'd', arguments: { order_id: 'O-420', amount: 4 } }),
    ];
    for (const one of again) {
      expect(['executed', 'replayed']).toContain(one.disposition);
      expect(JSON.stringify(one)).not.toMatch(hiddenName);
    }
  });
});

describe('a tool that policy denies to the caller, which no list of its shows', () => {
  it('is not suggested to it either', async () => {
    const [{ as, agent }] = gateways;
    const reader = as(await anotherKey(house, { principal: 'reader', purposes: [] }));
    const tools = async (who: Agent): Promise<string[]> => ((await who.get('/v1/tools')) as unknown as { tools: { name: string }[] }).tools.map(({ name }) => name);
    expect(await tools(reader)).not.toContain('issue_credit');
    const misspelt = (who: Agent): Promise<Sent> => who.call({ session_id: unique('s'), tool: 'issue_credits', arguments: {} });
    expect((await misspelt(agent)).nearest_tools).toContain('issue_credit');
    expect((await misspelt(reader)).nearest_tools ?? []).not.toContain('issue_credit');
  });
});

async function blind<T>(work: () => Promise<T>): Promise<T> {
  sight.blind = true;
  try {
    return await work();
  } finally {
    sight.blind = false;
  }
}
