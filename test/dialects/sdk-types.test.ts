/** What the dialects write is, to the compiler, what the providers' own packages take into a history. */
import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { anthropic } from '../../src/http/dialects/anthropic.js';
import type { Reply } from '../../src/http/dialects/dialect.js';
import { openaiChat } from '../../src/http/dialects/openai-chat.js';
import { openaiResponses } from '../../src/http/dialects/openai-responses.js';
import { executed } from '../http/listeners.js';

const reply = (kind: string): Reply => ({ call: { id: 'a', name: 't', arguments: '{}', argumentsAt: '', kind }, id: 'a', answer: executed, content: '{}' });

describe('messages fit the types of the packages', () => {
  it('openai, chat', () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = openaiChat.write([reply('function'), reply('custom')]).messages;
    expect(messages.map(({ role }) => role)).toEqual(['tool', 'tool']);
  });

  it('openai, responses', () => {
    const input: OpenAI.Responses.ResponseInputItem[] = openaiResponses.write([reply('function_call'), reply('custom_tool_call')]).input;
    expect(input.map(({ type }) => type)).toEqual(['function_call_output', 'custom_tool_call_output']);
  });

  it('anthropic', () => {
    const message: Anthropic.MessageParam | null = anthropic.write([reply('tool_use'), { ...reply('tool_use'), answer: { ...executed, status: 404 } }]).message;
    expect(message?.content).toEqual([{ type: 'tool_result', tool_use_id: 'a', content: '{}' }, { type: 'tool_result', tool_use_id: 'a', content: '{}', is_error: true }]);
  });
});
