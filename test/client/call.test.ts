import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Callgate, CallgateError, type CallgateOptions } from '../../src/client/index.js';
import { type Act, credit, executed, inProgress, refusal, scriptedGateway, unavailable, unknown } from './scripted-gateway.js';

// No jitter, so that a test waits only as long as it is asked to.
beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0));

async function opened(script: Parameters<typeof scriptedGateway>, options: Partial<CallgateOptions> = {}) {
  const server = await scriptedGateway(...script);
  return { server, gate: new Callgate({ url: server.url, key: 'cg_key', ...options }) };
}

const thrown = async (promise: Promise<unknown>): Promise<CallgateError> => {
  const error: unknown = await promise.then(() => undefined, (reason: unknown) => reason);
  expect(error).toBeInstanceOf(CallgateError);
  return error as CallgateError;
};

/** case-02, case-04: the answer is lost on the way back. A client that gives up, or goes on under another id, leaves a person to find out. */
describe('an answer that does not arrive', () => {
  const html = '<html>bad gateway</html>';
  const losses: [string, Act][] = [
    ['the connection is closed unread', { closes: 'unread' }],
    ['the connection is closed after the request was read', { closes: 'read' }],
    ['half of the announced answer', { closes: 'half' }],
    ['half of an answer of no announced length', { closes: 'half-unannounced' }],
    ['408', { status: 408, body: '' }], ['429 of a proxy', { status: 429, body: html }],
    ['502', { status: 502, body: html }], ['503', { status: 503, body: html, headers: { 'retry-after': '0' } }], ['504 in JSON of a proxy', { status: 504, body: { message: 'timeout' } }],
    ['503 of the gateway', { body: unavailable }],
  ];
  it.each(losses)('%s: the same bytes under the same id, and the answer', async (_, loss) => {
    const { server, gate } = await opened([loss, loss, { body: executed }]);
    const answer = await gate.call(credit);
    expect(answer).toMatchObject({ disposition: 'executed', result: { receipt_id: 'CR-1' } });
    const read = server.posts().filter(({ body }) => body !== '');
    expect(server.posts()).toHaveLength(3);
    expect(new Set(read.map(({ body }) => body)).size).toBe(1);
    expect(JSON.parse(read[0]?.body ?? '')).toEqual({ ...credit, call_id: answer.call_id });
  });

  it('who sets no limit to an answer gets no limit', async () => {
    const { gate } = await opened([{ body: executed }], { timeoutMs: Number.POSITIVE_INFINITY, elapsedMs: Number.POSITIVE_INFINITY });
    expect(await gate.call(credit, { waitMs: Number.POSITIVE_INFINITY })).toMatchObject({ disposition: 'executed' });
  });

  it('no answer in time is one that does not arrive', async () => {
    const { server, gate } = await opened([{ silent: true }, { body: executed }], { timeoutMs: 150 });
    expect(await gate.call({ ...credit, call_id: 'c-1' }, { waitMs: 900 })).toMatchObject({ disposition: 'executed', call_id: 'c-1' });
    expect(server.posts()).toHaveLength(2);
  });

  it('at the end of the attempts it is said with the ids to go on with', async () => {
    const { server, gate } = await opened([{ closes: 'read' }], { attempts: 3 });
    const error = await thrown(gate.call(credit));
    expect(error).toMatchObject({ code: 'NO_ANSWER', sessionId: 's-1', mayHaveHappened: true, answer: null, operationId: null });
    expect(error.callId).toBe((JSON.parse(server.got[0]?.body ?? '') as { call_id: string }).call_id);
    expect(error.message).toContain(`send it again with call_id \`${error.callId}\``);
    expect(server.posts()).toHaveLength(3);
  });

  it('nothing listens: surely nothing was done', async () => {
    const { server, gate } = await opened([{ body: executed }], { attempts: 2 });
    await server.close();
    const error = await thrown(gate.call(credit));
    expect(error).toMatchObject({ code: 'NO_ANSWER', mayHaveHappened: false });
    expect(error.message).toMatch(/nothing listens there \(ECONNREFUSED\)\. Nothing was done\./);
  });

  it('unavailable after an answer that was lost does not say that nothing was sent', async () => {
    const { gate } = await opened([{ closes: 'read' }, { body: unavailable }], { attempts: 3 });
    expect(await thrown(gate.call(credit))).toMatchObject({ code: 'NO_ANSWER', mayHaveHappened: true, answer: { disposition: 'unavailable' } });
  });

  it('unavailable, and nothing lost: the answer', async () => {
    const { server, gate } = await opened([{ body: unavailable }], { attempts: 3 });
    expect(await gate.call(credit)).toMatchObject({ disposition: 'unavailable', next_action: 'retry' });
    expect(server.posts()).toHaveLength(3);
  });
});

describe('what asks for a pause', () => {
  it.each([
    ['seconds', { 'retry-after': '1' }],
    ['a date, by the clock of whoever sent it', { date: 'Mon, 30 Nov 2020 06:00:00 GMT', 'retry-after': 'Mon, 30 Nov 2020 06:00:01 GMT' }],
  ])('Retry-After as %s is kept', async (_, headers) => {
    const { server, gate } = await opened([{ status: 503, body: 'busy', headers }, { body: executed }]);
    expect(await gate.call(credit)).toMatchObject({ disposition: 'executed' });
    expect((server.got[1]?.at ?? 0) - (server.got[0]?.at ?? 0)).toBeGreaterThanOrEqual(990);
  });

  it('retry_after_ms is kept', async () => {
    const { server, gate } = await opened([{ body: { ...inProgress, retry_after_ms: 600 } }, { body: executed }]);
    expect(await gate.call(credit)).toMatchObject({ disposition: 'executed' });
    expect((server.got[1]?.at ?? 0) - (server.got[0]?.at ?? 0)).toBeGreaterThanOrEqual(590);
  });

  it('a pause that is longer than the caller waits ends the call at once, with the answer', async () => {
    const limited = refusal({ disposition: 'rate_limited', next_action: 'retry', status: 429, code: 'RATE_LIMITED', retry_after_ms: 40_000 });
    const { server, gate } = await opened([{ body: limited, headers: { 'retry-after': '40' } }]);
    expect(await gate.call(credit)).toMatchObject({ disposition: 'rate_limited', retry_after_ms: 40_000 });
    expect(server.got).toHaveLength(1);
  });
});

describe('what must not be sent again is not', () => {
  it.each([
    refusal({ disposition: 'budget_exhausted', next_action: 'abandon', status: 429, code: 'BUDGET_EXHAUSTED' }),
    refusal({ disposition: 'precondition_failed', next_action: 'refresh', status: 409, code: 'PRECONDITION_FAILED' }),
    // even if its own words said that it may be
    refusal({ disposition: 'failed', next_action: 'retry', status: 502, code: 'UPSTREAM_UNREACHABLE' }),
  ])('$code with x-should-retry: false', async (answer) => {
    const { server, gate } = await opened([{ body: answer, headers: { 'x-should-retry': 'false' } }]);
    expect(await gate.call(credit)).toMatchObject({ code: answer.code });
    expect(server.got).toHaveLength(1);
  });

  it('a proxy says so', async () => {
    const { server, gate } = await opened([{ status: 503, body: 'no', headers: { 'x-should-retry': 'false' } }]);
    expect(await thrown(gate.call(credit))).toMatchObject({ code: 'NO_ANSWER', mayHaveHappened: true });
    expect(server.got).toHaveLength(1);
  });

  it.each(['review', 'approval_required'] as const)('%s is with a person, and told at once', async (disposition) => {
    const { server, gate } = await opened([{ status: 202, body: { ...unknown, disposition, next_action: 'escalate' } }]);
    expect(await gate.call(credit)).toMatchObject({ disposition });
    expect(server.got).toHaveLength(1);
  });
});

describe('what may have happened is followed', () => {
  it.each(['unknown', 'pending'] as const)('%s: at its operation, until it is settled', async (disposition) => {
    const open = { ...unknown, disposition, call_id: 'c-1' };
    const { server, gate } = await opened([{ status: 202, body: open }, { status: 202, body: open }, { body: executed }]);
    expect(await gate.call({ ...credit, call_id: 'c-1' })).toMatchObject({ disposition: 'executed', call_id: 'c-1' });
    expect(server.got.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /v1/calls', 'GET /v1/operations/op_1', 'GET /v1/operations/op_1']);
    expect(server.got[0]?.headers['prefer']).toBe('wait=30');
    for (const { headers } of server.got.slice(1)) expect(headers['prefer']).toMatch(/^wait=[12]\d$/);
  });

  it('in_progress under another call id: the outcome, and whose it is', async () => {
    const { server, gate } = await opened([{ body: { ...inProgress, operation_id: 'op_1', call_id: 'c-2' } }, { body: executed }]);
    expect(await gate.call({ ...credit, call_id: 'c-2' })).toMatchObject({ disposition: 'executed', call_id: 'c-2', duplicate_of: 'c-1' });
    expect(server.posts()).toHaveLength(1);
  });

  it('in_progress of another call: the same call again, and not sooner than asked', async () => {
    const { server, gate } = await opened([{ body: inProgress }, { body: executed }]);
    expect(await gate.call(credit)).toMatchObject({ disposition: 'executed' });
    expect(server.posts()).toHaveLength(2);
  });

  it('an operation that cannot be seen: the same call again', async () => {
    const gone = refusal({ disposition: 'denied', next_action: 'abandon', status: 404, code: 'OPERATION_NOT_FOUND' });
    const { server, gate } = await opened([{ status: 202, body: unknown }, { body: gone, headers: { 'x-should-retry': 'false' } }, { status: 202, body: unknown }, { body: executed }]);
    expect(await gate.call(credit)).toMatchObject({ disposition: 'executed' });
    expect(server.got.map(({ method }) => method)).toEqual(['POST', 'GET', 'POST', 'POST']);
  });

  it('one that is proven not to have happened: the same call again', async () => {
    const absent = refusal({ disposition: 'rejected', next_action: 'retry', status: 422, code: 'NOT_COMMITTED', operation_id: 'op_1' });
    const { server, gate } = await opened([{ status: 202, body: unknown }, { body: absent }, { body: executed }]);
    expect(await gate.call(credit)).toMatchObject({ disposition: 'executed' });
    expect(server.got.map(({ method }) => method)).toEqual(['POST', 'GET', 'POST']);
    expect(server.posts()[0]?.body).toBe(server.posts()[1]?.body);
  });

  it('when the time is up the last honest answer is returned, not thrown', async () => {
    const { gate } = await opened([{ status: 202, body: unknown }]);
    expect(await gate.call(credit, { waitMs: 1200 })).toMatchObject({ disposition: 'unknown', operation_id: 'op_1' });
  });

  it('an operation about which nothing more can be heard is still unknown', async () => {
    const { gate } = await opened([{ status: 202, body: unknown }, { closes: 'read' }], { attempts: 4 });
    expect(await gate.call(credit)).toMatchObject({ disposition: 'unknown', operation_id: 'op_1' });
  });

  it('that the gateway cannot look it up says nothing of the operation', async () => {
    const { gate } = await opened([{ status: 202, body: unknown }, { body: unavailable }], { attempts: 3 });
    expect(await gate.call(credit)).toMatchObject({ disposition: 'unknown', operation_id: 'op_1' });
  });

  it('waitMs 0: the first answer', async () => {
    const { server, gate } = await opened([{ status: 202, body: unknown }]);
    expect(await gate.call(credit, { waitMs: 0 })).toMatchObject({ disposition: 'unknown' });
    expect(server.got.map(({ headers }) => headers['prefer'])).toEqual(['wait=0']);
  });

  it('an operation is waited for while it is with a person', async () => {
    const parked = { ...unknown, disposition: 'approval_required', next_action: 'ask', retry_after_ms: null };
    const { server, gate } = await opened([{ status: 202, body: parked }, { status: 202, body: { ...parked, disposition: 'review' } }, { body: executed }]);
    expect(await gate.operation('op_1', { waitMs: 20_000 })).toMatchObject({ disposition: 'executed' });
    expect(server.got.every(({ method }) => method === 'GET')).toBe(true);
  });
});

describe('words of a later version', () => {
  it('a disposition that is not known is returned; with `wait` it is followed', async () => {
    const { server, gate } = await opened([{ status: 202, body: { ...unknown, disposition: 'dreaming' } }, { body: { ...executed, disposition: 'dreamt', more: 1 } }]);
    expect(await gate.call(credit)).toMatchObject({ disposition: 'dreamt', more: 1 });
    expect(server.got).toHaveLength(2);
  });

  it('a next action that is not known makes nothing be sent', async () => {
    const { server, gate } = await opened([{ status: 418, body: { ...refusal({ disposition: 'denied', next_action: 'ask', status: 418, code: 'X' }), next_action: 'ponder' } }]);
    expect(await gate.call(credit)).toMatchObject({ next_action: 'ponder' });
    expect(server.got).toHaveLength(1);
  });
});

describe('the caller’s signal', () => {
  it('before: nothing is sent', async () => {
    const { server, gate } = await opened([{ body: executed }]);
    expect(await thrown(gate.call(credit, { signal: AbortSignal.abort() }))).toMatchObject({ name: 'AbortError', code: 'ABORTED', mayHaveHappened: false });
    expect(server.got).toHaveLength(0);
  });

  it('while it waits for an answer, with the id to go on with', async () => {
    const leave = new AbortController();
    const { gate } = await opened([() => { leave.abort('gone'); return { silent: true }; }]);
    expect(await thrown(gate.call({ ...credit, call_id: 'c-1' }, { signal: leave.signal }))).toMatchObject({ code: 'ABORTED', cause: 'gone', callId: 'c-1', mayHaveHappened: true });
  });

  it('while it pauses, with what was heard', async () => {
    const leave = new AbortController();
    const { gate } = await opened([() => { setTimeout(() => leave.abort(), 50); return { status: 202, body: { ...unknown, retry_after_ms: 20_000 } }; }]);
    expect(await thrown(gate.call(credit, { signal: leave.signal }))).toMatchObject({ code: 'ABORTED', operationId: 'op_1', answer: { disposition: 'unknown' }, mayHaveHappened: true });
  });
});

describe('what is proposed', () => {
  it('goes out under the id of the model, or under one that is minted once', async () => {
    const { server, gate } = await opened([{ body: executed }]);
    await gate.call({ ...credit, call_id: 'call_of_the_model' });
    await gate.call({ ...credit, call_id: '' });
    await gate.call(credit);
    const ids = server.got.map(({ body }) => (JSON.parse(body) as { call_id: string }).call_id);
    expect(ids[0]).toBe('call_of_the_model');
    expect(ids.slice(1).every((id) => /^call_[0-9a-f-]{36}$/.test(id))).toBe(true);
    expect(new Set(ids).size).toBe(3);
    expect(server.got[0]?.headers).toMatchObject({ authorization: 'Bearer cg_key', 'content-type': 'application/json' });
  });

  it.each([[Number.NaN], [Number.POSITIVE_INFINITY], [10n]])('%s is no JSON: nothing is sent', async (amount) => {
    const { server, gate } = await opened([{ body: executed }]);
    const error = await thrown(gate.call({ ...credit, arguments: { amount: amount as number } }));
    expect(error).toMatchObject({ code: 'INVALID_PROPOSAL', mayHaveHappened: false });
    expect(server.got).toHaveLength(0);
  });
});
