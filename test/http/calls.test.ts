import { describe, expect, it } from 'vitest';
import { refuse } from '../../src/errors.js';
import { problemAnswer } from '../../src/http/problem.js';
import type { Proposal } from '../../src/ports.js';
import type { Answer, Disposition } from '../../src/model.js';
import { as, executed, json, listen } from './listeners.js';

const call = '{"session_id":"s","tool":"issue_credit","arguments":{}}';

async function propose(headers: Record<string, string>, body: NonNullable<RequestInit['body']> = call, answer: Answer = executed) {
  const proposals: Proposal[] = [];
  const { agent } = await listen({ door: { propose: async (proposal) => { proposals.push(proposal); return answer; } } });
  const response = await fetch(`${agent}/v1/calls`, { method: 'POST', headers: { ...as('agent'), ...json, ...headers }, body });
  return { response, answer: (await response.json()) as Answer, proposals };
}

describe('POST /v1/calls: what reaches the gate', () => {
  it('hands over the very bytes that came: duplicate keys and odd spacing are for the parse stage to judge', async () => {
    const bytes = '{ "a":1,"a":2,  "n":1e999, "x":"\\u0000" ';
    const { proposals } = await propose({}, bytes);
    expect(proposals[0]?.body.toString()).toBe(bytes);
    expect(proposals[0]?.principal.id).toBe('agent');
  });

  it('hands over an empty body as empty bytes, with and without a content type', async () => {
    const { agent, ...rest } = await listen({ door: { propose: async ({ body }) => ({ ...executed, result: body.length }) } });
    for (const headers of [as('agent'), { ...as('agent'), ...json }]) {
      const response = await fetch(`${agent}/v1/calls`, { method: 'POST', headers });
      expect([response.status, ((await response.json()) as Answer).result]).toEqual([200, 0]);
    }
    expect(rest.logged).toEqual([]);
  });

  it('passes Idempotency-Key verbatim, as UTF-8, so that it compares equal to the member of the body', async () => {
    const utf8AsLatin1 = Buffer.from('schlüssel-€').toString('latin1');
    expect((await propose({ 'idempotency-key': utf8AsLatin1 })).proposals[0]?.idempotencyKey).toBe('schlüssel-€');
    expect((await propose({ 'idempotency-key': 'k'.repeat(512) })).proposals[0]?.idempotencyKey).toBe('k'.repeat(512));
    expect((await propose({})).proposals[0]).not.toHaveProperty('idempotencyKey');
  });

  it.each([['too long', 'k'.repeat(513)], ['empty', ''], ['not UTF-8', '\u00ff\u00fe']])(
    'refuses a key that is %s instead of ignoring it: an ignored key is a promise that nobody keeps', async (_why, key) => {
      const { response, answer, proposals } = await propose({ 'idempotency-key': key });
      expect(response.status).toBe(400);
      expect(answer).toMatchObject({ code: 'INVALID_ENVELOPE', errors: [{ pointer: '/idempotency_key' }] });
      expect(proposals).toEqual([]);
    });

  it('caps the patience, reports the wait as it was capped, and leaves it out when nothing was stated', async () => {
    const capped = await propose({ prefer: 'wait=600' });
    expect(capped.proposals[0]?.patienceMs).toBe(45_000);
    expect(capped.response.headers.get('preference-applied')).toBe('wait=45');
    const none = await propose({});
    expect(none.proposals[0]).not.toHaveProperty('patienceMs');
    expect(none.response.headers.has('preference-applied')).toBe(false);
  });

  it('claims `respond-async` as applied only when the answer is in fact a 202', async () => {
    const pending: Answer = { ...executed, disposition: 'pending', next_action: 'wait' };
    const asked = await propose({ prefer: 'respond-async' }, call, pending);
    expect(asked.proposals[0]).toMatchObject({ respondAsync: true, patienceMs: 0 });
    expect(asked.response.headers.get('preference-applied')).toBe('respond-async');
    expect((await propose({ prefer: 'respond-async' })).response.headers.has('preference-applied')).toBe(false);
  });

  it('passes a valid traceparent and ignores an invalid one', async () => {
    const valid = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    expect((await propose({ traceparent: valid })).proposals[0]?.traceparent).toBe(valid);
    expect((await propose({ traceparent: 'nonsense' })).proposals[0]).not.toHaveProperty('traceparent');
  });
});

describe('POST /v1/calls: what is no JSON body never reaches the gate', () => {
  it.each<[string, Record<string, string>]>([
    ['text', { 'content-type': 'text/plain' }],
    ['JSON of another kind', { 'content-type': 'application/vnd.api+json' }],
    ['a nonsense type', { 'content-type': 'application' }],
    ['compressed JSON', { 'content-encoding': 'gzip' }],
  ])('%s is UNSUPPORTED_MEDIA_TYPE', async (_kind, headers) => {
    const { response, answer, proposals } = await propose(headers);
    expect(response.status).toBe(400);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.code).toBe('UNSUPPORTED_MEDIA_TYPE');
    expect(proposals).toEqual([]);
  });

  it('takes a JSON type with a charset', async () => {
    expect((await propose({ 'content-type': 'application/json; charset=utf-8' })).response.status).toBe(200);
  });

  it('answers a body one byte over the limit 413, and takes one of exactly the limit', async () => {
    const limit = 256 * 1024;
    expect((await propose({}, ' '.repeat(limit))).proposals[0]?.body.length).toBe(limit);
    const { response, answer, proposals } = await propose({}, ' '.repeat(limit + 1));
    expect([response.status, answer.code, proposals.length]).toEqual([413, 'BODY_TOO_LARGE', 0]);
    expect(answer.detail).toContain(String(limit));
  });

  it('lets a client that is still writing 5 MiB read its 413 instead of a reset, declared length or chunked', async () => {
    const chunked = (): NonNullable<RequestInit['body']> => new ReadableStream({
      start(controller) {
        for (let i = 0; i < 80; i++) controller.enqueue(new Uint8Array(64 * 1024));
        controller.close();
      },
    });
    const { agent } = await listen();
    for (const body of [Buffer.alloc(5 * 1024 * 1024), chunked()]) {
      const response = await fetch(`${agent}/v1/calls`, { method: 'POST', headers: { ...as('agent'), ...json }, body, duplex: 'half' } as RequestInit);
      expect(response.status).toBe(413);
      expect(((await response.json()) as Answer).code).toBe('BODY_TOO_LARGE');
    }
  });

  it('asks for the credential before it reads a byte of the body', async () => {
    const { agent } = await listen();
    const response = await fetch(`${agent}/v1/calls`, { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'x'.repeat(300_000) });
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer/);
  });
});

describe('POST /v1/calls: how an answer becomes a response', () => {
  it.each<Disposition>(['executed', 'replayed'])('%s is 200 and JSON', async (disposition) => {
    const { response, answer } = await propose({}, call, { ...executed, disposition });
    expect([response.status, response.headers.get('content-type'), answer]).toEqual([200, 'application/json', { ...executed, disposition }]);
    expect(response.headers.has('x-should-retry')).toBe(false);
  });

  it.each<Disposition>(['pending', 'unknown', 'approval_required', 'review'])('%s is 202, never 408 or 5xx', async (disposition) => {
    const { response } = await propose({}, call, { ...executed, disposition, next_action: 'wait' });
    expect([response.status, response.headers.get('content-type')]).toEqual([202, 'application/json']);
  });

  it('rounds Retry-After up to whole seconds, at least 1, wherever the answer names a pause', async () => {
    const pause = async (ms: number) => (await propose({}, call, { ...executed, disposition: 'unknown', retry_after_ms: ms })).response.headers.get('retry-after');
    expect([await pause(0), await pause(1), await pause(1000), await pause(1001)]).toEqual(['1', '1', '1', '2']);
  });

  it.each(['IN_PROGRESS', 'RATE_LIMITED', 'UNAVAILABLE', 'DRAINING'] as const)('%s always carries Retry-After and may be re-sent', async (code) => {
    const { response } = await propose({}, call, { ...problemAnswer(refuse(code, 'x')), retry_after_ms: null });
    expect(response.headers.get('retry-after')).toBe('1');
    expect(response.headers.has('x-should-retry')).toBe(false);
  });

  it('never carries Retry-After for an exhausted budget, and forbids the re-send that a 429 invites', async () => {
    const { response } = await propose({}, call, problemAnswer(refuse('BUDGET_EXHAUSTED', 'x', { next: 'wait', retryAfterMs: 5000 })));
    expect([response.status, response.headers.has('retry-after'), response.headers.get('x-should-retry')]).toEqual([429, false, 'false']);
  });

  it.each(['TRANSITION_ERROR', 'PRECONDITION_FAILED', 'ID_CONFLICT', 'FORBIDDEN', 'CANCELLED'] as const)(
    '%s forbids the re-send that client libraries do on their own', async (code) => {
      const { response, answer } = await propose({}, call, problemAnswer(refuse(code, 'x')));
      expect(response.headers.get('x-should-retry')).toBe('false');
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      expect(response.status).toBe(answer.status);
    });

  it('gives a refusal the member `errors` even where the gate had none, so that no client has to ask for it', async () => {
    const { errors, ...without } = problemAnswer(refuse('NOT_FOUND', 'x'));
    expect(errors).toEqual([]);
    expect((await propose({}, call, without)).answer.errors).toEqual([]);
  });

  it('steers by the next action that the contract chose, not by the general one', async () => {
    const { response } = await propose({}, call, problemAnswer(refuse('PRECONDITION_FAILED', 'x', { next: 'retry' })));
    expect(response.headers.has('x-should-retry')).toBe(false);
  });
});
