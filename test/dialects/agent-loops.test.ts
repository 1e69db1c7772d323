/**
 * Whole agent loops with the providers' own clients: the model calls, Callgate answers, the messages are appended as they are, the provider
 * takes the history. If a message did not fit, the loop would end in a 400; if a turn that is sent again ran again, there would be two credits.
 */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import type { Answer } from '../../src/model.js';
import { retailGateway, unique } from '../support/gateway.js';
import { type Model, type ModelServer, startModelServer } from '../support/model-server.js';

const at = retailGateway();
let server: ModelServer | undefined;
afterEach(async () => {
  await server?.close();
  await at.house.shop.reset();
});

/** Each posts its turn twice: what is sent again is replayed. */
async function gate<Messages>(dialect: string, session: string, response: object): Promise<Messages & { results: Answer[] }> {
  const post = async (): Promise<Messages & { results: Answer[] }> => {
    const sent = await fetch(`${at.opened.gateway.agentUrl}/v1/dialects/${dialect}`, {
      method: 'POST', headers: { authorization: `Bearer ${at.house.keys.agent}`, 'content-type': 'application/json', prefer: 'wait=20' },
      body: JSON.stringify({ session_id: session, response }),
    });
    if (sent.status !== 200) throw new Error(await sent.text());
    return (await sent.json()) as Messages & { results: Answer[] };
  };
  const first = await post();
  const again = await post();
  expect(again.results.map(({ disposition, result }) => [disposition === 'replayed' ? 'executed' : disposition, result])).toEqual(first.results.map(({ disposition, result }) => [disposition, result]));
  return first;
}

async function tools<Tool>(dialect: string): Promise<Tool[]> {
  const sent = await at.opened.agent.get(`/v1/tools?dialect=${dialect}`);
  return (sent as unknown as { tools: Tool[] }).tools;
}

interface Loop { said: string | null; told: Answer[] }
type Run = (url: string, session: string) => Promise<Loop>;

const chat: Run = async (url, session) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const offered = await tools<OpenAI.ChatCompletionTool>('openai-chat');
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Please credit me 25 pounds for O-417.' }];
  const told: Answer[] = [];
  for (;;) {
    const response = await client.chat.completions.create({ model: 'scripted', messages, tools: offered });
    const turn = await gate<{ messages: OpenAI.ChatCompletionToolMessageParam[] }>('openai-chat', session, response);
    const message = response.choices[0]?.message as OpenAI.ChatCompletionMessage;
    messages.push(message, ...turn.messages);
    told.push(...turn.results);
    if (turn.messages.length === 0) return { said: message.content, told };
  }
};

const responses: Run = async (url, session) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const offered = await tools<OpenAI.Responses.Tool>('openai-responses');
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: 'Please credit me 25 pounds for O-417.' }];
  const told: Answer[] = [];
  for (;;) {
    const response = await client.responses.create({ model: 'scripted', input, tools: offered });
    const turn = await gate<{ input: OpenAI.Responses.ResponseInputItem.FunctionCallOutput[] }>('openai-responses', session, response);
    input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]), ...turn.input);
    told.push(...turn.results);
    if (turn.input.length === 0) return { said: response.output_text, told };
  }
};

const anthropic: Run = async (url, session) => {
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  const offered = await tools<Anthropic.Tool>('anthropic');
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Please credit me 25 pounds for O-417.' }];
  const told: Answer[] = [];
  for (;;) {
    const response = await client.messages.create({ model: 'scripted', max_tokens: 1000, messages, tools: offered });
    const turn = await gate<{ message: Anthropic.MessageParam | null }>('anthropic', session, response);
    told.push(...turn.results);
    messages.push({ role: 'assistant', content: response.content as Anthropic.ContentBlockParam[] });
    if (!turn.message) return { said: response.content.map((block) => (block.type === 'text' ? block.text : '')).join(''), told };
    messages.push(turn.message);
  }
};

const credit = { order_id: 'O-417', amount: 2500, currency: 'GBP' };
const what = (content: string | undefined): { disposition: string; next_action: string; result?: unknown; code?: string } => JSON.parse(content ?? '{}') as never;

async function run(loop: Run, model: Model): Promise<Loop> {
  server = await startModelServer(model);
  const done = await loop(server.url, unique('s'));
  expect(server.refused).toEqual([]);
  return done;
}

describe.each<[string, Run, { cut: string; repeatsIds: boolean }]>([
  ['openai chat', chat, { cut: 'length', repeatsIds: true }],
  ['openai responses', responses, { cut: 'incomplete', repeatsIds: true }],
  ['anthropic', anthropic, { cut: 'max_tokens', repeatsIds: false }],
])('%s: a whole loop', (_, loop, { cut, repeatsIds }) => {
  it('reads, writes once, and ends with what the gateway told it', async () => {
    const { said, told } = await run(loop, (answers) => {
      if (answers.length === 0) return { text: 'Let me look.', calls: [{ name: 'get_order', args: { order_id: 'O-417' } }] };
      if (answers.length === 1) return { calls: [{ name: 'issue_credit', args: credit }, { name: 'convert_temperature', args: { value: 20, from_unit: 'C', to_unit: 'F' } }] };
      return { text: `Done: ${JSON.stringify(what(answers[1]).result)}` };
    });
    expect(told.map(({ tool, disposition }) => [tool, disposition])).toEqual([['get_order', 'executed'], ['issue_credit', 'executed'], ['convert_temperature', 'executed']]);
    const { credits } = await at.house.shop.books();
    expect(credits).toHaveLength(1);
    expect(said).toBe(`Done: ${JSON.stringify({ receipt_id: credits[0]?.receipt_id, amount: 2500 })}`);
  });

  it('a refusal is told to the model, which repairs its call', async () => {
    const { told } = await run(loop, (answers) => {
      if (answers.length === 0) return { calls: [{ name: 'issue_credits', args: credit }, { name: 'issue_credit', args: { ...credit, order_id: 417 } }] };
      if (answers.length === 2) return { calls: [{ name: what(answers[0]).next_action === 'repair' ? 'issue_credit' : 'none', args: credit }] };
      return { text: 'Done.' };
    });
    expect(told.map(({ disposition }) => disposition)).toEqual(['blocked_tool', 'invalid_arguments', 'executed']);
    expect((await at.house.shop.books()).credits).toHaveLength(1);
  });

  it('case-27: a turn that was cut writes nothing, though its JSON parses; the next one does', async () => {
    const { told } = await run(loop, (answers) => {
      if (answers.length === 0) return { calls: [{ name: 'issue_credit', args: credit }, { name: 'get_order', args: { order_id: 'O-417' } }], ending: cut };
      if (answers.length === 2) return { calls: [{ name: what(answers[0]).code === 'TURN_CUT' ? 'issue_credit' : 'none', args: credit }] };
      return { text: 'Done.' };
    });
    expect(told.map(({ disposition, code }) => code ?? disposition)).toEqual(['TURN_CUT', 'executed', 'executed']);
    expect((await at.house.shop.books()).credits).toHaveLength(1);
  });

  it('case-19: one id for every turn of the conversation is no reason to take one call for another', async () => {
    const { told } = await run(loop, (answers) => {
      if (answers.length === 0) return { calls: [{ id: 'x:1', name: 'get_order', args: { order_id: 'O-417' } }] };
      if (answers.length === 1) return { calls: [{ id: repeatsIds ? 'x:1' : 'x:2', name: 'issue_credit', args: credit }] };
      return { text: 'Done.' };
    });
    expect(told.map(({ tool, disposition }) => [tool, disposition])).toEqual([['get_order', 'executed'], ['issue_credit', 'executed']]);
  });
});

describe('arguments as a model writes them', () => {
  const refusedCall = async (args: string): Promise<Answer | undefined> => {
    const { told } = await run(chat, (answers) => (answers.length === 0 ? { calls: [{ name: 'issue_credit', args }] } : { text: 'I see.' }));
    return told[0];
  };

  it('case-27: half an object is refused as malformed, and not completed', async () => {
    expect(await refusedCall('{"order_id":"O-417","amount":2500,"currency":"GBP"')).toMatchObject({ disposition: 'invalid_call', code: 'MALFORMED_JSON', next_action: 'repair' });
    expect((await at.house.shop.books()).credits).toHaveLength(0);
  });

  it('case-33: a key that is named twice within the text is refused', async () => {
    expect(await refusedCall('{"order_id":"O-417","amount":2500,"amount":50000,"currency":"GBP"}')).toMatchObject({ code: 'DUPLICATE_KEY', errors: [{ pointer: '/arguments/amount' }] });
  });

  it('case-26: an object within a string once more is unwrapped as the one that it is', async () => {
    const twice = JSON.stringify(JSON.stringify({ order_id: 'O-417' }));
    const { told } = await run(chat, (answers) => (answers.length === 0 ? { calls: [{ name: 'get_order', args: twice }, { name: 'get_order', args: JSON.stringify(twice) }] } : { text: 'I see.' }));
    expect(told[0]).toMatchObject({ disposition: 'executed', result: { order_id: 'O-417' } });
    expect(told[1], 'once, and not again and again').toMatchObject({ disposition: 'invalid_arguments' });
  });

  it('case-29: an integer beyond 2^53 is refused with its place, from text and from an object', async () => {
    const huge = '{"order_id":"O-417","amount":7301299420421230017,"currency":"GBP"}';
    expect(await refusedCall(huge)).toMatchObject({ code: 'INTEGER_PRECISION', errors: [{ pointer: '/arguments/amount' }] });
    const raw = JSON.stringify({ session_id: unique('s'), response: { id: 'msg_1', stop_reason: 'tool_use', content: [{ type: 'tool_use', id: 'a', name: 'issue_credit', input: 'HERE' }] } }).replace('"HERE"', huge);
    const sent = await at.opened.agent.post('/v1/dialects/anthropic', raw);
    expect([sent.http, (sent as unknown as { results: Answer[] }).results]).toMatchObject([200, [{ code: 'INTEGER_PRECISION', errors: [{ pointer: '/arguments/amount' }] }]]);
  });
});
