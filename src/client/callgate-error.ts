/** What is thrown: mistakes of the program or its configuration, and silence beyond the budget. Every answer of the gateway is a value. */
import type { Answer } from './answer.js';

export type CallgateErrorCode =
  /** No answer within the budget. */
  | 'NO_ANSWER'
  /** What answers at the address is no gateway: a page, a redirect, a proxy's refusal. */
  | 'NOT_A_GATEWAY'
  /** The secure connection could not be made. */
  | 'TLS'
  | 'UNAUTHENTICATED'
  /** The key belongs to the other listener. */
  | 'WRONG_PLANE'
  /** The gateway, of another version, has no such path. */
  | 'ROUTE_NOT_FOUND'
  /** The gateway refused the request as a whole, and not one of its calls; `answer` says why. */
  | 'REFUSED'
  /** The caller's signal. The error's name is then `AbortError`. */
  | 'ABORTED'
  /** The proposal is no JSON, or the client was set up wrongly. Nothing was sent. */
  | 'INVALID_PROPOSAL'
  | 'INVALID_OPTION';

/** By what a request, and what became of it, is found again. */
export interface Ids { session_id: string | null; call_ids: readonly string[] }

export const noIds: Ids = { session_id: null, call_ids: [] };

interface About { cause?: unknown; ids?: Ids; operationId?: string | null; answer?: Answer | null; mayHaveHappened?: boolean }

export class CallgateError extends Error {
  readonly code: CallgateErrorCode;
  readonly sessionId: string | null;
  /** As they were sent, also when the client minted them: under these the same call can be sent again later. */
  readonly callIds: readonly string[];
  /** The only one of `callIds`. */
  readonly callId: string | null;
  /** Known when an answer that came before named it: `operation()` asks for its outcome. */
  readonly operationId: string | null;
  /** What the gateway said last, where it said anything. */
  readonly answer: Answer | null;
  /** False: surely no request of this call reached the gateway. True: it may have, or it did. */
  readonly mayHaveHappened: boolean;

  constructor(code: CallgateErrorCode, message: string, { cause, ids, operationId, answer, mayHaveHappened }: About = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = code === 'ABORTED' ? 'AbortError' : 'CallgateError';
    this.code = code;
    this.sessionId = ids?.session_id ?? null;
    this.callIds = ids?.call_ids ?? [];
    this.callId = this.callIds.length === 1 ? (this.callIds[0] ?? null) : null;
    this.operationId = operationId ?? null;
    this.answer = answer ?? null;
    this.mayHaveHappened = mayHaveHappened ?? false;
  }
}
