/** A step put into the words of one door of the gateway, and what was said taken apart again, one answer for each intent. */
import type { Intent, Proposal, Step } from './plan.js';
import type { Heard } from './wire.js';

export interface Request { path: string; body: object; intents: Intent[]; answers(heard: Heard): Record<string, unknown>[] | null }

/** Intents of one user that are proposed in one request; a call for each where the form has no other. */
export function requestsOf(step: Step, { form, ids }: Proposal): Request[] {
  const { intents } = step;
  const shared = { session_id: step.session, ...(step.intentId === null ? {} : { intent_id: step.intentId }) };
  switch (form) {
    case 'batch': return [{
      path: '/v1/batches', intents,
      body: { ...shared, calls: intents.map((intent, n) => ({ call_id: `${ids}-${n}`, tool: intent.tool, arguments: intent.args, ...intent.envelope })) },
      answers: ({ http, body }) => (http === 200 ? (body['results'] as Record<string, unknown>[]) : null),
    }];
    case 'openai-chat': case 'anthropic': return [turnOf(step, form, ids, shared)];
    // Twins and strangers say the very same under the very same ids; the calls of one user have an id each.
    default: return intents.map((intent, n) => ({
      path: '/v1/calls', intents: [intent],
      body: {
        ...shared, ...(step.kind === 'keyed' && ids !== 'a' ? { session_id: `${step.session}-${ids}` } : {}), ...intent.envelope,
        call_id: step.kind === 'twins' || step.kind === 'stranger' ? ids : `${ids}-${n}`, tool: intent.tool,
        // As a model writes it: members in another order, the whole as text.
        arguments: form === 'text' ? JSON.stringify(Object.fromEntries(Object.entries(intent.args).reverse())) : intent.args,
      },
      answers: ({ body }) => [body],
    }));
  }
}

function turnOf({ n, intents }: Step, form: 'openai-chat' | 'anthropic', ids: string, shared: object): Request {
  const response = form === 'openai-chat'
    ? { id: `chatcmpl-${n}-${ids}`, choices: [{ index: 0, finish_reason: 'tool_calls', message: {
      role: 'assistant', content: null,
      tool_calls: intents.map(({ tool, args }, i) => ({ id: `t-${i}`, type: 'function', function: { name: tool, arguments: JSON.stringify(args) } })),
    } }] }
    : { id: `msg-${n}-${ids}`, role: 'assistant', stop_reason: 'tool_use', content: intents.map(({ tool, args }, i) => ({ type: 'tool_use', id: `t-${i}`, name: tool, input: args })) };
  return {
    path: `/v1/dialects/${form}`, intents, body: { ...shared, response },
    answers: ({ http, body }) => (http === 200 ? (body['results'] as Record<string, unknown>[]) : null),
  };
}
