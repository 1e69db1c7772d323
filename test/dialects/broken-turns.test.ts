/**
 * A turn whose answer never arrived (case-21): the host gave up, or the gateway was killed in the middle. Posted again it is the same turn:
 * one result for every call, under the same ids, and no effect twice. Lost here, the conversation could never go on, or would pay twice.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Answer } from '../../src/model.js';
import { quickEnv } from '../recovery/quick.js';
import { type Agent, type House, openGateway, openHouse, type Opened, spawnGateway, unique } from '../support/gateway.js';

let house: House;
let opened: Opened | undefined;

beforeEach(async () => {
  house = await openHouse();
});
afterEach(async () => {
  await opened?.gateway.close();
  opened = undefined;
  await house.close();
});

const turn = (session: string): string => JSON.stringify({
  session_id: session,
  response: {
    id: 'chatcmpl-1',
    choices: [{ finish_reason: 'tool_calls', message: { role: 'assistant', tool_calls: [
      { id: 'a', type: 'function', function: { name: 'issue_credit', arguments: '{"order_id":"O-417","amount":2500,"currency":"GBP"}' } },
      { id: 'a', type: 'function', function: { name: 'get_order', arguments: '{"order_id":"O-418"}' } },
      { type: 'function', function: { name: 'get_credits', arguments: '{}' } },
    ] } }],
  },
});

interface Sent { messages: { tool_call_id: string; content: string }[]; results: Answer[] }
const post = async (agent: Agent, session: string): Promise<Sent> => (await agent.post('/v1/dialects/openai-chat', turn(session), { prefer: 'wait=30' })) as unknown as Sent;

async function whole({ messages, results }: Sent): Promise<void> {
  expect(messages.map(({ tool_call_id: id }) => id)).toEqual(['a', 'a', expect.stringMatching(/^call_[0-9a-f]{32}$/)]);
  expect(messages.map(({ content }) => (JSON.parse(content) as Answer).disposition)).toEqual(results.map(({ disposition }) => disposition));
  expect(results[0]).toMatchObject({ outcome: 'committed', result: { amount: 2500 } });
  expect(results.slice(1)).toMatchObject([{ result: { order_id: 'O-418' } }, { disposition: 'blocked_tool' }]);
  expect((await house.shop.books()).credits).toHaveLength(1);
}

/** The shop has the credit and has not answered yet. */
async function credited(): Promise<void> {
  while ((await house.shop.books()).credits.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
}

describe('case-21: a turn whose answer never arrived', () => {
  it('because the host gave up: it goes on without it, and is answered when it is asked again', async () => {
    opened = await openGateway(house);
    const session = unique('s');
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 2000 });
    const gone = new AbortController();
    const lost = fetch(`${opened.gateway.agentUrl}/v1/dialects/openai-chat`, {
      method: 'POST', body: turn(session), signal: gone.signal, headers: { authorization: `Bearer ${house.keys.agent}`, 'content-type': 'application/json' },
    });
    await credited();
    gone.abort();
    await expect(lost).rejects.toThrow();
    await whole(await post(opened.agent, session));
    await whole(await post(opened.agent, session));
  });

  it('because the gateway was killed: another one answers it', async () => {
    const first = await spawnGateway(house, quickEnv());
    const session = unique('s');
    await house.shop.fault({ tool: 'issue_credit', kind: 'slow_reply', ms: 60_000 });
    const lost = post(first.agent, session);
    const failed = expect(lost).rejects.toThrow();
    await credited();
    await first.kill9();
    await failed;
    opened = await openGateway(house, quickEnv());
    await whole(await post(opened.agent, session));
  });
});

describe('a turn for the gate', () => {
  it('has members of its own that are closed, without calls too', async () => {
    opened = await openGateway(house);
    const message = { role: 'assistant', content: 'Hello.' };
    const say = (more: object) => opened?.agent.post('/v1/dialects/openai-chat', JSON.stringify({ session_id: 's-1', message, finish_reason: 'stop', ...more }));
    expect(await say({ intent: 'i' })).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE', errors: [{ pointer: '/intent', nearest: 'intent_id' }] });
    expect(await say({ session_id: 7 })).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    expect(await say({ subject: 'C-90' })).toMatchObject({ http: 200, messages: [], results: [] });
    expect(await say({})).toMatchObject({ http: 200, messages: [], results: [] });
  });

  it('case-06: equal writes are one effect, each told; calls beyond the limit are refused one by one', async () => {
    opened = await openGateway(house, { CALLGATE_LIMITS_CALLS_PER_BATCH: '3' });
    const call = { id: 'a', type: 'function', function: { name: 'issue_credit', arguments: '{"order_id":"O-417","amount":2500,"currency":"GBP"}' } };
    const message = { role: 'assistant', tool_calls: [call, call, call, call] };
    const sent = (await opened.agent.post('/v1/dialects/openai-chat', JSON.stringify({ session_id: unique('s'), message, finish_reason: 'tool_calls', turn_id: 't-1' }))) as unknown as Sent;
    expect(sent.results.map(({ disposition }) => disposition)).toEqual(['executed', 'replayed', 'replayed', 'budget_exhausted']);
    expect(sent.messages).toHaveLength(4);
    expect((await house.shop.books()).credits).toHaveLength(1);
  });
});
