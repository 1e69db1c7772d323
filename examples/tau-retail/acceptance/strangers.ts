/** Point 6: a write against another user's order is denied, without a word about that order. */
import { isDeepStrictEqual } from 'node:util';
import type { Answer } from '../../../src/model.js';
import type { RetailData } from '../domain/store.js';
import { openSession, post, settled, turnBody } from './conversation.js';
import type { House } from './house.js';
import { argumentsOf, type Conversation, place, type RecordedCall } from './recordings.js';

export interface Stranger { call: string; difference: string | null }

const noOrder = '#W0000000';

/** Each accepted write on an order once more, by somebody else, against that order and against one that does not exist. */
export async function probe(house: House, conversations: readonly Conversation[], data: RetailData, session: string): Promise<Stranger[]> {
  const found: Stranger[] = [];
  for (const [index, { name, calls }] of conversations.entries()) {
    const write = calls.find((call) => call.write && !call.rejected && typeof argumentsOf(call)?.['order_id'] === 'string');
    const order = write && data.orders[String(argumentsOf(write)?.['order_id'])];
    const stranger = Object.keys(data.users).find((user) => user !== order?.user_id);
    if (!write || !order || stranger === undefined) continue;
    house.service.reset();
    const [hidden, missing] = [await ask(house, write, `${session}-${index}-hidden`, stranger), await ask(house, elsewhere(write), `${session}-${index}-missing`, stranger)];
    found.push({ call: `${name}: ${place(write)} by ${stranger}`, difference: difference(house, order.user_id, hidden, missing) });
  }
  return found;
}

async function ask(house: House, call: RecordedCall, sessionId: string, subject: string): Promise<Answer> {
  await openSession(house, sessionId);
  const [answer] = await settled(house, turnBody(sessionId, subject, [call]), post);
  return answer as Answer;
}

function elsewhere(call: RecordedCall): RecordedCall {
  return { ...call, args: JSON.stringify({ ...argumentsOf(call), order_id: noOrder }) };
}

function difference({ service }: House, owner: string, hidden: Answer, missing: Answer): string | null {
  if (service.effects().length > 0 || service.requests().length > 0) return 'a write was sent';
  if (hidden.code !== 'NOT_FOUND') return `${hidden.disposition} ${hidden.code}`;
  if (JSON.stringify(hidden).includes(owner)) return 'the answer names the owner';
  return isDeepStrictEqual(words(hidden), words(missing)) ? null : 'an order that exists and one that does not are answered differently';
}

/** Without what every call has of its own. */
function words({ call_id, operation_id, receipts, ...rest }: Answer): unknown {
  return JSON.parse(JSON.stringify(rest, (name, value: unknown) => (name === 'ms' ? 0 : value)));
}
