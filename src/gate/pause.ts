/** The pause that an answer asks for, kept by every caller of its service from now on (semantics.md section 4). */
import type { Exchange } from '../upstream/exchange.js';
import type { Parts } from './parts.js';

/** Of a service that limits the rate without saying for how long. */
export const defaultPauseMs = 1000;

/**
 * A 429 asks for one whatever its header; a 503 only by its header. 0: none.
 * @param defaultMs where the contract says that this answer limits the rate and it has no usable header
 */
export function askedPause(parts: Parts, service: string, exchange: Exchange, defaultMs = 0): number {
  if (exchange.kind !== 'response') return 0;
  const { status, headers } = exchange;
  const asks = status === 429 || status === 503 || defaultMs > 0;
  const pauseMs = asks ? (parts.retryAfterMs(headers['retry-after']) ?? (status === 429 ? defaultPauseMs : defaultMs)) : 0;
  if (pauseMs > 0) parts.upstreamGate.pause(service, pauseMs);
  return pauseMs;
}
