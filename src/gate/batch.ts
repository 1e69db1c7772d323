/** The calls of one turn, or of one batch: each is decided by the pipeline, and each gets exactly one answer, in the order given. */
import { isRefusal, refuse } from '../errors.js';
import type { Answer, Json, Principal } from '../model.js';
import type { ProposedBatch, ProposedTurn, TurnAnswer, TurnCall } from '../ports.js';
import { refusalAnswer } from './answer.js';
import type { Place } from './calls.js';
import { callIdOf, mintCallId, parseBatch, parseTurn, type TurnMembers } from './parse.js';
import type { Parts } from './parts.js';
import { call } from './pipeline.js';
import { Progress } from './progress.js';

interface Calls { principal: Principal; turn: TurnMembers; calls: readonly TurnCall[]; places: readonly Place[]; until: number }

export async function runBatch(parts: Parts, { body, principal, patienceMs }: ProposedBatch): Promise<TurnAnswer> {
  const parsed = parseBatch(parts, body);
  const { callsPerTurn } = parts.settings;
  const refusal = isRefusal(parsed) ? parsed
    : parsed.calls.length > callsPerTurn ? refuse('TOO_MANY_CALLS', `The batch has ${parsed.calls.length} calls; the limit is ${callsPerTurn}.`) : null;
  if (refusal || isRefusal(parsed)) return { refused: refusalAnswer(refusal ?? (parsed as never), silent()) };
  const names = namesById(parsed.calls);
  return { results: await runAll(parts, {
    principal, turn: parsed.turn, calls: parsed.calls.map((members) => ({ members })),
    places: names.map((name) => ({ name, sameAs: name, cut: null })), until: deadline(parts, patienceMs),
  }) };
}

export async function runTurn(parts: Parts, { principal, members, calls, cut, patienceMs }: ProposedTurn): Promise<TurnAnswer> {
  const turn = parseTurn(members);
  if (isRefusal(turn)) return { refused: refusalAnswer(turn, silent()) };
  const names = calls.map((_, position) => (turn.turn_id === undefined ? null : position));
  return { results: await runAll(parts, { principal, turn, calls, places: names.map((name) => ({ name, sameAs: name, cut })), until: deadline(parts, patienceMs) }) };
}

/** The n-th call of a batch under one id is identified by (id, n), so that none is lost and a batch that is sent again is recognised. */
function namesById(calls: readonly Json[]): Json[] {
  const seen = new Map<string, number>();
  return calls.map((members) => {
    const id = callIdOf(members);
    if (id === undefined) return null;
    const n = (seen.get(id) ?? 0) + 1;
    seen.set(id, n);
    return n === 1 ? id : [id, n];
  });
}

async function runAll(parts: Parts, turn: Calls): Promise<Answer[]> {
  const results: Answer[] = [];
  for (let position = 0; position < turn.calls.length; position++) results.push(await runOne(parts, turn, position));
  return results;
}

async function runOne(parts: Parts, { principal, turn, calls, places, until }: Calls, position: number): Promise<Answer> {
  const progress = silent();
  const given = calls[position] as TurnCall;
  const { callsPerTurn } = parts.settings;
  progress.callId = ('unusable' in given ? given.callId : callIdOf(given.members)) ?? mintCallId();
  if (position >= callsPerTurn) {
    return refusalAnswer(refuse('BUDGET_EXHAUSTED', `A turn may make ${callsPerTurn} calls and this one made ${calls.length}.`), progress);
  }
  if ('unusable' in given) return refusalAnswer(refuse('UNUSABLE_CALL', given.unusable), progress);
  return call(parts, { principal, turn, members: given.members, place: places[position] as Place }, { until, respondAsync: false });
}

function deadline(parts: Parts, patienceMs: number | undefined): number {
  return performance.now() + (patienceMs ?? parts.settings.patienceMs);
}

function silent(): Progress {
  return new Progress(() => undefined);
}
