/**
 * A scripted model behind the HTTP APIs of OpenAI (Chat Completions, Responses) and Anthropic (Messages), for real clients in front of it.
 * It takes a history only as the providers do: each call of an assistant answered once, right after it, and by nothing else. A history
 * that they would refuse is refused here with 400, so a loop that ends has kept the pairing.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ScriptedCall { id?: string; name: string; args: object | string }
export interface ScriptedTurn { text?: string; calls?: ScriptedCall[]; /** As this provider names it. */ ending?: string }
/** What the model says next, given what it was told of the calls so far, in order. */
export type Model = (told: string[]) => ScriptedTurn;

export interface ModelServer {
  /** Without `/v1`. */
  url: string;
  /** Bodies of the requests, in order. */
  requests: Body[];
  refused: string[];
  close(): Promise<void>;
}

type Body = { [member: string]: unknown };
type Item = { [member: string]: unknown };

export async function startModelServer(model: Model): Promise<ModelServer> {
  const requests: Body[] = [];
  const refused: string[] = [];
  let turns = 0;
  const answer = (path: string, body: Body): Body => {
    const api = apis[path];
    if (!api) throw new Error(`no API at ${path}`);
    const told = api.told(body);
    return api.turn(model(told), ++turns);
  };
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await textOf(request)) as Body;
    requests.push(body);
    try {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer(request.url ?? '', body)));
    } catch (error) {
      refused.push((error as Error).message);
      response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { type: 'invalid_request_error', message: (error as Error).message } }));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, refused,
    async close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk as string;
  return text;
}

interface Api {
  /** What the history says of the calls. @throws Error for a history that the provider refuses */
  told(body: Body): string[];
  turn(turn: ScriptedTurn, number: number): Body;
}

const argumentsText = ({ args }: ScriptedCall): string => (typeof args === 'string' ? args : JSON.stringify(args));
const idOf = ({ id }: ScriptedCall, turn: number, position: number): string => id ?? `call_${turn}_${position}`;

/** Ids of a history's calls against those of their results: the same ones, the same number of times. */
function pair(calls: readonly unknown[], results: readonly unknown[]): void {
  const [left, right] = [calls, results].map((ids) => JSON.stringify([...ids].sort()));
  if (left !== right) throw new Error(`calls ${left} are followed by results ${right}`);
}

const chat: Api = {
  told({ messages }) {
    const told: string[] = [];
    let open: unknown[] = [];
    let answered: unknown[] = [];
    for (const message of [...(messages as Item[]), { role: 'end' } as Item]) {
      if (message['role'] === 'tool') {
        answered.push(message['tool_call_id']);
        told.push(message['content'] as string);
        continue;
      }
      pair(open, answered);
      [open, answered] = [((message['tool_calls'] ?? []) as Item[]).map(({ id }) => id), []];
    }
    return told;
  },
  turn: ({ text, calls = [], ending }, number) => ({
    id: `chatcmpl-${number}`, object: 'chat.completion', created: 1, model: 'scripted', usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    choices: [{
      index: 0, logprobs: null, finish_reason: ending ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
      message: {
        role: 'assistant', content: text ?? null, refusal: null,
        ...(calls.length > 0 ? { tool_calls: calls.map((call, position) => ({ id: idOf(call, number, position), type: 'function', function: { name: call.name, arguments: argumentsText(call) } })) } : {}),
      },
    }],
  }),
};

const responses: Api = {
  told({ input }) {
    const items = typeof input === 'string' ? [] : (input as Item[]);
    const calls = items.filter(({ type }) => type === 'function_call');
    const outputs = items.filter(({ type }) => type === 'function_call_output');
    pair(calls.map((call) => call['call_id']), outputs.map((output) => output['call_id']));
    return outputs.map((output) => output['output'] as string);
  },
  turn: ({ text, calls = [], ending }, number) => ({
    id: `resp_${number}`, object: 'response', created_at: 1, model: 'scripted', status: ending ?? 'completed', error: null,
    incomplete_details: ending === 'incomplete' ? { reason: 'max_output_tokens' } : null, instructions: null, metadata: {}, parallel_tool_calls: true,
    tool_choice: 'auto', tools: [], temperature: 1, top_p: 1, usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    output: [
      ...(text === undefined ? [] : [{ type: 'message', id: `msg_${number}`, role: 'assistant', status: 'completed', content: [{ type: 'output_text', text, annotations: [], logprobs: [] }] }]),
      ...calls.map((call, position) => ({ type: 'function_call', id: `fc_${number}_${position}`, call_id: idOf(call, number, position), name: call.name, arguments: argumentsText(call), status: 'completed' })),
    ],
  }),
};

const anthropic: Api = {
  told({ messages }) {
    const told: string[] = [];
    let open: unknown[] = [];
    for (const { role, content } of [...(messages as Item[]), { role: 'end', content: [] } as Item]) {
      const blocks = typeof content === 'string' ? [] : (content as Item[]);
      const results = blocks.filter(({ type }) => type === 'tool_result');
      if (new Set(open).size !== open.length) throw new Error('`tool_use` ids must be unique');
      if (role !== 'end' || open.length > 0) pair(open, results.map((result) => result['tool_use_id']));
      told.push(...results.map((result) => result['content'] as string));
      open = role === 'assistant' ? blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => id) : [];
    }
    return told;
  },
  turn: ({ text, calls = [], ending }, number) => ({
    id: `msg_${number}`, type: 'message', role: 'assistant', model: 'scripted', stop_reason: ending ?? (calls.length > 0 ? 'tool_use' : 'end_turn'), stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
    content: [
      ...(text === undefined ? [] : [{ type: 'text', text, citations: null }]),
      ...calls.map((call, position) => ({ type: 'tool_use', id: idOf(call, number, position), name: call.name, input: typeof call.args === 'string' ? {} : call.args })),
    ],
  }),
};

const apis: Readonly<Record<string, Api>> = { '/v1/chat/completions': chat, '/v1/responses': responses, '/v1/messages': anthropic };
