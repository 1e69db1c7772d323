/** What the gateway said to each recorded call, held against what the benchmark recorded and what the store itself says. */
import { isDeepStrictEqual } from 'node:util';
import type { Answer } from '../../../src/model.js';
import type { Store } from '../domain/store.js';
import { answerOf, isInjected, isKnownFault, place, type RecordedCall, toTheCent } from './recordings.js';

/** The points of the README of the data, as the report counts them. */
export type Point = 'read' | 'read error' | 'accepted write' | 'rejected write' | 'out of sight';

export interface Verdict {
  call: string;
  point: Point;
  /** Null: as it must be. */
  difference: string | null;
  /** A difference from the recording that the README of the data tells of, and what was held against the store instead. */
  explained: string | null;
}

/** What the store itself says to a call. */
export type Outcome = { result: unknown } | { refused: string };

/** What else is known of the call. */
export interface Moment {
  /** Null: the store was not asked, since the benchmark rejected the call. */
  store: Outcome | null;
  /** The resource is somebody else's than whom the conversation identified. */
  outOfSight: boolean;
  /** The recording and the store went apart before, by the known fault. */
  apart: boolean;
  /** Of an order: its status when the call came. */
  status: string | null;
  edition: Store['edition'];
  /** What the call changed at the upstream, by its own books: how often. */
  effects: number;
  /** Requests of this write that reached the upstream. */
  dispatched: number;
}

export function judge(call: RecordedCall, answer: Answer, moment: Moment): Verdict {
  if (moment.outOfSight) return outOfSight(call, answer, moment);
  if (call.rejected && !isInjected(call)) return call.write ? rejectedWrite(call, answer, moment) : readError(call, answer);
  return accepted(call, answer, moment);
}

function verdict(call: RecordedCall, point: Point, difference: string | null, explained: string | null = null): Verdict {
  return { call: place(call), point, difference, explained };
}

function outOfSight(call: RecordedCall, answer: Answer, { effects }: Moment): Verdict {
  const hidden = answer.code === 'NOT_FOUND' && answer.result === null && Object.keys(answer.states).length === 0 && answer.legal_actions.length === 0;
  const difference = !hidden ? `told something of what is out of sight: ${told(answer)}` : effects > 0 ? 'it had an effect' : null;
  return verdict(call, 'out of sight', difference, 'point 6: the resource is not the identified user\'s');
}

const isDone = ({ disposition }: Answer): boolean => disposition === 'executed' || disposition === 'replayed';

function accepted(call: RecordedCall, answer: Answer, moment: Moment): Verdict {
  const point: Point = call.write ? 'accepted write' : 'read';
  const explained = whyNotAsRecorded(call, moment);
  const expected = explained ? (moment.store ?? { refused: 'nothing is known of it' }) : { result: answerOf(call) };
  if ('refused' in expected) return verdict(call, point, isDone(answer) ? `done, and the store refuses it: ${expected.refused}` : null, explained);
  if (!isDone(answer)) return verdict(call, point, `not done: ${told(answer)}`, explained);
  const due = call.write ? 1 : 0;
  if (moment.effects !== due) return verdict(call, point, `${moment.effects} effects`, explained);
  const same = isDeepStrictEqual(toTheCent(answer.result), toTheCent(expected.result));
  return verdict(call, point, same ? null : `another answer: ${JSON.stringify(answer.result)} for ${JSON.stringify(expected.result)}`, explained);
}

/** Then the store's own answer is expected. */
function whyNotAsRecorded(call: RecordedCall, { apart }: Moment): string | null {
  if (isInjected(call)) return 'the recording injected a 503';
  if (isKnownFault(call)) return 'the known fault of tau2: several items modified at once';
  return apart ? 'in a conversation after the known fault of tau2' : null;
}

const readCodes: readonly [RegExp, readonly string[]][] = [
  [/not found/i, ['NOT_FOUND', 'INVALID_ARGUMENTS']],
  [/invalid characters|expression/i, ['NOT_AN_EXPRESSION', 'INVALID_ARGUMENTS']],
];

/** By its contract code, not by its text. */
function readError(call: RecordedCall, answer: Answer): Verdict {
  if (isDone(answer)) return verdict(call, 'read error', `answered: ${JSON.stringify(answer.result)}`);
  const codes = readCodes.find(([text]) => text.test(call.error ?? ''))?.[1];
  return verdict(call, 'read error', codes && !codes.includes(answer.code ?? '') ? `code ${answer.code} for \`${call.error}\`` : null);
}

const transitionError = /non-(pending|delivered) order/i;
const relationError = /number of items|should match|should be different/i;

function rejectedWrite(call: RecordedCall, answer: Answer, { status, edition, effects, dispatched }: Moment): Verdict {
  const wrong = (difference: string | null): Verdict => verdict(call, 'rejected write', difference);
  if (effects > 0) return wrong('it had an effect');
  if (isDone(answer)) return wrong('it was told as done');
  if (transitionError.test(call.error ?? '')) {
    const legal = legalActions(status, edition);
    if (answer.code !== 'TRANSITION_ERROR' || dispatched > 0) return wrong(`not refused by the table before dispatch: ${told(answer)}`);
    if (!isDeepStrictEqual([...answer.legal_actions].sort(), legal)) return wrong(`legal actions ${answer.legal_actions.join(', ')}, not ${legal.join(', ')}`);
  } else if (relationError.test(call.error ?? '') && (answer.disposition !== 'invalid_arguments' || dispatched > 0)) {
    return wrong(`not refused by the relation before dispatch: ${told(answer)}`);
  }
  return wrong(null);
}

/** The store's table, as the README of the data tells it. */
function legalActions(status: string | null, edition: Store['edition']): string[] {
  switch (status) {
    case 'pending': return ['cancel_pending_order', 'modify_pending_order_address', 'modify_pending_order_items', 'modify_pending_order_payment'];
    case 'pending (item modified)': return edition === 'tau2' ? ['modify_pending_order_address'] : [];
    case 'delivered': return ['exchange_delivered_order_items', 'return_delivered_order_items'];
    default: return [];
  }
}

function told({ disposition, code, detail }: Answer): string {
  return [disposition, code, detail].filter((each) => each !== undefined && each !== null).join(' ');
}
