import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRetryAfter } from '../../src/upstream/retry-after.js';

describe('Retry-After', () => {
  const now = Date.UTC(1994, 10, 6, 8, 49, 7);
  const cap = 60_000;

  it('is read as seconds', () => {
    expect(parseRetryAfter('30', now, cap)).toBe(30_000);
    expect(parseRetryAfter(' 0 ', now, cap)).toBe(0);
  });

  it.each(['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'])('is read as a date: %s', (date) => {
    expect(parseRetryAfter(date, now, cap)).toBe(30_000);
  });

  it('of a date in the past is no wait at all', () => {
    expect(parseRetryAfter('Sun, 06 Nov 1994 08:49:00 GMT', now, cap)).toBe(0);
    expect(parseRetryAfter('Thursday, 01-Jan-70 00:00:00 GMT', now, cap)).toBe(0);
  });

  it('is capped in both forms, however large', () => {
    for (const header of ['61', '9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT']) expect(parseRetryAfter(header, now, cap)).toBe(cap);
  });

  it.each([
    undefined, '', '3.5', '-1', '+5', '1e3', '0x10', '5s', '5, 10', 'soon', 'Tuesday', '2026-01-01T00:00:00Z', 'Sun, 06 Nov 1994 08:49:37',
    'Sun, 31 Feb 2030 08:49:37 GMT', 'Sun, 06 Foo 1994 08:49:37 GMT', 'Sun, 06 Nov 1994 24:00:00 GMT', 'sun, 06 nov 1994 08:49:37 gmt',
  ])('is nothing when it is neither: %s', (header) => {
    expect(parseRetryAfter(header, now, cap)).toBeNull();
  });

  it('is exact to the second for every date that a server can write, and never outside the bounds', () => {
    fc.assert(fc.property(fc.date({ min: new Date(now - 1e9), max: new Date(now + 1e9), noInvalidDate: true }), (date) => {
      const exact = Math.floor(date.getTime() / 1000) * 1000 - now;
      expect(parseRetryAfter(date.toUTCString(), now, cap)).toBe(Math.min(Math.max(exact, 0), cap));
    }));
    fc.assert(fc.property(fc.string(), (garbage) => {
      const wait = parseRetryAfter(garbage, now, cap);
      expect(wait === null || (wait >= 0 && wait <= cap)).toBe(true);
    }));
  });
});
