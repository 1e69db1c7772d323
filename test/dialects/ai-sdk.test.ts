/**
 * The Vercel AI SDK with a real provider of its own, against a scripted model: its loop with tools that go by `/v1/calls`, and a loop by
 * hand that posts what the provider said to a dialect. What its history would not take, it says; what ran twice, the books say.
 */
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, jsonSchema, type ModelMessage, stepCountIs, tool, type ToolSet } from 'ai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Answer, JsonObject } from '../../src/model.js';
import { type House, openGateway, openHouse, type Opened, unique } from '../support/gateway.js';
import { type ModelServer, startModelServer } from '../support/model-server.js';

let house: House;
let opened: Opened;
let server: ModelServer;
const credit = { order_id: 'O-417', amount: 2500, currency: 'GBP' };

beforeAll(async () => {
  house = await openHouse();
  opened = await openGateway(house);
  server = await startModelServer((told) => {
    if (told.length === 0) return { calls: [{ name: 'get_order', args: { order_id: 'O-417' } }, { name: 'issue_credit', args: { ...credit, currency: 'USD' } }] };
    if (told.length === 2) return { calls: [{ name: 'issue_credit', args: credit }, { name: 'issue_credit', args: credit }] };
    return { text: `It said: ${told.slice(2).join(' ')}` };
  });
});
afterAll(async () => {
  await server.close();
  await opened.gateway.close();
  await house.close();
});
beforeEach(() => house.shop.reset());

/** The tools as the provider takes them, for the SDK; executed, if at all, by `execute`. */
async function toolsOf(execute?: (name: string, args: unknown, id: string) => Promise<Answer>): Promise<ToolSet> {
  const { tools } = (await opened.agent.get('/v1/tools?dialect=openai-chat')) as unknown as { tools: { function: { name: string; description: string; parameters: JsonObject } }[] };
  return Object.fromEntries(tools.map(({ function: { name, description, parameters } }) => {
    const schema = { description, inputSchema: jsonSchema(parameters) };
    return [name, execute ? tool({ ...schema, execute: (args: unknown, { toolCallId }) => execute(name, args, toolCallId) }) : tool(schema)];
  }));
}

async function oneCredit(text: string): Promise<void> {
  const { credits } = await house.shop.books();
  expect(credits).toHaveLength(1);
  expect(text.split(`"result":{"receipt_id":"${credits[0]?.receipt_id ?? 'none'}`), 'both equal calls are told of the one credit').toHaveLength(3);
  expect(server.refused).toEqual([]);
}

const prompt = 'Please credit me 25 pounds for O-417.';

describe.each(['chat', 'responses'] as const)('the AI SDK over OpenAI %s', (api) => {
  const model = () => createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' })[api]('scripted');

  it('runs its own loop; the calls go by /v1/calls', async () => {
    const session = unique('s');
    const answers: Answer[] = [];
    const tools = await toolsOf(async (name, args, id) => {
      const answer = await opened.agent.call({ session_id: session, call_id: id, tool: name, arguments: args });
      answers.push(answer);
      return JSON.parse(JSON.stringify(answer)) as Answer;
    });
    const { text, steps } = await generateText({ model: model(), tools, prompt, stopWhen: stepCountIs(5), maxRetries: 0 });
    expect(steps).toHaveLength(3);
    expect(answers.map(({ disposition }) => disposition).sort()).toEqual(['executed', 'executed', 'invalid_arguments', 'replayed']);
    await oneCredit(text);
  });

  it('hands over each turn; the dialect takes what the provider said, and its results are what the SDK appends', async () => {
    const session = unique('s');
    const tools = await toolsOf();
    const messages: ModelMessage[] = [{ role: 'user', content: prompt }];
    for (;;) {
      const { text, toolCalls, response } = await generateText({ model: model(), tools, messages, maxRetries: 0 });
      const sent = (await opened.agent.post(`/v1/dialects/openai-${api}`, JSON.stringify({ session_id: session, response: response.body }))) as unknown as {
        messages?: { tool_call_id: string; content: string }[]; input?: { call_id: string; output: string }[];
      };
      const results = [...(sent.messages ?? []).map((one) => [one.tool_call_id, one.content]), ...(sent.input ?? []).map((one) => [one.call_id, one.output])] as [string, string][];
      expect(results.map(([id]) => id)).toEqual(toolCalls.map(({ toolCallId }) => toolCallId));
      if (results.length === 0) return await oneCredit(text);
      messages.push(...response.messages, {
        role: 'tool',
        content: results.map(([toolCallId, value], position) => ({ type: 'tool-result', toolCallId, toolName: toolCalls[position]?.toolName ?? '', output: { type: 'text', value } })),
      });
    }
  });
});
