/** OpenAI Responses: a turn is a list of items, some of which are calls. */
import { isRefusal, type Refusal } from '../../errors.js';
import type { Json, JsonObject } from '../../model.js';
import { argumentsText, cutBy, type Dialect, listOf, objectOf, type ProviderCall, type ProviderTurn, type Reply, textOf, wrongAt } from './dialect.js';
import { notAFunction } from './openai-chat.js';

/** Calls that are ours to answer, and the type of their results. */
const outputs: Readonly<Record<string, CallOutput['type']>> = { function_call: 'function_call_output', custom_tool_call: 'custom_tool_call_output' };

/** Calls that the provider leaves to its client and whose results no gateway can make up. What else there is, the provider runs itself. */
const ofTheHost = ['computer_call', 'local_shell_call', 'shell_call', 'apply_patch_call', 'mcp_approval_request'];

export interface CallOutput { type: 'function_call_output' | 'custom_tool_call_output'; call_id: string; output: string }

export const openaiResponses = {
  name: 'openai-responses',
  members: ['response', 'output', 'status', 'incomplete_details'],

  read(body: JsonObject): ProviderTurn | Refusal {
    const given = givenResponse(body);
    if (isRefusal(given)) return given;
    const output = listOf(given.response['output']);
    if (!output) return wrongAt(`${given.at}/output`, 'the list of output items');
    const items = output.map((item, index) => ({ item: objectOf(item) ?? {}, at: `${given.at}/output/${index}` }));
    const calls = items.filter(({ item: { type } }) => typeof type === 'string' && Object.hasOwn(outputs, type));
    const ending = endingOf(given.response, calls.map(({ item }) => item), `${given.at}/status`);
    if (isRefusal(ending)) return ending;
    return {
      id: textOf(given.response['id']), cut: ending.cut, calls: calls.map(({ item, at }) => readCall(item, at)),
      unanswered: items.flatMap(({ item }) => unanswered(item)),
    };
  },

  write: (replies: readonly Reply[]): { input: CallOutput[] } => ({ input: replies.map(({ call, id, content }) => ({ type: outputs[call.kind] as CallOutput['type'], call_id: id, output: content })) }),
} satisfies Dialect;

function givenResponse({ response, ...rest }: JsonObject): { response: JsonObject; at: string } | Refusal {
  if (response === undefined) return { response: { output: rest['output'] ?? null, ...pick(rest, 'status'), ...pick(rest, 'incomplete_details') }, at: '' };
  if (openaiResponses.members.some((member) => rest[member] !== undefined)) return wrongAt('/response', '`response` alone, or `output` with `status`');
  const whole = objectOf(response);
  return whole ? { response: whole, at: '/response' } : wrongAt('/response', 'a response object');
}

const pick = (given: JsonObject, member: string): JsonObject => (given[member] === undefined ? {} : { [member]: given[member] });

/** A response may be whole and an item of it not. */
function endingOf(response: JsonObject, calls: readonly JsonObject[], pointer: string): { cut: string | null } | Refusal {
  const reason = textOf(objectOf(response['incomplete_details'])?.['reason']);
  if (reason !== null) return cutBy(`incomplete: ${reason}`, [], pointer);
  const ending = cutBy(response['status'], ['completed'], pointer);
  if (isRefusal(ending) || ending.cut !== null) return ending;
  const unfinished = calls.find(({ status }) => status !== undefined && status !== null && status !== 'completed');
  return unfinished ? cutBy(unfinished['status'], [], pointer) : ending;
}

function readCall(item: JsonObject, at: string): ProviderCall {
  const kind = item['type'] as string;
  return {
    id: textOf(item['call_id']), name: item['name'], arguments: argumentsText(item['arguments']), argumentsAt: `${at}/arguments`, kind,
    ...(kind === 'function_call' ? {} : { unusable: notAFunction(kind, item['name']) }),
  };
}

function unanswered({ type, execution, call_id: callId, id }: JsonObject): ProviderTurn['unanswered'] {
  const hosts = typeof type === 'string' && (ofTheHost.includes(type) || (type === 'tool_search_call' && execution === 'client'));
  return hosts ? [{ type, id: textOf(callId as Json | undefined) ?? textOf(id as Json | undefined) }] : [];
}
