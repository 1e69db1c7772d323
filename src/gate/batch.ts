/** The calls of one turn, or of one batch: ordered here, decided by the pipeline, each answered exactly once, in the order given. */
import { randomUUID } from 'node:crypto';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { Answer, Disposition, Json, JsonObject } from '../model.js';
import type { ProposedBatch, ProposedTurn, TurnAnswer, TurnCall } from '../ports.js';
import { refusalAnswer } from './answer.js';
import { type Ended, type Ending, type Mode, type NotLegal, type Ordered, runInOrder, type Stopped } from './batch-order.js';
import { namesById, plan, type Planned, readAgain, type Turn } from './batch-plan.js';
import { callIdOf, mintCallId, parseBatch, parseTurn, type Received } from './parse.js';
import type { Parts } from './parts.js';
import { call, callIfLegal, type CallOptions } from './pipeline.js';
import { Progress } from './progress.js';
import type { WaitingCall } from './waiting.js';

export async function runBatch(parts: Parts, { body, principal, patienceMs }: ProposedBatch): Promise<TurnAnswer> {
  const parsed = parseBatch(parts, body);
  if (isRefusal(parsed)) return whole(parsed);
  const { turn: members, calls } = parsed;
  const { callsPerTurn } = parts.settings;
  if (calls.length > callsPerTurn) return whole(refuse('TOO_MANY_CALLS', `The batch has ${calls.length} calls; the limit is ${callsPerTurn}.`));
  const turn = { principal, members, calls: calls.map((call) => ({ members: call })), names: namesById(calls), cut: null };
  return { results: await new TurnRun(parts, turn, patienceMs).results() };
}

export async function runTurn(parts: Parts, { principal, members, calls, cut, patienceMs }: ProposedTurn): Promise<TurnAnswer> {
  const parsed = parseTurn(members);
  if (isRefusal(parsed)) return whole(parsed);
  const { callsPerTurn } = parts.settings;
  const within = calls.slice(0, callsPerTurn);
  // A turn that cannot be recognised again has no positions to go by; its writes are known by what they mean.
  const names = within.map((_, position) => (parsed.turn_id === undefined ? null : position));
  const results = await new TurnRun(parts, { principal, members: parsed, calls: within, names, cut }, patienceMs).results();
  const tooMany = refuse('BUDGET_EXHAUSTED', `A turn may make ${callsPerTurn} calls; this one made ${calls.length}, and the first ${callsPerTurn} of them ran.`);
  return { results: [...results, ...calls.slice(callsPerTurn).map((given) => plainRefusal(given, tooMany))] };
}

function whole(refusal: Refusal): TurnAnswer {
  return { refused: refusalAnswer(refusal, new Progress(() => undefined)) };
}

/** Of a call that the pipeline is not asked about. */
function plainRefusal(given: TurnCall, refusal: Refusal): Answer {
  const progress = new Progress(() => undefined);
  progress.callId = ('unusable' in given ? given.callId : callIdOf(given.members)) || mintCallId();
  return refusalAnswer(refusal, progress);
}

class TurnRun {
  private readonly answers: Answer[] = [];
  private readonly until: number;
  private readonly planned: Planned;
  /** Versions that writes of this turn were proposed on and have moved on from just now, by entity. After one that was made before, others may have written. */
  private readonly movedFrom = new Map<string, Set<Json>>();

  /** By position: its writes can be cancelled before their turn has come. */
  private readonly waiting: (WaitingCall | undefined)[];

  constructor(private readonly parts: Parts, private readonly turn: Turn, patienceMs = parts.settings.patienceMs) {
    this.until = performance.now() + patienceMs;
    this.planned = plan(parts, turn);
    this.waiting = turn.calls.map((_, position) => this.enter(position));
  }

  async results(): Promise<Answer[]> {
    try {
      await runInOrder(this.planned.order, (call, mode) => this.run(call, mode));
    } finally {
      for (const waiting of this.waiting) waiting?.leave();
    }
    return this.answers;
  }

  private enter(position: number): WaitingCall | undefined {
    const ordered = this.planned.order.find((each) => each.position === position);
    const given = this.turn.calls[position] as TurnCall;
    if (!ordered?.write || 'unusable' in given) return undefined;
    return this.parts.waiting.enter(this.turn.principal, () => readAgain(this.parts, this.received(ordered, given.members)));
  }

  private received(ordered: Ordered, members: Json): Received {
    const { principal, members: turn } = this.turn;
    return { principal, turn, members: this.onPresentVersion(ordered, members), context: this.planned.contexts[ordered.position] as Planned['contexts'][number] };
  }

  private async run(ordered: Ordered, mode: Mode): Promise<Ended | NotLegal> {
    const { position } = ordered;
    const given = this.turn.calls[position] as TurnCall;
    let keys = ordered.keys;
    const answered = 'unusable' in given ? plainRefusal(given, refuse('UNUSABLE_CALL', given.unusable)) : await this.decide(ordered, given.members, mode, (known) => { keys = known; });
    if ('deferredIn' in answered) return { notLegalIn: answered.deferredIn };
    this.answers[position] = answered;
    this.waiting[position]?.leave();
    const ending = endingOf(answered);
    if (answered.disposition === 'executed' && ordered.write && 'members' in given) this.moved(keys, given.members);
    return { ending, keys, states: answered.states };
  }

  /** One failure of ours is one position's answer: what the others did is not forgotten over it. */
  private async decide(ordered: Ordered, members: Json, mode: Mode, isOn: (keys: readonly string[]) => void) {
    const received = this.received(ordered, members);
    const forbids = (keys: readonly string[]): Refusal | undefined => {
      isOn(keys);
      const stopped = mode.stopped(keys);
      if (stopped) return predecessor[stopped];
      return mode.waited && performance.now() >= this.until ? notBegun : undefined;
    };
    const options: CallOptions = { until: this.until, respondAsync: false, forbids, waiting: this.waiting[ordered.position] };
    try {
      return mode.insist ? await call(this.parts, received, options) : await callIfLegal(this.parts, received, options);
    } catch (error) {
      const incident = `inc_${randomUUID()}`;
      this.parts.log.error({ err: error, incident_id: incident }, 'a call of a turn failed unexpectedly');
      return plainRefusal({ members }, refuse('INTERNAL', `The gateway failed; tell the operator incident \`${incident}\`.`));
    }
  }

  private moved(keys: readonly string[], members: Json): void {
    const version = (members as JsonObject)['expected_version'];
    if (version === undefined) return;
    for (const key of keys) this.movedFrom.set(key, (this.movedFrom.get(key) ?? new Set()).add(version));
  }

  /** Calls of one turn are made on the same sight of the world: what an earlier one of them changed is not a change by somebody else. */
  private onPresentVersion({ keys }: Ordered, members: Json): Json {
    if (members === null || typeof members !== 'object' || Array.isArray(members)) return members;
    const { expected_version: version, ...rest } = members;
    return version !== undefined && keys.some((key) => this.movedFrom.get(key)?.has(version)) ? rest : members;
  }
}

const retryAfterMs = 1000;
const predecessor: Readonly<Record<Stopped, Refusal>> = {
  failed: refuse('PREDECESSOR_FAILED', 'A write before it in this turn, on the same resource, did not take effect. Nothing was sent.'),
  unknown: refuse('PREDECESSOR_UNKNOWN', 'A write before it in this turn, on the same resource, has not settled. Nothing was sent.', { retryAfterMs }),
  unavailable: refuse('UNAVAILABLE', 'A write before it in this turn, on the same resource, could not be recorded. Nothing was sent.'),
};
const notBegun = refuse('NOT_BEGUN', 'The patience of the turn ended before this call could begin. Nothing was sent.', { retryAfterMs });

const unsettled: ReadonlySet<Disposition> = new Set(['unknown', 'pending', 'in_progress', 'approval_required', 'review']);

function endingOf({ disposition }: Answer): Ending {
  if (disposition === 'executed' || disposition === 'replayed') return 'committed';
  if (disposition === 'transition_error') return 'illegal';
  if (disposition === 'unavailable') return 'unavailable';
  return unsettled.has(disposition) ? 'unknown' : 'failed';
}
