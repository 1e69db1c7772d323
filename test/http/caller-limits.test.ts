/** One agent that runs wild must not take the places of the others, nor those of another tenant. */
import { connect } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Refusal } from '../../src/errors.js';
import { type CallerLimits, type Leave, limitCallers } from '../../src/http/caller-limits.js';
import type { Answer, Principal } from '../../src/model.js';
import { executed, json, listen, oneReplica, type Script } from './listeners.js';

const none = { perSecond: 0, atOnce: 0 };
function alone(limits: CallerLimits, now?: () => number) {
  const { enter, stop } = limitCallers({ ...limits, ...oneReplica }, now);
  onTestFinished(stop);
  return enter as (of: Parameters<typeof enter>[0]) => Leave | Refusal;
}
const caller = (tenant: string, id: string): Principal => ({ tenant, id, roles: ['agent'], subject: null, purposes: [], tools: '*', grants: { assertSubject: false, ownKeys: false } });
const authenticator: Script['authenticator'] = { authenticate: async (credential) => caller(...(credential.split('/') as [string, string])) };
const ask = async (url: string, who: string, init: RequestInit = {}) => {
  const response = await fetch(url, { ...init, headers: { ...json, authorization: `Bearer ${who}`, ...init.headers } });
  const { code, disposition, next_action } = (await response.json()) as Answer;
  return { status: response.status, code, disposition, next_action, retryAfter: response.headers.get('retry-after'), shouldRetry: response.headers.get('x-should-retry') };
};
const proposal = { method: 'POST', body: '{}' };

/** A door whose calls end when they are told to. */
function held() {
  const waiting: (() => void)[] = [];
  return {
    door: { propose: () => new Promise<Answer>((resolve) => waiting.push(() => resolve(executed))) },
    under: () => waiting.length,
    finish: () => waiting.splice(0).forEach((end) => end()),
  };
}

describe('requests under way', () => {
  it('of one principal are so many and no more, and others are not held up by them', async () => {
    const desk = held();
    const { agent } = await listen({ authenticator, door: desk.door, callers: { principal: { perSecond: 0, atOnce: 2 }, tenant: none } });
    const calls = ['a', 'a', 'b'].map((id) => ask(`${agent}/v1/calls`, `acme/${id}`, proposal));
    await expect.poll(desk.under).toBe(3);
    expect(await ask(`${agent}/v1/calls`, 'acme/a', proposal)).toEqual({ status: 429, code: 'CALLER_BUSY', disposition: 'rate_limited', next_action: 'retry', retryAfter: '1', shouldRetry: null });
    expect(await ask(`${agent}/v1/tools`, 'acme/a')).toMatchObject({ status: 429 });
    expect(await ask(`${agent}/v1/tools`, 'acme/b')).toMatchObject({ status: 200 });
    expect(await ask(`${agent}/v1/tools`, 'globex/a')).toMatchObject({ status: 200 });
    desk.finish();
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await ask(`${agent}/v1/tools`, 'acme/a')).toMatchObject({ status: 200 });
  });

  it('of all principals of a tenant are so many, which another tenant does not feel', async () => {
    const desk = held();
    const { agent } = await listen({ authenticator, door: desk.door, callers: { principal: none, tenant: { perSecond: 0, atOnce: 2 } } });
    const calls = ['a', 'b'].map((id) => ask(`${agent}/v1/calls`, `acme/${id}`, proposal));
    await expect.poll(desk.under).toBe(2);
    expect(await ask(`${agent}/v1/tools`, 'acme/c')).toMatchObject({ status: 429, code: 'CALLER_BUSY' });
    expect(await ask(`${agent}/v1/tools`, 'globex/c')).toMatchObject({ status: 200 });
    desk.finish();
    await Promise.all(calls);
  });

  it('are not fewer for a caller who hangs up while its call runs, and nothing is lost for good by those who do', async () => {
    const desk = held();
    const { agent, agentPort } = await listen({ authenticator, door: desk.door, callers: { principal: { perSecond: 0, atOnce: 2 }, tenant: none } });
    const gone = new AbortController();
    const calls = [0, 1].map(() => fetch(`${agent}/v1/calls`, { ...proposal, headers: { ...json, authorization: 'Bearer acme/a' }, signal: gone.signal }).catch(() => null));
    await expect.poll(desk.under).toBe(2);
    gone.abort();
    await Promise.all(calls);
    expect(await ask(`${agent}/v1/tools`, 'acme/a')).toMatchObject({ status: 429, code: 'CALLER_BUSY' });
    desk.finish();
    await expect.poll(() => ask(`${agent}/v1/tools`, 'acme/a').then(({ status }) => status)).toBe(200);
    // whoever hangs up within the body, which nobody has read yet
    for (let n = 0; n < 3; n++) {
      const sockets = [0, 1].map(() => connect(agentPort, '127.0.0.1').on('error', () => undefined));
      for (const socket of sockets) socket.write('POST /v1/calls HTTP/1.1\r\nhost: x\r\nauthorization: Bearer acme/a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{');
      await expect.poll(() => ask(`${agent}/v1/tools`, 'acme/a').then(({ status }) => status)).toBe(429);
      for (const socket of sockets) socket.resetAndDestroy();
      await expect.poll(() => ask(`${agent}/v1/tools`, 'acme/a').then(({ status }) => status)).toBe(200);
    }
  });

  it('are counted neither for who is refused a credential, nor without bounds', async () => {
    const { agent } = await listen({ authenticator: { authenticate: async () => null }, callers: { principal: { perSecond: 1, atOnce: 1 }, tenant: none } });
    for (let n = 0; n < 5; n++) expect(await ask(`${agent}/v1/tools`, 'x/y')).toMatchObject({ status: 401 });
    const open = await listen({ authenticator });
    for (let n = 0; n < 5; n++) expect(await ask(`${open.agent}/v1/tools`, 'x/y')).toMatchObject({ status: 200 });
  });
});

describe('requests in a second', () => {
  it('beyond the rate are told when to come again, and are let in then', async () => {
    const { agent } = await listen({ authenticator, callers: { principal: { perSecond: 3, atOnce: 0 }, tenant: none } });
    const first = await Promise.all(Array.from({ length: 12 }, () => ask(`${agent}/v1/tools`, 'acme/a')));
    expect(first.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3);
    expect(first.find(({ status }) => status === 429)).toMatchObject({ code: 'CALLER_RATE_LIMITED', disposition: 'rate_limited', next_action: 'retry', retryAfter: '1', shouldRetry: null });
    expect(await ask(`${agent}/v1/tools`, 'acme/b')).toMatchObject({ status: 200 });
    await expect.poll(() => ask(`${agent}/v1/tools`, 'acme/a').then(({ status }) => status), { timeout: 2_000 }).toBe(200);
  });

  it('never exceed the rate and a second’s worth more, whoever asks when; and within it nobody is refused', () => {
    const rate = 5;
    const limits: CallerLimits = { principal: { perSecond: rate, atOnce: 0 }, tenant: none };
    fc.assert(fc.property(fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 200 }), (gaps) => {
      const clock = { ms: 0 };
      const enter = alone(limits, () => clock.ms);
      const taken: number[] = [];
      for (const gap of gaps) {
        clock.ms += gap;
        const entered = enter({ tenant: 't', id: 'p' });
        if (typeof entered === 'function') taken.push(clock.ms);
        else expect(entered.retryAfterMs).toBeGreaterThan(0);
        if (gap >= 1000 / rate) expect(typeof entered).toBe('function');
      }
      taken.forEach((from, n) => taken.slice(n).forEach((to, more) => expect(more + 1).toBeLessThanOrEqual(rate + 1 + ((to - from) / 1000) * rate)));
    }), { numRuns: 200 });
  });

  it('are remembered for as many callers as are at work, and not for ever', () => {
    const enter = alone({ principal: { perSecond: 0, atOnce: 1 }, tenant: none });
    const leave = enter({ tenant: 't', id: 'busy' });
    for (let n = 0; n < 30_000; n++) (enter({ tenant: 't', id: `p${n}` }) as () => void)();
    expect(enter({ tenant: 't', id: 'busy' })).toMatchObject({ refused: 'CALLER_BUSY' });
    (leave as () => void)();
    expect(typeof enter({ tenant: 't', id: 'busy' })).toBe('function');
  });
});
