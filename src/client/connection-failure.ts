/** Why there was no response at all, in words, and whether the request can have arrived. Runtimes other than Node say little. */
import type { Heard } from './heard.js';

/** Before a connection stood, so not one byte of the request left. */
const neverConnected: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  UND_ERR_CONNECT_TIMEOUT: 'the connection was not accepted in time',
};

/** Codes of OpenSSL, which Node hands on; a handshake that failed has carried no request. */
const certificate = /^(CERT_|ERR_TLS_CERT|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA)/;
const handshake = /^(EPROTO$|ERR_SSL_.*(VERSION|PACKET_LENGTH|HANDSHAKE|PROTOCOL|ALERT))/;

export function connectionFailure(error: unknown, url: string): Heard {
  const code = codeOf(error);
  if (code !== null && certificate.test(code)) {
    return { kind: 'failed', code: 'TLS', why: `its certificate is not trusted (${code}); Node takes a private authority from NODE_EXTRA_CA_CERTS`, taken: false, cause: error };
  }
  if (code !== null && handshake.test(code)) {
    const plain = url.startsWith('https:') ? '; if it speaks plain HTTP there, the address begins with http:' : '';
    return { kind: 'failed', code: 'TLS', why: `no secure connection could be made (${code})${plain}`, taken: false, cause: error };
  }
  const known = code === null ? undefined : neverConnected[code];
  if (known) return { kind: 'lost', why: `${known} (${code})`, taken: false, pauseMs: null };
  return { kind: 'lost', why: `the connection broke off (${code ?? (error instanceof Error ? error.message : String(error))})`, taken: true, pauseMs: null };
}

/** `fetch` throws one TypeError for everything; the reason is in its causes. */
function codeOf(error: unknown): string | null {
  for (let each = error, depth = 0; typeof each === 'object' && each !== null && depth < 5; depth++) {
    if ('code' in each && typeof each.code === 'string') return each.code;
    each = 'cause' in each ? each.cause : null;
  }
  return null;
}
