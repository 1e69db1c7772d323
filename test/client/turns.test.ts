import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Callgate, type CallgateError } from '../../src/client/index.js';
import { executed, inProgress, refusal, scriptedGateway, unavailable, unknown } from './scripted-gateway.js';

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0));

const envelope = { session_id: 's-1', intent_id: 'int-1' };
const refused = refusal({ disposition: 'transition_error', next_action: 'refresh', status: 409, code: 'TRANSITION_ERROR' });
const message = { role: 'tool', tool_call_id: 'call_1', content: '{}' };

async function opened(...script: Parameters<typeof scriptedGateway>) {
  const server = await scriptedGateway(...script);
  return { server, gate: new Callgate({ url: server.url, key: 'cg_key', attempts: 4 }) };
}

describe('a turn', () => {
  it.each([
    ['openaiChat', '/v1/dialects/openai-chat', { messages: [message] }],
    ['openaiResponses', '/v1/dialects/openai-responses', { input: [{ type: 'function_call_output', call_id: 'call_1', output: '{}' }] }],
    ['anthropic', '/v1/dialects/anthropic', { message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: '{}' }] } }],
  ] as const)('%s: the response as it came, and what must be appended', async (verb, path, given) => {
    const { server, gate } = await opened({ body: { ...given, results: [executed] } });
    const response = { id: 'resp_1', anything: [1, { deep: null }] };
    expect(await gate.turn[verb](response, envelope)).toEqual({ ...given, results: [executed] });
    expect(server.got).toHaveLength(1);
    expect(server.got[0]?.path).toBe(path);
    expect(JSON.parse(server.got[0]?.body ?? '')).toEqual({ ...envelope, response });
  });

  it('without calls gives nothing to append', async () => {
    const { gate } = await opened({ body: { messages: [], results: [] } });
    expect((await gate.turn.openaiChat({ id: 'r' }, envelope)).messages).toEqual([]);
  });

  it('of which the answer is lost is sent again, to the byte', async () => {
    const { server, gate } = await opened({ closes: 'read' }, { closes: 'half', body: { messages: [message], results: [executed] } }, { body: { messages: [message], results: [executed] } });
    expect((await gate.turn.openaiChat({ id: 'r' }, envelope)).messages).toEqual([message]);
    expect(new Set(server.got.map(({ body }) => body)).size).toBe(1);
    expect(server.got).toHaveLength(3);
  });
});

describe('a batch', () => {
  it('mints ids where there are none, once', async () => {
    const { server, gate } = await opened({ closes: 'read' }, { body: { results: [executed, executed] } });
    const call = { tool: 'issue_credit', arguments: '{"order_id":"O-417"}' };
    await gate.batch({ ...envelope, turn_id: 't-1', calls: [call, { ...call, call_id: 'mine' }] });
    expect(server.got[0]?.body).toBe(server.got[1]?.body);
    expect(JSON.parse(server.got[0]?.body ?? '')).toEqual({ ...envelope, turn_id: 't-1', calls: [{ ...call, call_id: expect.stringMatching(/^call_/) }, { ...call, call_id: 'mine' }] });
  });

  it.each([['unknown', unknown], ['in_progress', inProgress], ['unavailable', unavailable]])('is sent again while a call of it is %s and the rest is done', async (_, open) => {
    const { server, gate } = await opened({ body: { results: [executed, open] } }, { body: { results: [executed, open] } }, { body: { results: [executed, executed] } });
    expect((await gate.batch({ ...envelope, calls: [] })).results).toEqual([executed, executed]);
    expect(server.got).toHaveLength(3);
  });

  it('waits no longer than it may, and then tells what it knows', async () => {
    const { server, gate } = await opened({ body: { results: [executed, unknown] } });
    expect((await gate.batch({ ...envelope, calls: [] })).results).toEqual([executed, unknown]);
    expect(server.got).toHaveLength(4);
  });

  /** Deciding a refusal anew costs a re-proposal of the model's, and could end otherwise than the model is about to be told. */
  it('in which something was refused is not sent again for the sake of the rest', async () => {
    const { server, gate } = await opened({ body: { results: [refused, unknown] } });
    expect((await gate.batch({ ...envelope, calls: [] })).results).toEqual([refused, unknown]);
    expect(server.got).toHaveLength(1);
  });

  it('that is refused as a whole is thrown, with the refusal', async () => {
    const { gate } = await opened({ body: refusal({ disposition: 'invalid_call', next_action: 'repair', status: 400, code: 'TOO_MANY_CALLS', detail: 'The batch has 21 calls; the limit is 20.' }) });
    const error = await gate.batch({ ...envelope, calls: [{ tool: 't', arguments: {}, call_id: 'a' }] }).catch((reason: CallgateError) => reason);
    expect(error).toMatchObject({ code: 'REFUSED', callIds: ['a'], answer: { code: 'TOO_MANY_CALLS' }, mayHaveHappened: false });
    expect((error as Error).message).toBe('The gateway refused the request (TOO_MANY_CALLS): The batch has 21 calls; the limit is 20.');
  });
});

describe('the other verbs', () => {
  it('tools, plain and in a dialect', async () => {
    const { server, gate } = await opened({ closes: 'read' }, { body: { tools: [{ name: 'a' }] } });
    expect((await gate.tools()).tools).toHaveLength(1);
    expect((await gate.tools<{ name: string }>('anthropic')).tools[0]?.name).toBe('a');
    expect(server.got.map(({ path }) => path)).toEqual(['/v1/tools', '/v1/tools', '/v1/tools?dialect=anthropic']);
  });

  it('context, for a subject', async () => {
    const { server, gate } = await opened({ body: { session_id: 's/1', text: 'order:O-417 is DELIVERED', entities: [], budgets: {} } });
    expect((await gate.context('s/1')).text).toContain('DELIVERED');
    await gate.context('s/1', { subject: 'C 17' });
    expect(server.got.map(({ path }) => path)).toEqual(['/v1/sessions/s%2F1/context', '/v1/sessions/s%2F1/context?subject=C%2017']);
  });

  it('cancel: done, or too late, and either is an answer', async () => {
    const late = refusal({ disposition: 'invalid_call', next_action: 'wait', status: 409, code: 'TOO_LATE', operation_id: 'op_1' });
    const { server, gate } = await opened({ body: late });
    expect(await gate.cancel('op_1')).toMatchObject({ code: 'TOO_LATE' });
    expect(server.got.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /v1/operations/op_1/cancel']);
  });

  it('result: all the pages, the lost ones again', async () => {
    const whole = JSON.stringify({ text: 'héllo '.repeat(10), n: [1, 2] });
    const at = [0, 20, 41, whole.length] as const;
    const page = (n: 0 | 1 | 2) => ({ body: { text: whole.slice(at[n], at[n + 1]), offset: at[n], bytes: whole.length, next_offset: n === 2 ? null : at[n + 1] as number } });
    const { server, gate } = await opened(page(0), { closes: 'half', body: page(1).body }, page(1), page(2));
    expect(await gate.result('op_1')).toEqual(JSON.parse(whole));
    expect(server.got.map(({ path }) => path.split('?')[1])).toEqual(['offset=0', 'offset=20', 'offset=20', 'offset=41']);
  });

  it('result: pages that do not get on end it', async () => {
    const { gate } = await opened({ body: { text: 'x', offset: 0, bytes: 10, next_offset: 0 } });
    await expect(gate.result('op_1')).rejects.toThrow('do not get on');
  });

  it('operation: as it stands, and an id cannot lead elsewhere', async () => {
    const gone = refusal({ disposition: 'denied', next_action: 'abandon', status: 404, code: 'OPERATION_NOT_FOUND' });
    const { server, gate } = await opened({ status: 202, body: unknown }, { body: gone });
    expect(await gate.operation('op_1')).toMatchObject({ disposition: 'unknown' });
    expect(await gate.operation('../tools?x')).toMatchObject({ disposition: 'denied', code: 'OPERATION_NOT_FOUND' });
    expect(server.got.map(({ path, headers }) => `${path} ${headers['prefer']}`)).toEqual(['/v1/operations/op_1 wait=0', '/v1/operations/..%2Ftools%3Fx wait=0']);
  });
});
