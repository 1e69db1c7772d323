/** Anthropic Messages: calls are blocks of the assistant's content, and all their results one message of the user. */
import { isRefusal, type Refusal } from '../../errors.js';
import type { Json, JsonObject } from '../../model.js';
import { cutBy, type Dialect, listOf, objectOf, type ProviderCall, type ProviderTurn, type Reply, textOf, wrongAt } from './dialect.js';

const whole = ['tool_use', 'end_turn'];

export interface ToolResult { type: 'tool_result'; tool_use_id: string; content: string; is_error?: true; toolset_name?: string }
export interface ToolResults { role: 'user'; content: ToolResult[] }

export const anthropic = {
  name: 'anthropic',
  members: ['response', 'message', 'stop_reason'],

  read(body: JsonObject): ProviderTurn | Refusal {
    const given = givenMessage(body);
    if (isRefusal(given)) return given;
    const { message, at } = given;
    // a message may be plain text
    const content = typeof message['content'] === 'string' ? [] : listOf(message['content']);
    if (!content) return wrongAt(`${at}/content`, 'the blocks of the assistant’s message');
    const ending = cutBy(given.stop, whole, given.stopAt);
    if (isRefusal(ending)) return ending;
    const calls = content.flatMap((block, index) => {
      const use = objectOf(block);
      return use?.['type'] === 'tool_use' ? [readCall(use, `${at}/content/${index}`)] : [];
    });
    return { id: textOf(message['id']), cut: ending.cut, calls, unanswered: [] };
  },

  write: (replies: readonly Reply[]): { message: ToolResults | null } => ({ message: replies.length === 0 ? null : { role: 'user', content: replies.map(resultBlock) } }),
} satisfies Dialect;

interface Given { message: JsonObject; at: string; stop: Json | undefined; stopAt: string }

function givenMessage({ response, message, stop_reason: stop }: JsonObject): Given | Refusal {
  if (response !== undefined) {
    if (message !== undefined || stop !== undefined) return wrongAt('/response', '`response` alone, or `message` with `stop_reason`');
    const whole = objectOf(response);
    return whole ? { message: whole, at: '/response', stop: whole['stop_reason'], stopAt: '/response/stop_reason' } : wrongAt('/response', 'a message object');
  }
  const alone = objectOf(message);
  if (!alone) return wrongAt('/message', 'the assistant’s message');
  return { message: alone, at: '/message', stop: stop ?? alone['stop_reason'], stopAt: '/stop_reason' };
}

/** A tool of one of the provider's own sets is never ours, though its name may be. */
function readCall(use: JsonObject, at: string): ProviderCall {
  const toolset = textOf(use['toolset_name']);
  return {
    id: textOf(use['id']), name: use['name'], arguments: use['input'], argumentsAt: `${at}/input`, kind: 'tool_use',
    ...(toolset === null ? {} : { toolset, unusable: `The tools of \`${toolset}\` are not available here. Use a tool of the list.` }),
  };
}

function resultBlock({ call, id, answer, content }: Reply): ToolResult {
  return {
    type: 'tool_result', tool_use_id: id, content,
    ...(answer.status === undefined ? {} : { is_error: true }),
    ...(call.toolset === undefined ? {} : { toolset_name: call.toolset }),
  };
}
