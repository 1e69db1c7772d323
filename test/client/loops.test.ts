import { describe, expect, it } from 'vitest';
import { Callgate } from '../../src/client/index.js';
import type { JsonObject } from '../../src/model.js';
import { retailGateway, unique } from '../support/gateway.js';
import { cuttingProxy } from './cutting-proxy.js';
import { loops, type Loops } from './loops.js';

/** What a reader copies out of docs/client.md has to run to its end, and to pay once though answers are lost on both sides of the gateway. */
const at = retailGateway();

const args = { order_id: 'O-417', amount: 100, currency: 'GBP' };

/** A model that credits once, and then says how it went. Each of its providers answers in turn. */
function scripted(...responses: JsonObject[]) {
  const requests: JsonObject[] = [];
  const create = async (request: JsonObject): Promise<JsonObject> => {
    requests.push(structuredClone(request));
    return responses[requests.length - 1] as JsonObject;
  };
  return { requests, provider: { chat: { completions: { create } }, responses: { create }, messages: { create } } };
}

const turns: Record<keyof Loops, (id: string) => [JsonObject, JsonObject]> = {
  chat: (id) => [
    { id, choices: [{ finish_reason: 'tool_calls', message: { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'issue_credit', arguments: JSON.stringify(args) } }] } }] },
    { id: `${id}-2`, choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'done' } }] },
  ],
  responses: (id) => [
    { id, status: 'completed', output_text: '', output: [{ type: 'function_call', call_id: 'call_1', name: 'issue_credit', arguments: JSON.stringify(args), status: 'completed' }] },
    { id: `${id}-2`, status: 'completed', output_text: 'done', output: [{ type: 'message', role: 'assistant', content: [] }] },
  ],
  anthropic: (id) => [
    { id, stop_reason: 'tool_use', content: [{ type: 'tool_use', id: 'call_1', name: 'issue_credit', input: args }] },
    { id: `${id}-2`, stop_reason: 'end_turn', content: [{ type: 'text', text: 'done' }] },
  ],
};

describe.each(Object.keys(turns) as (keyof Loops)[])('the loop for %s', (name) => {
  it('runs as it stands in the page: the model is told the result, and one credit is in the books', async () => {
    const before = (await at.house.shop.books()).credits.length;
    await at.house.shop.fault({ tool: 'issue_credit', kind: 'commit_then_drop' });
    // the list of tools, and then twice the turn
    const proxy = await cuttingProxy(at.opened.gateway.agentUrl, 'none', 'sent', 'answer');
    const gate = new Callgate({ url: proxy.url, key: at.house.keys.agent });
    const { provider, requests } = scripted(...turns[name](unique('resp')));
    const intent = unique('int');
    const history: unknown[] = [{ role: 'user', content: 'Credit me one pound, please.' }];

    expect(await (await loops())[name](gate, provider, 'model', { session_id: intent, intent_id: intent }, history)).toBe('done');
    const told = JSON.stringify(requests[1]);
    expect(told).toContain('call_1');
    expect(told).toContain('receipt_id');
    expect((await at.house.shop.books()).credits.length).toBe(before + 1);
  }, 90_000);
});
