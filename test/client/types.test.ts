import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { AnthropicTurn, Answer, Disposition, NextAction, OpenaiChatTurn, OpenaiResponsesTurn } from '../../src/client/index.js';
import { dispositions, nextActions } from '../../src/model.js';
import { executed, refusal, unknown } from './scripted-gateway.js';

/** The compiler is the test here (`tsc -p tsconfig.test.json`): a word that a program forgot must not compile, nor a member that cannot be there. */
function whatNow(answer: Answer): string {
  switch (answer.next_action) {
    case 'continue': return 'go on';
    case 'verify': return `call ${answer.verify_with?.tool}`;
    case 'wait': return `ask for ${answer.operation_id}`;
    case 'retry': return 'send it again';
    case 'repair': case 'refresh': return answer.detail;
    case 'ask': return 'ask the user';
    case 'abandon': case 'escalate': return answer.detail ?? 'a person';
    default: return forgotten(answer);
  }
}

function whatHappened(answer: Answer<{ receipt_id: string }>): string | number {
  switch (answer.disposition) {
    case 'executed': case 'replayed': return answer.result?.receipt_id ?? 'too large';
    case 'pending': case 'unknown': case 'approval_required': case 'review': {
      const id: string = answer.operation_id;
      const none: null = answer.result;
      return id + String(none);
    }
    case 'in_progress': {
      const next: 'wait' = answer.next_action;
      return next;
    }
    default: return answer.status + answer.errors.length;
  }
}

/** A later gateway may say a word that this program does not know. */
function forgotten(answer: never): string {
  return `${String((answer as Answer).next_action)}?`;
}

function wrong(answer: Answer): unknown {
  // @ts-expect-error there is no such disposition
  if (answer.disposition === 'exectued') return null;
  // @ts-expect-error a result is there only once it is known what was done
  if (answer.disposition === 'unknown') return answer.result.receipt_id;
  // @ts-expect-error what is unknown is never to be repaired
  if (answer.disposition === 'unknown') return answer.next_action === 'repair';
  return answer;
}

/** What a turn gives is what the providers' own packages take. */
const taken = {
  chat: ({ messages }: OpenaiChatTurn): OpenAI.ChatCompletionMessageParam[] => messages,
  responses: ({ input }: OpenaiResponsesTurn): OpenAI.Responses.ResponseInputItem[] => input,
  anthropic: ({ message }: AnthropicTurn): Anthropic.MessageParam | null => message,
};

describe('answers as types', () => {
  it('switch over them', () => {
    expect(whatNow(executed as Answer)).toBe('go on');
    expect(whatNow(unknown as Answer)).toBe('ask for op_1');
    expect(whatNow({ ...executed, next_action: 'ponder' } as unknown as Answer)).toBe('ponder?');
    expect(whatHappened(executed as Answer<{ receipt_id: string }>)).toBe('CR-1');
    expect(whatHappened(refusal({ disposition: 'denied', next_action: 'abandon', status: 403, code: 'FORBIDDEN' }) as Answer<{ receipt_id: string }>)).toBe(403);
    expect(wrong).toBeTypeOf('function');
    expect(taken.anthropic({ message: null, results: [] })).toBeNull();
  });

  it('have all the words of the model, and no other', () => {
    const words: Record<Disposition, true> = Object.fromEntries(dispositions.map((word) => [word, true])) as Record<Answer['disposition'], true>;
    const actions: Record<Answer['next_action'], true> = Object.fromEntries(nextActions.map((word) => [word, true])) as Record<NextAction, true>;
    expect(Object.keys(words)).toHaveLength(dispositions.length);
    expect(Object.keys(actions)).toHaveLength(nextActions.length);
  });
});
