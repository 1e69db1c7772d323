/**
 * What comes of one request: a document of the gateway, nothing that can be relied on (`lost`: the same request may be made again), or
 * the certainty that asking again is of no use (`failed`).
 */
import type { CallgateErrorCode } from './callgate-error.js';

/** `taken`: the gateway may have taken the request in, although its answer is not there. */
export type Heard =
  | { kind: 'document'; document: object; resend: boolean; pauseMs: number | null }
  | { kind: 'lost'; why: string; taken: boolean; pauseMs: number | null }
  | { kind: 'failed'; code: CallgateErrorCode; why: string; taken: boolean; document?: object; cause?: unknown };
