/** What is proposed. Ids are minted and bytes are made once, before the first request, and are those of every request after it. */
import type { JsonObject } from './answer.js';
import { CallgateError, type Ids } from './callgate-error.js';

/** What calls have in common. */
export interface Envelope {
  /** Budgets, states and receipts are grouped by it. */
  session_id: string;
  /** The user's intent that this serves, minted by the application: equal writes of one intent are one effect. */
  intent_id?: string | undefined;
  purpose?: string | undefined;
  /** The end user; only where the credential was granted to name one. */
  subject?: string | undefined;
  /** Scopes call ids where the host uses them again from turn to turn; names a turn whose response has no id. */
  turn_id?: string | undefined;
}

interface Call {
  /** The model's id of the call; minted when absent or empty. */
  call_id?: string | undefined;
  tool: string;
  /** An object, or the JSON text that the model emitted. */
  arguments: JsonObject | string;
  /** A version or digest that the proposal was made under. */
  contract?: string | undefined;
  /** A deliberate repeat of an equal write: 2 for the second. */
  occurrence?: number | undefined;
  /** The version of the entity on which the proposal was made. */
  expected_version?: string | undefined;
  /** The application's own name for the effect; only where the credential was granted `own_keys`. */
  idempotency_key?: string | undefined;
}

/** Body of `POST /v1/calls`. */
export interface Proposal extends Envelope, Call {}

/** Body of `POST /v1/batches`. */
export interface Turn extends Envelope { calls: Call[] }

export interface Sealed { ids: Ids; body: string }

export function sealProposal(proposal: Proposal): Sealed & { callId: string } {
  const callId = proposal.call_id || mintCallId();
  return { callId, ids: { session_id: proposal.session_id, call_ids: [callId] }, body: bytesOf({ ...proposal, call_id: callId }) };
}

export function sealTurn(turn: Turn): Sealed {
  const calls = turn.calls.map((call) => ({ ...call, call_id: call.call_id || mintCallId() }));
  return { ids: { session_id: turn.session_id, call_ids: calls.map(({ call_id }) => call_id) }, body: bytesOf({ ...turn, calls }) };
}

/** The gateway identifies the turn by the provider's response id and a call by its position, so there is nothing to mint. */
export function sealResponse(response: object, envelope: Envelope): Sealed {
  return { ids: { session_id: envelope.session_id, call_ids: [] }, body: bytesOf({ ...envelope, response }) };
}

function mintCallId(): string {
  return `call_${crypto.randomUUID()}`;
}

/** `JSON.stringify` alone would silently make null of NaN, which is another call than the one that was meant. */
function bytesOf(body: object): string {
  try {
    return JSON.stringify(body, (name, value: unknown) => {
      if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`\`${name}\` is ${value}, which no JSON number is`);
      return value;
    });
  } catch (cause) {
    throw new CallgateError('INVALID_PROPOSAL', `The call cannot be written as JSON: ${(cause as Error).message}. Nothing was sent.`, { cause });
  }
}
