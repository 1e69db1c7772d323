/**
 * Stage 1, parse: bounded bytes become one well-formed call of a tool on the caller's list. No I/O.
 *
 * Strict throughout: a duplicate key, a cut-off end or an inexact integer is refused instead of read one way or the other, because
 * whoever checks and whoever executes must see the same values.
 */
import { randomUUID } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import { TypeCompiler, type ValueError } from '@sinclair/typebox/compiler';
import { nearest, nearestFew } from '../contract/nearest.js';
import type { ToolPlan } from '../contract/plan.js';
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { FieldError, Json, JsonObject, Principal } from '../model.js';
import { decodeUtf8, findUnstorable, parseStrict } from '../strict-json.js';
import { begun, type Envelope, type OrderedUndo, type ParsedCall, type TurnContext } from './calls.js';
import { isListed } from './listed.js';
import type { Parts } from './parts.js';
import type { Progress } from './progress.js';
import type { Served } from './served.js';
import { unstorableText } from './unstorable.js';
import { mayUse } from './usable.js';

const maxIdBytes = 512;
const Id = Type.String({ minLength: 1, maxLength: maxIdBytes });

const turnMembers = {
  session_id: Id,
  turn_id: Type.Optional(Id),
  intent_id: Type.Optional(Id),
  purpose: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  subject: Type.Optional(Id),
};
const callMembers = {
  call_id: Type.Optional(Type.String({ maxLength: maxIdBytes })),
  tool: Type.String({ minLength: 1, maxLength: 256 }),
  contract: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
  arguments: Type.Union([Type.Object({}), Type.String()]),
  occurrence: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
  expected_version: Type.Optional(Id),
  idempotency_key: Type.Optional(Id),
};

/** The members of `POST /v1/calls`; closed, as all three are, so that a misspelt member is told instead of dropped. */
const CallBody = Type.Object({ ...turnMembers, ...callMembers }, { additionalProperties: false });
/** Of the calls of one turn together, and of each of them. */
const TurnMembers = Type.Object(turnMembers, { additionalProperties: false });
const CallMembers = Type.Object(callMembers, { additionalProperties: false });
export type TurnMembers = Static<typeof TurnMembers>;
type CallBody = Static<typeof CallBody>;

const checkBody = TypeCompiler.Compile(CallBody);
const checkTurn = TypeCompiler.Compile(TurnMembers);
const checkCall = TypeCompiler.Compile(CallMembers);

/** One call as it was proposed: the bytes of a body, or its members in a turn. */
export type Received = { principal: Principal; idempotencyKey?: string } & ({ body: Buffer } | { turn: TurnMembers; members: Json; context: TurnContext; undoes?: OrderedUndo });

export function parse(parts: Parts, received: Received, progress: Progress): ParsedCall | Refusal {
  progress.principal = received.principal.id;
  const body = 'body' in received ? parseBody(parts, received.body) : parseMembers(received, progress);
  if (isRefusal(body)) return body;
  const served = parts.served();
  const { catalogue } = served;
  progress.callId ??= body.call_id || mintCallId();
  progress.sessionId = body.session_id;
  progress.intentId = body.intent_id ?? '';
  progress.toolName = body.tool;

  const tool = allowed(received.principal, catalogue.tools.get(body.tool));
  if (!tool) return blockedTool(served, received.principal, body.tool);
  progress.tool = tool;
  if (body.contract !== undefined && body.contract !== tool.version && body.contract !== tool.digest) {
    return refuse('CONTRACT_NOT_SERVED', `The tool \`${tool.name}\` is served under version ${tool.version}, digest ${tool.digest}.`);
  }
  const envelope = readEnvelope(received, body, progress.callId);
  if (isRefusal(envelope)) return envelope;
  const given = readArguments(parts, body.arguments);
  if (isRefusal(given)) return given;
  const cut = 'context' in received ? received.context.cut : null;
  if (cut !== null && tool.effect !== 'none') return refuse('TURN_CUT', `The turn was cut (\`${cut}\`), so what it meant to write is not known whole. Nothing was sent.`);
  return begun({ served, principal: received.principal, envelope, tool, given });
}

function parseBody(parts: Parts, bytes: Buffer): CallBody | Refusal {
  const value = readJson(parts, bytes, parts.settings.depth);
  if (isRefusal(value)) return value;
  if (!checkBody.Check(value.json)) return envelopeRefusal(checkBody.Errors(value.json), CallBody.properties);
  return fitting(value.json);
}

/** The id is echoed, and minted where there is none, also of a call that is no call otherwise: every answer of a turn has one. */
function parseMembers({ turn, members }: Extract<Received, { members: Json }>, progress: Progress): CallBody | Refusal {
  progress.callId = callIdOf(members) ?? mintCallId();
  progress.sessionId = turn.session_id;
  progress.intentId = turn.intent_id ?? '';
  if (!checkCall.Check(members)) return envelopeRefusal(checkCall.Errors(members), CallMembers.properties);
  return fitting({ ...turn, ...members });
}

/** The id that a call of a turn came with, where it is one that can be echoed. */
export function callIdOf(members: Json): string | undefined {
  const id = members !== null && typeof members === 'object' && !Array.isArray(members) ? members['call_id'] : undefined;
  return typeof id === 'string' && id !== '' && Buffer.byteLength(id) <= maxIdBytes && findUnstorable(id) === null ? id : undefined;
}

/** What the calls of a turn have in common. */
export function parseTurn(members: Json): TurnMembers | Refusal {
  if (!checkTurn.Check(members)) return envelopeRefusal(checkTurn.Errors(members), TurnMembers.properties);
  return unfitText(members) ?? members;
}

/** The body of a batch: the members of the turn, and its calls. Nested one list and one object deeper than a call by itself. */
export function parseBatch(parts: Parts, bytes: Buffer): { turn: TurnMembers; calls: Json[] } | Refusal {
  const value = readJson(parts, bytes, parts.settings.depth + 2);
  if (isRefusal(value)) return value;
  const { calls, ...members } = (isObject(value.json) ? value.json : {}) as JsonObject;
  const turn = parseTurn(isObject(value.json) ? members : value.json);
  if (isRefusal(turn)) return turn;
  if (!Array.isArray(calls)) {
    return refuse('INVALID_ENVELOPE', 'The batch has no list `calls`.', { errors: [{ pointer: '/calls', code: calls === undefined ? 'required' : 'type', message: 'Send a list of calls.', expected: 'array' }] });
  }
  return { turn, calls };
}

function isObject(value: Json): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function readJson(parts: Parts, bytes: Buffer, maxDepth: number): { json: Json } | Refusal {
  const { bodyBytes } = parts.settings;
  if (bytes.length > bodyBytes) return refuse('BODY_TOO_LARGE', `The body has ${bytes.length} bytes; the limit is ${bodyBytes}.`);
  const text = decodeUtf8(bytes);
  if (text === null) return refuse('MALFORMED_JSON', 'The body is not valid UTF-8.');
  const parsed = parseStrict(text, { maxDepth });
  return parsed.ok ? { json: parsed.value } : strictRefusal(parsed);
}

function fitting(value: CallBody): CallBody | Refusal {
  const { arguments: given, ...envelope } = value;
  return unfitText(envelope) ?? value;
}

/** What a schema cannot say of the members' texts: that they can be stored, and that the limit of ids is in bytes. */
function unfitText(envelope: Partial<CallBody>): Refusal | undefined {
  const unstorable = findUnstorable(envelope as Json);
  if (unstorable !== null) {
    return refuse('INVALID_ENVELOPE', `\`${unstorable}\` has NUL or a lone surrogate, which cannot be stored.`, {
      errors: [{ pointer: unstorable, code: 'unstorable_text', message: 'Remove the character.' }],
    });
  }
  const long = Object.entries(envelope).find(([, text]) => typeof text === 'string' && Buffer.byteLength(text) > maxIdBytes);
  if (!long) return undefined;
  return refuse('INVALID_ENVELOPE', `\`/${long[0]}\` has more than ${maxIdBytes} bytes.`, {
    errors: [{ pointer: `/${long[0]}`, code: 'too_long', message: 'Send a shorter text.', expected: maxIdBytes }],
  });
}

function strictRefusal(failure: Extract<ReturnType<typeof parseStrict>, { ok: false }>, prefix = ''): Refusal {
  const pointer = prefix + failure.pointer;
  return refuse(failure.code, `${failure.message} (at character ${failure.position}).`, {
    errors: [{ pointer, code: failure.code.toLowerCase(), message: failure.message }],
  });
}

const maxErrors = 20;

/** @param found made one by one, and no more of them than are told. */
function envelopeRefusal(found: Iterable<ValueError>, properties: object): Refusal {
  const names = Object.keys(properties);
  const byPath = new Map<string, FieldError>();
  for (const { path, message, value } of found) {
    if (byPath.size === maxErrors) break;
    if (byPath.has(path)) continue;
    const name = path.slice(1);
    const unknown = /^\/[^/]+$/.test(path) && !names.includes(name);
    const close = unknown ? nearest(name, names) : undefined;
    byPath.set(path, {
      pointer: path,
      code: unknown ? 'unknown_member' : value === undefined ? 'required' : 'type',
      message: unknown ? 'There is no such member.' : message,
      ...(close ? { nearest: close } : {}),
    });
  }
  const errors = [...byPath.values()];
  return refuse('INVALID_ENVELOPE', `The call has ${errors.length} wrong member${errors.length === 1 ? '' : 's'}, the first at \`${errors[0]?.pointer ?? ''}\`.`, { errors });
}

function allowed(principal: Principal, tool: ToolPlan | undefined): ToolPlan | undefined {
  return tool && isListed(principal, tool.name) ? tool : undefined;
}

const maxNearest = 5;

/** Only names that this caller may use, so that a misspelt name discloses no other tool. Policy is asked about the nearest alone. */
function blockedTool(served: Served, principal: Principal, name: string): Refusal {
  const listed = [...served.catalogue.tools.keys()].filter((tool) => isListed(principal, tool));
  const nearestTools = nearestFew(name, listed, maxNearest).filter((tool) => mayUse(served, principal, tool));
  return refuse('BLOCKED_TOOL', 'There is no tool of that name for this caller.', { nearestTools });
}

function readEnvelope(received: Received, body: CallBody, callId: string): Envelope | Refusal {
  const { principal, idempotencyKey } = received;
  if (body.subject !== undefined && body.subject !== principal.subject && !principal.grants.assertSubject) {
    return refuse('SUBJECT_NOT_GRANTED', 'This credential does not act for the subject that the call names.');
  }
  if (body.purpose !== undefined && !principal.purposes.includes(body.purpose)) {
    return refuse('PURPOSE_NOT_GRANTED', 'This credential does not act for the purpose that the call names.');
  }
  if (idempotencyKey !== undefined && body.idempotency_key !== undefined && idempotencyKey !== body.idempotency_key) {
    return refuse('KEY_MISMATCH', 'The header `Idempotency-Key` and the member `idempotency_key` differ.');
  }
  const key = idempotencyKey ?? body.idempotency_key ?? null;
  if (key !== null && !principal.grants.ownKeys) return refuse('OWN_KEYS_NOT_GRANTED', 'This credential was not granted `own_keys`.');
  const { name, sameAs } = 'context' in received ? received.context : { name: body.call_id || null, sameAs: null };
  return {
    sessionId: body.session_id,
    turnId: body.turn_id ?? '',
    intentId: body.intent_id ?? '',
    callId,
    callIdMinted: name === null,
    name: name ?? callId,
    sameAs: sameAs ?? name ?? callId,
    occurrence: body.occurrence ?? 1,
    expectedVersion: body.expected_version ?? null,
    idempotencyKey: key,
    purpose: body.purpose ?? principal.purposes[0] ?? '',
    subject: body.subject ?? principal.subject ?? '',
    ...('context' in received && received.undoes ? { undoes: received.undoes } : {}),
  };
}

/** An object, or the JSON text of one as models emit it. Never completed, never defaulted. */
function readArguments(parts: Parts, value: Record<string, unknown> | string): JsonObject | Refusal {
  const { argumentsBytes, depth } = parts.settings;
  const size = Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value));
  if (size > argumentsBytes) return refuse('ARGUMENTS_TOO_LARGE', `The arguments have ${size} bytes; the limit is ${argumentsBytes}.`);
  let given = value as Json;
  if (typeof value === 'string') {
    const parsed = parseStrict(value, { maxDepth: depth });
    if (!parsed.ok) return strictRefusal(parsed, '/arguments');
    given = parsed.value;
  }
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    return refuse('INVALID_ARGUMENTS', 'The arguments are not an object.', {
      errors: [{ pointer: '', code: 'type', message: 'Send one JSON object.', expected: 'object' }],
    });
  }
  return unstorableText(given) ?? given;
}

export function mintCallId(): string {
  return `call_${randomUUID()}`;
}
