/** Names why an exchange gave no response. The name is for people and metrics; whether it was sent is never read from it. */
import type { FailureReason } from './exchange.js';

/** Thrown on the threshold of the write to keep a request from being written; its connection stays usable. */
export class Withheld extends Error {
  constructor(readonly reason: FailureReason) {
    super(`withheld before the first byte: ${reason}`);
  }
}

const reasons = new Map<string, FailureReason>(Object.entries({
  ERR_EGRESS_REFUSED: 'address_refused',
  ENOTFOUND: 'dns',
  ECONNREFUSED: 'refused',
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  ETIMEDOUT: 'connect_timeout',
  EPROTO: 'tls',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'tls',
  SELF_SIGNED_CERT_IN_CHAIN: 'tls',
  HOSTNAME_MISMATCH: 'tls',
  INVALID_CA: 'tls',
  EHOSTUNREACH: 'unreachable',
  EHOSTDOWN: 'unreachable',
  ENETUNREACH: 'unreachable',
  ENETDOWN: 'unreachable',
  EADDRNOTAVAIL: 'unreachable',
  EACCES: 'unreachable',
  EPERM: 'unreachable',
  UND_ERR_HEADERS_TIMEOUT: 'deadline',
  UND_ERR_BODY_TIMEOUT: 'deadline',
  ECONNRESET: 'reset',
  ECONNABORTED: 'reset',
  EPIPE: 'reset',
  UND_ERR_SOCKET: 'reset',
  UND_ERR_INFO: 'reset',
}));

const families: [RegExp, FailureReason][] = [
  [/^EAI_/, 'dns'],
  [/^ERR_(?:TLS|SSL)_|^(?:CERT|CRL|UNABLE_TO)_/, 'tls'],
];

export function failureReason(error: unknown, sent: boolean): FailureReason {
  if (error instanceof Withheld) return error.reason;
  const { code, message } = error as { code?: unknown; message?: unknown };
  if (typeof code !== 'string') return 'protocol';
  // A pool that is shutting down gives up what it has not written.
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') return sent ? 'reset' : 'fence_passed';
  // The kernel gave up on a connection that was already carrying the request.
  if (code === 'ETIMEDOUT' && sent) return 'reset';
  // undici's words for an answer out of order, which it tells by the same code as a closed socket.
  if (code === 'UND_ERR_SOCKET' && /^bad (?:response|upgrade)/.test(String(message))) return 'protocol';
  return reasons.get(code) ?? families.find(([family]) => family.test(code))?.[1] ?? 'protocol';
}
