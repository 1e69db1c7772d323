/** One recorded conversation through the gateway, and the verdict over each of its calls. */
import { isDeepStrictEqual } from 'node:util';
import type { Answer } from '../../../src/model.js';
import { Refused } from '../domain/refused.js';
import { type RetailData, Store } from '../domain/store.js';
import { run } from '../domain/tools.js';
import { type Deliver, openSession, settled, turnBody } from './conversation.js';
import type { House } from './house.js';
import { judge, type Moment, type Outcome, type Verdict } from './judge.js';
import { argumentsOf, type Conversation, isKnownFault, type RecordedCall, turnsOf } from './recordings.js';

export interface Replayed {
  conversation: string;
  verdicts: Verdict[];
  /** Accepted writes that reached the upstream in exactly one request; a re-send under the same key is one effect in two. */
  sentOnce: number;
  /** Null: the upstream's data are those of a run without what was rejected. */
  dataDifference: string | null;
}

/** A store that sees only what the benchmark accepted, and whom the conversation has identified: what the gateway is held against. */
class Expectation {
  readonly model: Store;
  subject: string | null;
  apart = false;

  constructor({ edition, calls }: Conversation, data: RetailData) {
    this.model = new Store(edition, data);
    // Where nobody is ever looked up, the customer is the one whom the agent names.
    this.subject = calls.some(identifies) ? null : namedUser(calls);
  }

  /** The call as the store sees it, which thereby does it. */
  moment(call: RecordedCall): Pick<Moment, 'store' | 'outOfSight' | 'apart' | 'status' | 'edition'> {
    const args = argumentsOf(call) ?? {};
    const order = typeof args['order_id'] === 'string' ? this.model.order(args['order_id']) : undefined;
    const owner = order?.user_id ?? (typeof args['user_id'] === 'string' && this.model.user(args['user_id']) ? args['user_id'] : undefined);
    const outOfSight = owner !== undefined && owner !== this.subject;
    const asked = !outOfSight && (!call.rejected || !call.write);
    return { store: asked ? this.attempt(call, args) : null, outOfSight, apart: this.apart, status: order?.status ?? null, edition: this.model.edition };
  }

  private attempt(call: RecordedCall, args: Record<string, unknown>): Outcome {
    try {
      return { result: run(this.model, call.name, args) };
    } catch (error) {
      return { refused: error instanceof Refused ? error.code : 'no such tool, or no such arguments' };
    }
  }

  learn(call: RecordedCall, answer: Answer): void {
    if (identifies(call) && typeof answer.result === 'string') this.subject = answer.result;
    if (isKnownFault(call)) this.apart = true;
  }
}

const identifies = ({ name }: RecordedCall): boolean => name.startsWith('find_user_id_');

function namedUser(calls: readonly RecordedCall[]): string | null {
  const named = calls.map((call) => argumentsOf(call)?.['user_id']).find((id) => typeof id === 'string');
  return named ?? null;
}

export async function replay(house: House, conversation: Conversation, data: RetailData, sessionId: string, deliver: Deliver): Promise<Replayed> {
  const expectation = new Expectation(conversation, data);
  const verdicts: Verdict[] = [];
  let sentOnce = 0;
  await openSession(house, sessionId);
  for (const calls of turnsOf(conversation)) {
    const before = { effects: house.service.effects().length, requests: house.service.requests().length };
    const answers = await settled(house, turnBody(sessionId, expectation.subject, calls), deliver);
    const effects = house.service.effects().slice(before.effects);
    const requests = house.service.requests().slice(before.requests);
    const moments = calls.map((call) => expectation.moment(call));
    for (const [index, call] of calls.entries()) {
      const moment = moments[index] as (typeof moments)[number];
      const dispatched = shareOf(call, calls, requests);
      const verdict = judge(call, answers[index] as Answer, { ...moment, effects: shareOf(call, calls, effects), dispatched });
      if (verdict.point === 'accepted write' && dispatched === 1) sentOnce++;
      verdicts.push(verdict);
      expectation.learn(call, answers[index] as Answer);
    }
  }
  const [is, should] = [house.service.store.changes(), expectation.model.changes()];
  const same = isDeepStrictEqual(sorted(is), sorted(should));
  return { conversation: conversation.name, verdicts, sentOnce, dataDifference: same ? null : JSON.stringify({ is, should }) };
}

/**
 * What of a turn's effects, or requests, is this call's: those of its tool on its order or user. Where a turn has several such calls, each
 * accepted one is given one as long as there are any, and what is left over is laid at the last one's door.
 */
function shareOf(call: RecordedCall, turn: readonly RecordedCall[], done: readonly { tool: string | null; target: string | null }[]): number {
  const same = turn.filter((other) => other.write && other.name === call.name && targetOf(other) === targetOf(call));
  const total = done.filter(({ tool, target }) => tool === call.name && target === targetOf(call)).length;
  const accepted = same.filter(({ rejected }) => !rejected);
  const takers = accepted.length > 0 ? accepted : same;
  const place = takers.indexOf(call);
  if (place === -1) return 0;
  const isLast = place === takers.length - 1;
  return isLast ? Math.max(0, total - place) : Math.min(1, Math.max(0, total - place));
}

function targetOf(call: RecordedCall): unknown {
  const args = argumentsOf(call);
  return args?.['order_id'] ?? args?.['user_id'];
}

function sorted(changes: ReturnType<Store['changes']>): unknown {
  const inOrder = <T>(records: Record<string, T>): [string, T][] => Object.entries(records).sort(([a], [b]) => (a < b ? -1 : 1));
  return { orders: inOrder(changes.orders), users: inOrder(changes.users) };
}
