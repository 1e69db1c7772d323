import { describe, expect, it } from 'vitest';
import type { Closed, Entrance, Place, SharedPauses } from '../../src/gate/ports.js';
import type { Exchange, FailureReason } from '../../src/upstream/exchange.js';
import { openUpstreamGate, type UpstreamGateOptions } from '../../src/upstream/gate.js';
import { planFor } from './fault-server.js';

const a = planFor('http://127.0.0.1:1', { service: 'a', concurrency: 2 });
const b = planFor('http://127.0.0.1:1', { service: 'b', concurrency: 2 });
const read = (change: Partial<Entrance> = {}): Entrance => ({ traffic: 'read', as: 'first', until: performance.now(), ...change });
const failure = (reason: FailureReason, sent: boolean): Exchange => ({ kind: 'failure', reason, sent, ms: 1 });
const response = (status: number, body: Extract<Exchange, { kind: 'response' }>['body'] = { json: {} }): Exchange => ({ kind: 'response', sent: true, status, headers: {}, body, ms: 1 });

function gateWith(change: Partial<UpstreamGateOptions> = {}) {
  const said: string[] = [];
  const clock = { ms: 1_000 };
  const gate = openUpstreamGate({
    retryRatio: 0, maxWaiting: 10, maxPauseMs: 60_000, breaker: { failures: 3, openMs: 1_000 }, knock: () => Promise.resolve(false), now: () => clock.ms,
    changed: (service, state) => said.push(`${service} ${state}`), refused: (service, because) => said.push(`${service} ${because}`), ...change,
  });
  const place = async (plan = a, entrance = read()): Promise<Place> => {
    const entered = await gate.enter(plan, entrance);
    if ('closed' in entered) throw new Error(`closed: ${entered.closed}`);
    return entered;
  };
  return { gate, said, clock, place };
}

describe('the pause of a service', () => {
  it('is shared by all callers of that service and by no other, ends by itself, is never shortened, and is capped', async () => {
    const { gate, clock, said } = gateWith();
    expect(gate.pausedForMs('a')).toBe(0);
    gate.pause('a', 500);
    gate.pause('a', 100);
    expect(gate.pausedForMs('a')).toBe(500);
    expect(gate.pausedForMs('b')).toBe(0);
    expect(await gate.enter(a, read())).toEqual({ closed: 'paused', forMs: 500 });
    expect(await gate.enter(a, read({ traffic: 'read_back', as: 'neither' }))).toEqual({ closed: 'paused', forMs: 500 });
    expect(await gate.enter(b, read())).toMatchObject({ waited: false });
    clock.ms += 499;
    gate.pause('a', 50);
    expect(gate.pausedForMs('a')).toBe(50);
    clock.ms += 50;
    expect(gate.pausedForMs('a')).toBe(0);
    gate.pause('a', 10 ** 9);
    expect(gate.pausedForMs('a')).toBe(60_000);
    expect(said).toEqual(['a paused', 'a paused']);
  });

  it('that begins while a call stands in line keeps it from being sent', async () => {
    const { gate, place } = gateWith();
    const held = [await place(), await place()];
    const waiting = gate.enter(a, read({ until: performance.now() + 60_000 }));
    gate.pause('a', 500);
    held[0]?.leave(response(200));
    expect(await waiting).toEqual({ closed: 'paused', forMs: 500 });
  });

  it('is told to the other replicas once by many callers, and heard from them, within the cap', () => {
    const told: [string, number][] = [];
    const looked: string[] = [];
    let hear: (service: string, ms: number) => void = () => undefined;
    const shared: SharedPauses = { tell: (...pause) => told.push(pause), heard: (listener) => { hear = listener; }, look: (service) => looked.push(service) };
    const { gate } = gateWith({ shared });
    for (let n = 0; n < 50; n++) gate.pause('a', 30_000 + n);
    gate.pause('a', 45_000);
    expect(told).toEqual([['a', 30_000], ['a', 45_000]]);
    hear('a', 5);
    expect(gate.pausedForMs('a')).toBe(45_000);
    hear('b', 10 ** 9);
    expect(gate.pausedForMs('b')).toBe(60_000);
    expect(told).toHaveLength(2);
    expect(new Set(looked)).toEqual(new Set(['a', 'b']));
  });
});

describe('what an exchange says of the health of a service', () => {
  const unwell = (['dns', 'refused', 'connect_timeout', 'tls', 'unreachable', 'reset', 'deadline', 'protocol'] as const).flatMap((reason) => [failure(reason, false), failure(reason, true)]);
  const silent = [failure('fence_passed', false), failure('no_credential', false)];
  const well = [200, 201, 202, 301, 400, 401, 403, 404, 408, 409, 412, 422, 425, 429, 499].map((status) => response(status));
  const rows: [string, 'opens' | 'closes' | 'neither', Exchange][] = [
    ...unwell.map((exchange): [string, 'opens', Exchange] => [`${(exchange as { reason: string }).reason}, ${exchange.sent ? 'sent' : 'not sent'}`, 'opens', exchange]),
    ...[500, 502, 503, 504].map((status): [string, 'opens', Exchange] => [String(status), 'opens', response(status)]),
    ['200, cut', 'opens', response(200, { unreadable: 'truncated' })], ['200 that never ended', 'opens', response(200, { unreadable: 'deadline' })],
    ...silent.map((exchange): [string, 'neither', Exchange] => [(exchange as { reason: string }).reason, 'neither', exchange]),
    ...well.map((exchange): [string, 'closes', Exchange] => [String((exchange as { status: number }).status), 'closes', exchange]),
    ...(['malformed', 'not_json', 'too_large'] as const).map((unreadable): [string, 'closes', Exchange] => [`200 ${unreadable}`, 'closes', response(200, { unreadable })]),
  ];
  it.each(rows)('%s: %s', async (_, says, exchange) => {
    const { said, place, clock } = gateWith();
    for (let n = 0; n < 2; n++) (await place()).leave(response(503));
    (await place()).leave(exchange);
    expect(said).toEqual(says === 'opens' ? ['a open'] : []);
    if (says === 'opens') {
      clock.ms += 1_000;
      (await place()).leave(exchange);
      expect(said).toEqual(['a open', 'a half_open', 'a open']);
    } else {
      (await place()).leave(response(503));
      expect(said).toEqual(says === 'closes' ? [] : ['a open']);
    }
  });
});

describe('a place', () => {
  it('is given back by whatever end, once, and one of a service says nothing of another', async () => {
    const { gate, place } = gateWith();
    const [one, two] = [await place(), await place()];
    expect(await gate.enter(a, read())).toEqual({ closed: 'busy', forMs: 1_000 });
    (await place(b)).leave();
    one.leave();
    one.leave();
    two.leave(response(200));
    expect(await Promise.all([place(), place()])).toHaveLength(2);
    expect(await gate.enter(a, read())).toMatchObject({ closed: 'busy' });
  });

  it('of a retry that the service has no share for is not given, and costs nobody a place', async () => {
    const { gate, place } = gateWith({ breaker: { failures: 1_000, openMs: 1_000 } });
    for (let n = 0; n < 10; n++) (await place(a, read({ as: 'retry' }))).leave(response(503));
    for (let n = 0; n < 5; n++) expect(await gate.enter(a, read({ as: 'retry' }))).toMatchObject({ closed: 'retry_ratio' });
    for (let n = 0; n < 5; n++) (await place(a, read({ as: 'neither' }))).leave(response(503));
    const both = await Promise.all([gate.enter(a, read()), gate.enter(a, read())]);
    expect(both.map((entered: Place | Closed) => 'closed' in entered)).toEqual([false, false]);
  });

  it('half-open, goes to one of many who stood in line; the others are refused, not let in behind it', async () => {
    const { gate, place, clock } = gateWith({ breaker: { failures: 1, openMs: 1_000 } });
    const [one, two] = [await place(), await place()];
    const waiting = Array.from({ length: 6 }, () => gate.enter(a, read({ until: performance.now() + 60_000 })));
    one.leave(response(503));
    two.leave(response(503));
    expect((await Promise.all(waiting)).map((entered) => 'closed' in entered && entered.closed)).toEqual(Array.from({ length: 6 }, () => 'suspended'));
    clock.ms += 1_000;
    const probes = await Promise.all(Array.from({ length: 6 }, () => gate.enter(a, read())));
    expect(probes.filter((entered) => !('closed' in entered))).toHaveLength(1);
  });
});
