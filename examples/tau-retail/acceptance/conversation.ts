/** The other party's half of a conversation: a model's turns as a provider would give them, posted to the dialect endpoint. */
import type { Answer } from '../../../src/model.js';
import type { House } from './house.js';
import type { RecordedCall } from './recordings.js';

/** How a turn is brought to the gateway. */
export type Deliver = (house: House, body: string) => Promise<Answer[]>;

/** Enough for any recording: what is measured here is not the budgets. */
const budgets = { executions: 1000, proposals: 1000, turns: 1000 };

export async function openSession({ gateway, applicationKey }: House, sessionId: string): Promise<void> {
  const response = await fetch(`${gateway.controlUrl}/v1/sessions/${sessionId}`, {
    method: 'PUT', headers: { authorization: `Bearer ${applicationKey}`, 'content-type': 'application/json' }, body: JSON.stringify({ budgets }),
  });
  if (!response.ok) throw new Error(`the session could not be created: ${response.status} ${await response.text()}`);
}

/** A chat completion that ends in these calls. */
export function turnBody(sessionId: string, subject: string | null, calls: readonly RecordedCall[]): string {
  return JSON.stringify({
    session_id: sessionId,
    ...(subject === null ? {} : { subject }),
    response: {
      id: `chatcmpl-${sessionId}-${calls[0]?.turn}`, object: 'chat.completion', created: 0, model: 'recorded',
      choices: [{
        index: 0, finish_reason: 'tool_calls',
        message: { role: 'assistant', content: null, tool_calls: calls.map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } })) },
      }],
    },
  });
}

interface Given { messages: { role: string; tool_call_id: string; content: string }[]; results: Answer[] }

/** @throws Error when the gateway is not there, or answers anything but one result and one message for each call. */
export async function post({ gateway, agentKey }: House, body: string): Promise<Answer[]> {
  const response = await fetch(`${gateway.agentUrl}/v1/dialects/openai-chat`, {
    method: 'POST', headers: { authorization: `Bearer ${agentKey}`, 'content-type': 'application/json' }, body,
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`the dialect endpoint answered ${response.status}: ${text}`);
  const { messages, results } = JSON.parse(text) as Given;
  const ids = (JSON.parse(body) as { response: { choices: { message: { tool_calls: { id: string }[] } }[] } }).response.choices[0]?.message.tool_calls.map(({ id }) => id) ?? [];
  if (JSON.stringify(messages.map(({ tool_call_id }) => tool_call_id)) !== JSON.stringify(ids) || results.length !== ids.length) {
    throw new Error(`not one result under each id that came: ${text}`);
  }
  return results;
}

const open = new Set(['unknown', 'pending', 'in_progress', 'unavailable', 'failed', 'rate_limited']);
const settleMs = 60_000;
const pauseMs = 100;

/** Sends the same turn again, as a host does whose answer was lost or came without an outcome, until every call of it is settled. */
export async function settled(house: House, body: string, deliver: Deliver): Promise<Answer[]> {
  for (const until = performance.now() + settleMs; ; await new Promise((resolve) => setTimeout(resolve, pauseMs))) {
    try {
      const answers = await deliver(house, body);
      if (answers.every(isSettled) || performance.now() > until) return answers;
    } catch (error) {
      if (!isConnectionFailure(error) || performance.now() > until) throw error;
      await house.gateway.start();
    }
  }
}

function isSettled({ disposition, code }: Answer): boolean {
  return !open.has(disposition) && code !== 'PREDECESSOR_UNKNOWN';
}

/** What fetch says of a connection that is refused, reset or closed under it. */
function isConnectionFailure(error: unknown): boolean {
  return error instanceof TypeError;
}
