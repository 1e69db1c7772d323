import type { Dispatcher } from 'undici';
import { describe, expect, it, vi } from 'vitest';
import { Withheld } from '../../src/upstream/failure.js';
import { InFlight } from '../../src/upstream/in-flight.js';

const controller = () => ({ abort: vi.fn() }) as unknown as Dispatcher.DispatchController & { abort: ReturnType<typeof vi.fn> };

function inFlight(overrides: { deadlineMs?: number; sendBefore?: number; sent?: boolean } = {}) {
  const mark = { sent: overrides.sent ?? false, release: vi.fn() };
  const { deadlineMs = 1000, sendBefore = Infinity } = overrides;
  return { mark, request: new InFlight({ mark, deadlineMs, sendBefore, maxResponseBytes: 1024 }) };
}

const socketClosed = () => Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });

describe('one attempt in flight', () => {
  it('refuses to be written a second time, which would be a second effect', async () => {
    const { request } = inFlight({ sent: true });
    request.onRequestStart(controller());
    expect(() => request.onRequestStart(controller())).toThrow(Withheld);
    request.onResponseError(null, new Withheld('reset'));
    expect(await request.exchange).toMatchObject({ kind: 'failure', sent: true, reason: 'reset' });
  });

  it('refuses to be written after it was answered for', async () => {
    const { request } = inFlight({ deadlineMs: 5 });
    expect(await request.exchange).toMatchObject({ kind: 'failure', sent: false, reason: 'deadline' });
    expect(() => request.onRequestStart(controller())).toThrow(Withheld);
  });

  it('refuses to be written at or after the fence', () => {
    const { request } = inFlight({ sendBefore: performance.now() });
    expect(() => request.onRequestStart(controller())).toThrow(Withheld);
    request.onResponseError(null, socketClosed());
  });

  it('counts as sent once it was let through, even if the channel kept silent', async () => {
    const { request } = inFlight({ sent: false });
    request.onRequestStart(controller());
    request.onResponseError(null, socketClosed());
    expect(await request.exchange).toMatchObject({ sent: true });
  });

  it('counts as sent when the channel spoke, even if undici asked no leave', async () => {
    const { request } = inFlight({ sent: true });
    request.onResponseError(null, socketClosed());
    expect(await request.exchange).toMatchObject({ sent: true });
  });

  it('aborts its connection at the deadline, answers once and lets its mark go once', async () => {
    const { request, mark } = inFlight({ deadlineMs: 5 });
    const started = controller();
    request.onRequestStart(started);
    const exchange = await request.exchange;
    request.onResponseError(null, socketClosed());
    request.onResponseEnd();
    expect(exchange).toMatchObject({ kind: 'failure', sent: true, reason: 'deadline' });
    expect(started.abort).toHaveBeenCalledOnce();
    expect(mark.release).toHaveBeenCalledOnce();
  });
});
