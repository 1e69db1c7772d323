/** From the body of a dialect's request to one turn for the gate: read strictly, ours closed, the provider's as it came. */
import { createHash } from 'node:crypto';
import { isRefusal, type Refusal, refuse } from '../../errors.js';
import type { Json, JsonObject } from '../../model.js';
import type { TurnCall } from '../../ports.js';
import { decodeUtf8, findUnstorable, parseStrict, pointerToken } from '../../strict-json.js';
import { type Dialect, moreThanATurn, objectOf, type ProviderCall, type ProviderTurn } from './dialect.js';

export interface ReadTurn {
  /** For the gate, which checks ours of the members. */
  members: Json;
  calls: TurnCall[];
  cut: string | null;
  /** What goes back to the provider: the call as it came, and the id under which its result is expected. */
  given: { call: ProviderCall; id: string }[];
  unanswered: ProviderTurn['unanswered'];
}

/** Of the places of such integers that are remembered; a provider's own are few, if there are any. */
const pointersBytes = 256 * 1024;

export function readTurn(dialect: Dialect, bytes: Buffer, maxDepth: number): ReadTurn | Refusal {
  const inexact = new Set<string>();
  const body = readBody(bytes, maxDepth, inexact);
  if (isRefusal(body)) return body;
  const turn = dialect.read(body);
  if (isRefusal(turn)) return turn;
  const tooMany = moreThanATurn(turn.calls.length);
  if (tooMany) return tooMany;
  const members = Object.fromEntries(Object.entries(body).filter(([member]) => !dialect.members.includes(member)));
  const turnId = turnIdOf(turn, members);
  const given = turn.calls.map((call, position) => ({ call, id: call.id ?? mint(turnId, position) }));
  return {
    members: { ...members, turn_id: turnId },
    cut: turn.cut,
    // What the gate keeps has to be an id; what goes back to the provider is what came.
    calls: given.map(({ call, id }, position) => proposed(call, isUsable(id) ? id : mint(turnId, position), inexact)),
    given,
    unanswered: turn.unanswered,
  };
}

/** Inexact integers stay what they are until it shows whether they belong to a call: what else the provider tells is not ours to refuse. */
function readBody(bytes: Buffer, maxDepth: number, inexact: Set<string>): JsonObject | Refusal {
  const text = decodeUtf8(bytes);
  if (text === null) return refuse('MALFORMED_JSON', 'The body is not valid UTF-8.');
  let left = pointersBytes;
  const parsed = parseStrict(text, { maxDepth }, (pointer) => {
    if (left < 0) return;
    const at = pointer();
    left -= at.length;
    inexact.add(at);
  });
  if (!parsed.ok) {
    return refuse(parsed.code, `${parsed.message} (at character ${parsed.position}).`, {
      errors: [{ pointer: parsed.pointer, code: parsed.code.toLowerCase(), message: parsed.message }],
    });
  }
  if (left < 0) return refuse('INTEGER_PRECISION', 'The turn holds more integers beyond ±9007199254740991 than can be told apart.');
  return objectOf(parsed.value) ?? refuse('INVALID_ENVELOPE', 'The body is not an object.', { errors: [{ pointer: '', code: 'type', message: 'Send one JSON object.' }] });
}

const maxIdBytes = 512;

function isUsable(id: string): boolean {
  return id !== '' && Buffer.byteLength(id) <= maxIdBytes && findUnstorable(id) === null;
}

/**
 * The provider's id of the response, so that a turn which is sent again is the same turn. Without one it follows from the content, the ids
 * of the calls included: the same turn gives the same id, and a later one that says the same under new call ids does not.
 */
function turnIdOf(turn: ProviderTurn, { turn_id: own, ...members }: JsonObject): string {
  if (turn.id !== null && isUsable(turn.id)) return turn.id;
  return typeof own === 'string' && isUsable(own) ? own : `turn_${digest(JSON.stringify([members, turn]))}`;
}

function mint(turnId: string, position: number): string {
  return `call_${digest(`${position} ${turnId}`)}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

function proposed(call: ProviderCall, callId: string, inexact: ReadonlySet<string>): TurnCall {
  if (call.unusable !== undefined) return { callId, unusable: call.unusable };
  const { name, arguments: given, argumentsAt } = call;
  return {
    members: {
      call_id: callId,
      ...(name === undefined ? {} : { tool: name }),
      ...(given === undefined ? {} : { arguments: inexact.size > 0 && objectOf(given) ? exactText(given, argumentsAt, inexact) : given }),
    },
  };
}

/** As the model wrote it, digits and all: the gate reads it and says which integer it cannot carry. */
function exactText(value: Json, at: string, inexact: ReadonlySet<string>): string {
  if (value === null || typeof value !== 'object') return typeof value === 'string' && inexact.has(at) ? value : JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item, index) => exactText(item, `${at}/${index}`, inexact)).join(',')}]`;
  return `{${Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}:${exactText(member, at + pointerToken(key), inexact)}`).join(',')}}`;
}
