import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readPreferences } from '../../src/http/prefer.js';

describe('Prefer (RFC 7240)', () => {
  it.each<[string, object]>([
    ['wait=10', { patienceMs: 10_000, respondAsync: false }],
    ['Wait = "10"', { patienceMs: 10_000, respondAsync: false }],
    ['wait=0', { patienceMs: 0, respondAsync: false }],
    ['respond-async', { patienceMs: 0, respondAsync: true }],
    ['RESPOND-ASYNC, wait=5', { patienceMs: 5000, respondAsync: true }],
    ['wait=5, wait=9', { patienceMs: 5000, respondAsync: false }],
    ['return=minimal; foo="a", handling=lenient, wait=3;x=y', { patienceMs: 3000, respondAsync: false }],
    ['wait=999999999', { patienceMs: 45_000, respondAsync: false }],
    ['wait=-1', { respondAsync: false }],
    ['wait=1.5', { respondAsync: false }],
    ['wait=1e3', { respondAsync: false }],
    ['wait', { respondAsync: false }],
    ['', { respondAsync: false }],
    [',,;=', { respondAsync: false }],
  ])('reads `%s`', (header, expected) => {
    expect(readPreferences(header, 45_000)).toEqual(expected);
  });

  it('whatever a caller writes, patience is never above the cap and never no number', () => {
    fc.assert(fc.property(fc.string({ unit: fc.constantFrom(...'wait=respond-async,;" 0123456789') }), (header) => {
      const { patienceMs = 0 } = readPreferences(header, 45_000);
      expect(patienceMs).toBeGreaterThanOrEqual(0);
      expect(patienceMs).toBeLessThanOrEqual(45_000);
    }));
  });
});
