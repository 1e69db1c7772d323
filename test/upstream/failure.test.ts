import { describe, expect, it } from 'vitest';
import { failureReason, Withheld } from '../../src/upstream/failure.js';

const coded = (code: string, message = '') => Object.assign(new Error(message), { code });

describe('the name of a failure', () => {
  it.each([
    ['ENOTFOUND', 'dns'], ['EAI_AGAIN', 'dns'], ['EAI_FAIL', 'dns'], ['ECONNREFUSED', 'refused'], ['UND_ERR_CONNECT_TIMEOUT', 'connect_timeout'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls'], ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls'], ['CERT_HAS_EXPIRED', 'tls'], ['EPROTO', 'tls'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'tls'], ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls'], ['EHOSTUNREACH', 'unreachable'],
    ['ENETUNREACH', 'unreachable'], ['EADDRNOTAVAIL', 'unreachable'], ['ECONNRESET', 'reset'], ['EPIPE', 'reset'], ['UND_ERR_SOCKET', 'reset'],
    ['HPE_INVALID_CONSTANT', 'protocol'], ['UND_ERR_HEADERS_OVERFLOW', 'protocol'], ['UND_ERR_INVALID_ARG', 'protocol'], ['toString', 'protocol'],
  ])('of %s is %s', (code, reason) => {
    expect(failureReason(coded(code), false)).toBe(reason);
  });

  it('tells a kernel time-out while connecting from one while waiting for the answer', () => {
    expect(failureReason(coded('ETIMEDOUT'), false)).toBe('connect_timeout');
    expect(failureReason(coded('ETIMEDOUT'), true)).toBe('reset');
  });

  it('tells an answer out of order from a closed socket', () => {
    expect(failureReason(coded('UND_ERR_SOCKET', 'bad response'), true)).toBe('protocol');
    expect(failureReason(coded('UND_ERR_SOCKET', 'other side closed'), true)).toBe('reset');
  });

  it('of a request that a closing pool gave up depends on whether it was written', () => {
    expect(failureReason(coded('UND_ERR_CLOSED'), false)).toBe('fence_passed');
    expect(failureReason(coded('UND_ERR_DESTROYED'), true)).toBe('reset');
  });

  it('of what we withheld is our own reason, and of anything else `protocol`', () => {
    expect(failureReason(new Withheld('fence_passed'), false)).toBe('fence_passed');
    expect(failureReason(new TypeError('x'), false)).toBe('protocol');
    expect(failureReason({}, false)).toBe('protocol');
  });
});
