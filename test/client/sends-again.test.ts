import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Callgate, CallgateError } from '../../src/client/index.js';
import { credit, executed, inProgress, refusal, unavailable, unknown } from './scripted-gateway.js';

/**
 * Whatever happens on the way, all that is sent for a call is one body under one call id, in bounded number and time, and never before
 * the other side wants it. If that is lost, a client that retries makes the second refund that the gateway is there to prevent.
 */
beforeEach(() => { vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] }); });
afterEach(() => { vi.useRealTimers(); });

const timeoutMs = 10_000;

interface Event { fails?: string; silent?: boolean; status?: number; headers?: Record<string, string>; text?: string; pauseMs?: number; ms: number }

const pause = fc.oneof(
  fc.constant({ headers: {}, pauseMs: 0 }),
  fc.integer({ min: 0, max: 30 }).map((seconds) => ({ headers: { 'retry-after': String(seconds) }, pauseMs: seconds * 1000 })),
  fc.integer({ min: 0, max: 30 }).map((seconds) => ({
    // a clock that is an hour wrong, as is the one beside it
    headers: { date: 'Mon, 30 Nov 2026 06:00:00 GMT', 'retry-after': new Date(Date.UTC(2026, 10, 30, 6, 0, seconds)).toUTCString() }, pauseMs: seconds * 1000,
  })),
  fc.constantFrom('soon', '-1', '').map((text) => ({ headers: { 'retry-after': text }, pauseMs: 0 })),
  fc.constant({ headers: { 'x-should-retry': 'false' }, pauseMs: 0 }),
);
const answers = [
  executed, unknown, { ...unknown, disposition: 'pending', retry_after_ms: 1000 }, { ...unknown, retry_after_ms: null }, inProgress, { ...inProgress, operation_id: 'op_1' }, unavailable,
  refusal({ disposition: 'rejected', next_action: 'retry', status: 422, code: 'NOT_COMMITTED', operation_id: 'op_1' }),
  refusal({ disposition: 'rate_limited', next_action: 'retry', status: 429, code: 'RATE_LIMITED', retry_after_ms: 7000 }),
  refusal({ disposition: 'denied', next_action: 'abandon', status: 404, code: 'OPERATION_NOT_FOUND' }),
  refusal({ disposition: 'denied', next_action: 'abandon', status: 401, code: 'UNAUTHENTICATED' }),
  { ...executed, disposition: 'from_the_future', next_action: 'ponder' }, { ...unknown, disposition: 'from_the_future' },
];
const event: fc.Arbitrary<Event> = fc.tuple(fc.constantFrom(0, 5, 400, 29_000), pause, fc.oneof(
  fc.constantFrom('ECONNREFUSED', 'ECONNRESET', 'UND_ERR_SOCKET', 'ENOTFOUND').map((fails) => ({ fails, headers: {}, pauseMs: 0 })),
  fc.constant({ silent: true, headers: {}, pauseMs: 0 }),
  fc.constantFrom(408, 429, 500, 502, 503, 504, 200, 404, 302).map((status) => ({ status, text: '<html></html>' })),
  fc.constant({ status: 200, text: '{"disposition":"exec' }),
  fc.constantFrom(...answers).map((answer) => ({ status: ('status' in answer && answer.status) || 200, text: JSON.stringify(answer) })),
)).map(([ms, { headers, pauseMs }, what]) => ({ ms, headers, pauseMs, ...what }));

const situation = fc.record({
  script: fc.array(event, { minLength: 1, maxLength: 8 }), waitMs: fc.constantFrom(0, 900, 5_000, 60_000), attempts: fc.integer({ min: 1, max: 5 }), callId: fc.constantFrom(undefined, '', 'call_of_the_model'),
});

it('one call id, one body, in bounded number and time, and no sooner than asked, whatever happens', async () => {
  await fc.assert(fc.asyncProperty(situation, async ({ script, waitMs, attempts, callId }) => {
    const line = new FakeLine(script);
    const gate = new Callgate({ url: 'http://gateway.test', key: 'cg_k', fetch: line.fetch, attempts, elapsedMs: 20_000, timeoutMs });
    const started = performance.now();
    const ended = gate.call({ ...credit, call_id: callId }, { waitMs }).then((answer) => ({ answer }), (error: unknown) => ({ error }));
    await vi.runAllTimersAsync();
    const outcome = await ended;

    const posts = line.requests.filter(({ method }) => method === 'POST');
    const bodies = new Set(posts.map(({ body }) => body));
    expect(bodies.size).toBe(1);
    const sent = JSON.parse([...bodies][0] as string) as { call_id: string };
    expect(sent).toEqual({ ...credit, call_id: callId || expect.stringMatching(/^call_[0-9a-f-]{36}$/) });

    expect(posts.length).toBeLessThanOrEqual(attempts);
    expect(line.requests.length).toBeLessThanOrEqual(attempts + waitMs / 250 + 1);
    expect(performance.now() - started).toBeLessThanOrEqual(Math.max(waitMs, 20_000) + timeoutMs + 30_000);
    line.requests.forEach((request, n) => {
      const before = line.requests[n - 1];
      if (before) expect(request.from - before.until).toBeGreaterThanOrEqual(before.pauseMs);
      if (before?.forbids && before.method === 'POST') expect(request.method).toBe('GET');
    });

    if ('error' in outcome) {
      expect(outcome.error).toBeInstanceOf(CallgateError);
      expect((outcome.error as CallgateError).callId).toBe(sent.call_id);
      // nothing was lost on the way of what was surely not there
      const reached = line.requests.some(({ event: { fails, ms } }) => ms >= timeoutMs || (fails !== 'ECONNREFUSED' && fails !== 'ENOTFOUND'));
      if (!reached) expect((outcome.error as CallgateError).mayHaveHappened).toBe(false);
    } else {
      expect(outcome.answer.call_id).toBe(outcome.answer.call_id === null ? null : sent.call_id);
    }
  }), { numRuns: 1500 });
});

it('what may have happened is never reported as not having happened', async () => {
  await fc.assert(fc.asyncProperty(situation, async ({ script, waitMs, attempts }) => {
    const line = new FakeLine([{ ms: 5, fails: 'ECONNRESET' }, ...script]);
    const gate = new Callgate({ url: 'http://gateway.test', key: 'cg_k', fetch: line.fetch, attempts: attempts + 1, elapsedMs: 20_000, timeoutMs });
    const ended = gate.call(credit, { waitMs }).then((answer) => ({ answer }), (error: unknown) => ({ error: error as CallgateError }));
    await vi.runAllTimersAsync();
    const outcome = await ended;
    if ('error' in outcome) expect(outcome.error.mayHaveHappened).toBe(true);
    else expect(outcome.answer.disposition).not.toBe('unavailable');
  }), { numRuns: 700 });
});

it('a turn: one body, in bounded number, and not again once something in it was refused', async () => {
  const inTurn = fc.record({ event, others: fc.array(fc.constantFrom(...answers), { maxLength: 3 }) }).map(({ event: one, others }): Event => {
    if (!one.text?.endsWith('}')) return one;
    const answer = JSON.parse(one.text) as object;
    return { ...one, status: 200, text: JSON.stringify({ results: [answer, ...others] }) };
  });
  await fc.assert(fc.asyncProperty(fc.array(inTurn, { minLength: 1, maxLength: 6 }), fc.integer({ min: 1, max: 5 }), async (script, attempts) => {
    const line = new FakeLine(script);
    const gate = new Callgate({ url: 'http://gateway.test', key: 'cg_k', fetch: line.fetch, attempts, elapsedMs: 20_000, timeoutMs });
    const ended = gate.batch({ session_id: 's-1', calls: [{ tool: 't', arguments: {} }] }).then((batch) => ({ batch }), (error: unknown) => ({ error }));
    await vi.runAllTimersAsync();
    const outcome = await ended;

    expect(new Set(line.requests.map(({ method, body }) => `${method} ${body}`)).size).toBe(1);
    expect(line.requests.length).toBeLessThanOrEqual(attempts);
    line.requests.slice(0, -1).forEach(({ event: { text }, forbids, heard, until }, n) => {
      expect(forbids).toBe(false);
      if (!heard || !text?.startsWith('{"results"')) return;
      expect(text).not.toMatch(/"next_action":"(abandon|ponder)"/);
      const asked = [...text.matchAll(/"retry_after_ms":(\d+)/g)].map((match) => Number(match[1]));
      expect((line.requests[n + 1]?.from ?? 0) - until).toBeGreaterThanOrEqual(Math.max(0, ...asked));
    });
    if ('error' in outcome) expect(outcome.error).toBeInstanceOf(CallgateError);
  }), { numRuns: 500 });
});

/** The script is gone through again and again, so that only the client's own bounds end it. */
class FakeLine {
  readonly requests: { method: string; url: string; body: string | null; from: number; until: number; event: Event; pauseMs: number; forbids: boolean; heard: boolean }[] = [];

  constructor(private readonly script: readonly Event[]) {}

  readonly fetch: typeof globalThis.fetch = async (url, init = {}) => {
    const event = this.script[this.requests.length % this.script.length] as Event;
    const request = { method: init.method ?? '', url: String(url), body: (init.body ?? null) as string | null, from: performance.now(), until: 0, event, pauseMs: 0, forbids: false, heard: false };
    this.requests.push(request);
    try {
      await new Promise((resolve, reject) => {
        if (!event.silent) setTimeout(resolve, event.ms);
        init.signal?.addEventListener('abort', () => reject(init.signal?.reason));
      });
    } finally {
      request.until = performance.now();
    }
    if (event.fails) throw new TypeError('fetch failed', { cause: Object.assign(new Error(event.fails), { code: event.fails }) });
    const text = event.text ?? '';
    request.pauseMs = Math.max(event.pauseMs ?? 0, Number(/"retry_after_ms":(\d+)/.exec(text)?.[1] ?? 0));
    request.heard = true;
    request.forbids = event.headers?.['x-should-retry'] === 'false';
    return new Response(text, { status: event.status ?? 200, headers: { 'content-type': text.startsWith('<') ? 'text/html' : 'application/json', ...event.headers } });
  };
}
