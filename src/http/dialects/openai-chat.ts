/** OpenAI Chat Completions, and the many services that speak it. */
import { isRefusal, type Refusal } from '../../errors.js';
import type { Json, JsonObject } from '../../model.js';
import { argumentsText, cutBy, type Dialect, listOf, moreThanATurn, objectOf, type ProviderCall, type ProviderTurn, type Reply, textOf, wrongAt } from './dialect.js';

/** `stop` too: some services say it of turns with calls, and OpenAI where a call was forced. */
const whole = ['tool_calls', 'stop'];

export interface ToolMessage { role: 'tool'; tool_call_id: string; content: string }

export const openaiChat = {
  name: 'openai-chat',
  members: ['response', 'message', 'finish_reason'],

  read(body: JsonObject): ProviderTurn | Refusal {
    const chosen = choiceOf(body);
    if (isRefusal(chosen)) return chosen;
    const message = objectOf(chosen.message);
    if (!message) return wrongAt(`${chosen.at}/message`, 'the assistant’s message');
    if (objectOf(message['function_call'])) {
      return wrongAt(`${chosen.at}/message/function_call`, 'calls in `tool_calls`: the request offered `functions`, which became `tools`');
    }
    const calls = callsOf(message);
    if (calls === null) return wrongAt(`${chosen.at}/message/tool_calls`, 'a list');
    const tooMany = moreThanATurn(calls.length); // before each of them is read: the smallest are two bytes long
    if (tooMany) return tooMany;
    const ending = cutBy(chosen.finish, whole, `${chosen.at}/finish_reason`);
    if (isRefusal(ending)) return ending;
    return { id: chosen.id, cut: ending.cut, calls: calls.map((call, index) => readCall(call, `${chosen.at}/message/tool_calls/${index}`)), unanswered: [] };
  },

  write: (replies: readonly Reply[]): { messages: ToolMessage[] } => ({ messages: replies.map(({ id, content }) => ({ role: 'tool', tool_call_id: id, content })) }),
} satisfies Dialect;

interface Choice { id: string | null; message: Json | undefined; finish: Json | undefined; at: string }

function choiceOf({ response, message, finish_reason: finish }: JsonObject): Choice | Refusal {
  if (response === undefined) return { id: null, message, finish, at: '' };
  if (message !== undefined || finish !== undefined) return wrongAt('/response', '`response` alone, or `message` with `finish_reason`');
  const completion = objectOf(response);
  const choices = listOf(completion?.['choices'])?.map(objectOf);
  const choice = choices?.[0];
  if (!choices || !choice) return wrongAt('/response/choices', 'a chat completion with at least one choice');
  const several = choices.slice(1).some((other) => callsOf(objectOf(other?.['message']) ?? {})?.length !== 0);
  if (several) {
    return wrongAt('/response/choices', 'the choice that the conversation goes on with, as `message` and `finish_reason`: more than one has tool calls');
  }
  return { id: textOf(completion?.['id']), message: choice['message'], finish: choice['finish_reason'], at: '/response/choices/0' };
}

function callsOf(message: JsonObject): Json[] | null {
  return message['tool_calls'] === undefined || message['tool_calls'] === null ? [] : listOf(message['tool_calls']);
}

function readCall(given: Json, at: string): ProviderCall {
  const call = objectOf(given) ?? {};
  const kind = textOf(call['type']) ?? 'function';
  const called = objectOf(call[kind]) ?? {};
  const name = called['name'];
  return {
    id: textOf(call['id']), name, arguments: argumentsText(called['arguments']), argumentsAt: `${at}/${kind}/arguments`, kind,
    ...(kind === 'function' ? {} : { unusable: notAFunction(kind, name) }),
  };
}

/** For the model. */
export function notAFunction(kind: string, name: Json | undefined): string {
  const named = typeof name === 'string' ? `\`${name}\`` : 'The tool';
  return `${named} was called as \`${kind}\`; here every tool is a function that takes one JSON object. Call a function of the list.`;
}
