import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { signedBy, withinTolerance } from '../../src/gate/webhook-signature.js';

/** The vector of the specification's own libraries. If this is lost, callbacks of services that keep to it are refused, or those of others believed. */
const secret = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const key = Buffer.from(secret, 'base64');
const official = {
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestamp: '1614265330', body: Buffer.from('{"test": 2432232314}'),
  signatures: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
};
const wrong = 'v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=';

describe('Standard Webhooks', () => {
  it('the official vector holds, and under no other key, id, time or body', () => {
    expect(signedBy([key], official)).toBe(true);
    expect(signedBy([Buffer.from('another key of some length')], official)).toBe(false);
    expect(signedBy([key], { ...official, id: 'msg_p5jXN8AQM9LWM0D4loKWxJel' })).toBe(false);
    expect(signedBy([key], { ...official, timestamp: '1614265331' })).toBe(false);
    expect(signedBy([key], { ...official, body: Buffer.from('{"test": 2432232315}') })).toBe(false);
    expect(signedBy([], official)).toBe(false);
  });

  it.each([
    ['one of several', `${wrong} v2,${official.signatures.slice(3)} ${official.signatures} ${wrong}`, true],
    ['only under another version', `v2,${official.signatures.slice(3)}`, false],
    ['a wrong one', wrong, false],
    ['cut off', official.signatures.slice(0, 8), false],
    ['empty', 'v1,', false],
    ['nothing', '', false],
    ['no version', official.signatures.slice(3), false],
    ['no base64', 'v1,dawfeoifkpqwoekfpqoekf', false],
  ])('signatures: %s', (_, signatures, holds) => expect(signedBy([key], { ...official, signatures })).toBe(holds));

  it('while a secret is replaced both of them hold', () => {
    const next = Buffer.from('the-next-secret-of-the-service');
    const newer = `v1,${createHmac('sha256', next).update(`${official.id}.${official.timestamp}.`).update(official.body).digest('base64')}`;
    for (const signatures of [official.signatures, newer, `${official.signatures} ${newer}`]) expect(signedBy([next, key], { ...official, signatures })).toBe(true);
    expect(signedBy([key], { ...official, signatures: newer })).toBe(false);
  });

  it('five minutes in either direction, in whole seconds and nothing else', () => {
    const now = 1_614_265_330_000;
    for (const [timestamp, holds] of [
      ['1614265330', true], ['1614265030', true], ['1614265630', true], ['1614265029', false], ['1614265631', false],
      ['hello', false], ['', false], ['1614265330.5', false], ['-1', false], ['1e9', false], [' 1614265330', false], ['9'.repeat(40), false],
    ] as const) expect([timestamp, withinTolerance(timestamp, now, 300_000)]).toEqual([timestamp, holds]);
  });
});
