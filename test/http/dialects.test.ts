/**
 * What a provider's client appends to its history has to fit what it sent: one result for each call, under the id that came, of the type
 * that belongs to the call. Whatever is lost here makes every later request of that conversation fail (case-21).
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { refuse } from '../../src/errors.js';
import { problemAnswer } from '../../src/http/problem.js';
import type { Answer, JsonObject } from '../../src/model.js';
import type { AgentDoor, ProposedTurn } from '../../src/ports.js';
import { as, executed, json, type Listeners, listen, type Script } from './listeners.js';

type Name = 'openai-chat' | 'openai-responses' | 'anthropic';
const names: Name[] = ['openai-chat', 'openai-responses', 'anthropic'];

interface Call { id?: unknown; name?: unknown; args?: unknown }
const credit = { order_id: 'O-417', amount: 2500, currency: 'GBP' };

/** A response of each provider with these calls, as its API gives it. */
const response: Record<Name, (calls: Call[], ending?: string) => JsonObject> = {
  'openai-chat': (calls, ending = 'tool_calls') => ({
    id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', usage: { total_tokens: 3 },
    choices: [{ index: 0, finish_reason: ending, logprobs: null, message: {
      role: 'assistant', content: null, refusal: null,
      tool_calls: calls.map(({ id, name, args }) => ({ ...(id === undefined ? {} : { id }), type: 'function', function: { name, arguments: JSON.stringify(args ?? {}) } })) as never,
    } }],
  }),
  'openai-responses': (calls, ending = 'completed') => ({
    id: 'resp_1', object: 'response', status: ending, incomplete_details: null, error: null,
    output: [
      { type: 'reasoning', id: 'rs_1', summary: [] },
      ...calls.map(({ id, name, args }) => ({ type: 'function_call', id: 'fc_1', ...(id === undefined ? {} : { call_id: id }), name, arguments: JSON.stringify(args ?? {}), status: 'completed' })) as never[],
    ],
  }),
  anthropic: (calls, ending = 'tool_use') => ({
    id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_reason: ending, stop_sequence: null, usage: { output_tokens: 3 },
    content: [{ type: 'text', text: 'I will.' }, ...calls.map(({ id, name, args }) => ({ type: 'tool_use', ...(id === undefined ? {} : { id }), name, input: args ?? {} })) as never[]],
  }),
};

/** The messages in the answer, as pairs of the id and what the model is told. */
const told: Record<Name, (body: JsonObject) => [string, JsonObject][]> = {
  'openai-chat': ({ messages }) => (messages as { tool_call_id: string; content: string }[]).map(({ tool_call_id, content }) => [tool_call_id, JSON.parse(content)]),
  'openai-responses': ({ input }) => (input as { call_id: string; output: string }[]).map(({ call_id, output }) => [call_id, JSON.parse(output)]),
  anthropic: ({ message }) => (message === null ? [] : (message as { content: { tool_use_id: string; content: string }[] }).content.map(({ tool_use_id, content }) => [tool_use_id, JSON.parse(content)])),
};

/** A door that executes everything and remembers what it was asked. */
function door(asked: ProposedTurn[] = [], answer: (position: number, turn: ProposedTurn) => Answer = () => executed): Pick<AgentDoor, 'turn'> {
  return {
    turn: async (turn) => {
      asked.push(turn);
      return { results: turn.calls.map((call, position) => ('unusable' in call ? problemAnswer(refuse('UNUSABLE_CALL', call.unusable)) : answer(position, turn))) };
    },
  };
}

async function post({ agent }: Listeners, name: Name, body: unknown, headers: Record<string, string> = {}): Promise<{ http: number; body: JsonObject }> {
  const sent = await fetch(`${agent}/v1/dialects/${name}`, {
    method: 'POST', headers: { ...as('agent'), ...json, ...headers }, body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { http: sent.status, body: (await sent.json()) as JsonObject };
}

async function turn(name: Name, body: unknown, script: Script = {}): Promise<{ http: number; body: JsonObject; asked: ProposedTurn[] }> {
  const asked: ProposedTurn[] = [];
  const listeners = await listen({ door: door(asked), ...script });
  return { ...(await post(listeners, name, body)), asked };
}

const callOf = ([turn]: ProposedTurn[], position = 0) => (turn as ProposedTurn & { calls: { members: JsonObject }[] }).calls[position]?.members ?? {};
const membersOf = ([turn]: ProposedTurn[]) => (turn as ProposedTurn & { members: JsonObject }).members;

describe.each(names)('%s: a turn and its messages', (name) => {
  it('proposes each call as it came and gives its result under its id', async () => {
    const calls = [{ id: 'call_a', name: 'get_order', args: { order_id: 'O-417' } }, { id: 'call_b', name: 'issue_credit', args: credit }];
    const { http, body, asked } = await turn(name, { session_id: 's-1', intent_id: 'i-1', purpose: 'refund', response: response[name](calls) });
    expect(http).toBe(200);
    expect(asked[0]).toMatchObject({ cut: null, members: { session_id: 's-1', intent_id: 'i-1', purpose: 'refund', turn_id: response[name]([])['id'] as string } });
    const given = callOf(asked, 1)['arguments'];
    expect(callOf(asked, 1)).toEqual({ call_id: 'call_b', tool: 'issue_credit', arguments: name === 'anthropic' ? credit : JSON.stringify(credit) });
    expect(given).toBeTruthy();
    expect(told[name](body).map(([id]) => id)).toEqual(['call_a', 'call_b']);
    expect(body['results']).toHaveLength(2);
  });

  it('case-19: missing, empty, repeated and "undefined" ids each keep their call, position and result', async () => {
    const ids = ['', '', 'x:1', 'x:1', undefined, 'undefined', 'undefined', 'i'.repeat(600), 'nul\0'];
    const { body, asked } = await turn(name, { session_id: 's-1', response: response[name](ids.map((id) => ({ id, name: 'get_order', args: {} }))) });
    expect(asked[0]?.calls).toHaveLength(ids.length);
    const returned = told[name](body).map(([id]) => id);
    expect(returned.map((id, position) => (ids[position] === undefined ? /^call_[0-9a-f]{32}$/.test(id) : id === ids[position]))).toEqual(ids.map(() => true));
    const kept = asked[0]?.calls.map((_, position) => callOf(asked, position)['call_id'] as string) ?? [];
    expect(kept.every((id) => id !== '' && Buffer.byteLength(id) <= 512 && !id.includes('\0'))).toBe(true);
  });

  it('a turn that is sent again is the same turn, with minted ids and all', async () => {
    const body = { session_id: 's-1', response: response[name]([{ name: 'get_order', args: {} }]) };
    const [first, second] = [await turn(name, body), await turn(name, body)];
    expect(second.asked[0]?.members).toEqual(first.asked[0]?.members);
    expect(told[name](second.body)).toEqual(told[name](first.body));
  });

  it('the turn is named by the response, then by the caller, then by its content', async () => {
    const made = response[name]([{ id: 'a', name: 'get_order', args: {} }]);
    const { id: own, ...anonymous } = made;
    const turnId = async (body: JsonObject) => membersOf((await turn(name, { session_id: 's-1', ...body })).asked)['turn_id'];
    expect(await turnId({ response: made, turn_id: 't-1' })).toBe(own);
    expect(await turnId({ response: anonymous, turn_id: 't-1' })).toBe('t-1');
    expect(await turnId({ response: { ...anonymous, id: 'i'.repeat(600) } })).toMatch(/^turn_[0-9a-f]{32}$/);
    const derived = await turnId({ response: anonymous });
    expect(derived).toMatch(/^turn_[0-9a-f]{32}$/);
    expect(await turnId({ response: anonymous })).toBe(derived);
    const { id: _, ...later } = response[name]([{ id: 'b', name: 'get_order', args: {} }]);
    expect(await turnId({ response: later }), 'an equal call under a new id is a later turn').not.toBe(derived);
    expect(await turnId({ response: anonymous, session_id: 's-2' })).not.toBe(derived);
  });

  it('a turn without calls gives nothing to append', async () => {
    const { http, body } = await turn(name, { session_id: 's-1', response: response[name]([]) });
    expect(http).toBe(200);
    expect(body).toEqual({ ...(name === 'anthropic' ? { message: null } : name === 'openai-chat' ? { messages: [] } : { input: [] }), results: [] });
  });

  it.each(['length', 'max_tokens', 'content_filter', 'incomplete', 'cancelled', 'pause_turn', 'refusal', 'model_context_window_exceeded', 'whatever comes next'])('case-27: a turn that ended by %s is cut', async (ending) => {
    const { asked } = await turn(name, { session_id: 's-1', response: response[name]([{ id: 'a', name: 'issue_credit', args: credit }], ending) });
    expect(asked[0]?.cut).toBe(ending);
  });

  it('how the turn ended has to be said', async () => {
    const without = JSON.parse(JSON.stringify(response[name]([{ id: 'a', name: 'get_order' }])), (key, value) => (['finish_reason', 'status', 'stop_reason'].includes(key) ? undefined : value)) as JsonObject;
    const { http, body, asked } = await turn(name, { session_id: 's-1', response: without });
    expect([http, body['code'], asked.length]).toEqual([400, 'INVALID_ENVELOPE', 0]);
    const ending = { 'openai-chat': '/response/choices/0/finish_reason', 'openai-responses': '/response/status', anthropic: '/response/stop_reason' }[name];
    expect(body['errors']).toMatchObject([{ pointer: ending }]);
  });

  it('names and arguments of any type reach the gate as they are, which refuses that call alone', async () => {
    const { body, asked } = await turn(name, { session_id: 's-1', response: response[name]([{ id: 'a', name: 7 }, { id: 'b' }, { id: 'c', name: 'get_order', args: {} }]) });
    expect(callOf(asked)['tool']).toBe(7);
    expect(callOf(asked, 1)).not.toHaveProperty('tool');
    expect(told[name](body)).toHaveLength(3);
  });

  it('the body is read strictly, but what is not a call’s is not refused for a large number', async () => {
    const twice = `{"session_id":"s","response":{"id":"1","id":"2"}}`;
    expect((await turn(name, twice)).body).toMatchObject({ code: 'DUPLICATE_KEY', errors: [{ pointer: '/response/id' }] });
    expect((await turn(name, '{"session_id":')).body['code']).toBe('MALFORMED_JSON');
    expect((await turn(name, '[]')).body['code']).toBe('INVALID_ENVELOPE');
    expect((await turn(name, '['.repeat(20_000))).body['code']).toBe('TOO_DEEP');
    expect((await turn(name, `{"pad":"${'x'.repeat(300_000)}"}`)).http).toBe(413);
    const text = JSON.stringify({ session_id: 's-1', response: response[name]([{ id: 'a', name: 'get_order', args: {} }]) }).replace('"id":', '"seed":7301299420421230017,"id":');
    expect((await turn(name, text)).http).toBe(200);
  });

  it('case-29: an integer that cannot be carried reaches the gate in its own digits', async () => {
    const text = JSON.stringify({ session_id: 's-1', response: response[name]([{ id: 'a', name: 'get_order', args: { 'a/b': ['x', { n: 1 }], 'text': '12345678901234567890' } }]) });
    const escaped = name === 'anthropic' ? text.replace('"n":1', '"n":7301299420421230017') : text.replace('\\"n\\":1', '\\"n\\":7301299420421230017');
    expect(callOf((await turn(name, escaped)).asked)['arguments']).toBe('{"a/b":["x",{"n":7301299420421230017}],"text":"12345678901234567890"}');
  });

  it('answers as many calls as a model might make, and refuses as a whole what is made to be large', async () => {
    const calls = (n: number): Call[] => Array.from({ length: n }, (_, i) => ({ id: `c-${i}`, name: 't', args: {} }));
    const { body } = await turn(name, { session_id: 's-1', response: response[name](calls(256)) });
    expect(told[name](body).map(([id]) => id)).toEqual(calls(256).map(({ id }) => id));
    const { http, body: refused, asked } = await turn(name, { session_id: 's-1', response: response[name](calls(257)) });
    expect([http, refused['code'], asked.length]).toEqual([400, 'TOO_MANY_CALLS', 0]);
  });

  it('refuses a key for the whole turn, a missing body, and what the gate refuses as a whole', async () => {
    const listeners = await listen({ door: { turn: async () => ({ refused: problemAnswer(refuse('SUBJECT_NOT_GRANTED', 'x')) }) } });
    const body = { session_id: 's-1', response: response[name]([]) };
    expect(await post(listeners, name, body, { 'idempotency-key': 'k' })).toMatchObject({ http: 400, body: { code: 'INVALID_ENVELOPE' } });
    expect(await post(listeners, name, '')).toMatchObject({ http: 400 });
    expect(await post(listeners, name, body)).toMatchObject({ http: 403, body: { code: 'SUBJECT_NOT_GRANTED', disposition: 'denied' } });
  });

  it('waits as long as Prefer says, once for all calls', async () => {
    const asked: ProposedTurn[] = [];
    const listeners = await listen({ door: door(asked) });
    for (const prefer of ['wait=7', 'wait=99', 'respond-async']) await post(listeners, name, { session_id: 's-1', response: response[name]([]) }, { prefer });
    expect(asked.map(({ patienceMs }) => patienceMs)).toEqual([7000, 45_000, undefined]);
  });
});

describe('what is particular to a provider', () => {
  it('chat: a message with its finish_reason is taken in the place of the response', async () => {
    const { message, finish_reason } = (response['openai-chat']([{ id: 'a', name: 'get_order' }])['choices'] as JsonObject[])[0] as JsonObject;
    expect((await turn('openai-chat', { session_id: 's', message, finish_reason })).asked[0]?.calls).toHaveLength(1);
    expect((await turn('openai-chat', { session_id: 's', message, finish_reason: null })).asked[0]?.cut).toBe('unfinished');
    expect((await turn('openai-chat', { session_id: 's', message })).body).toMatchObject({ code: 'INVALID_ENVELOPE', errors: [{ pointer: '/finish_reason' }] });
    expect((await turn('openai-chat', { session_id: 's', message, finish_reason, response: {} })).http).toBe(400);
    expect((await turn('openai-chat', { session_id: 's', message: { role: 'assistant', content: 'Hi.' }, finish_reason: 'stop' })).body['messages']).toEqual([]);
  });

  it('chat: of several choices one may have calls, and it is the first', async () => {
    const whole = response['openai-chat']([{ id: 'a', name: 'get_order' }]);
    const [first] = whole['choices'] as JsonObject[];
    const plain = { index: 1, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi.' } };
    expect((await turn('openai-chat', { session_id: 's', response: { ...whole, choices: [first, plain] } as JsonObject })).asked[0]?.calls).toHaveLength(1);
    expect((await turn('openai-chat', { session_id: 's', response: { ...whole, choices: [first, first] } as JsonObject })).body).toMatchObject({ code: 'INVALID_ENVELOPE', errors: [{ pointer: '/response/choices' }] });
    expect((await turn('openai-chat', { session_id: 's', response: { ...whole, choices: [] } })).http).toBe(400);
  });

  it('chat: a legacy function_call is refused and says what to offer', async () => {
    const message = { role: 'assistant', content: null, function_call: { name: 'get_order', arguments: '{}' } };
    const { http, body } = await turn('openai-chat', { session_id: 's', message, finish_reason: 'function_call' });
    expect([http, body['errors']]).toMatchObject([400, [{ pointer: '/message/function_call', message: expect.stringContaining('`tools`') }]]);
  });

  it('chat: custom and unknown calls are refused by name, each with its message', async () => {
    const message = { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'run_sql', input: 'drop table' } }, { id: 'b', type: 'hologram' }, 7] };
    const { body } = await turn('openai-chat', { session_id: 's', message, finish_reason: 'tool_calls' });
    const [custom, hologram, number] = told['openai-chat'](body).map(([, content]) => content);
    expect(custom).toMatchObject({ disposition: 'invalid_call', next_action: 'repair', code: 'UNUSABLE_CALL', detail: expect.stringContaining('`run_sql`') });
    expect([hologram, number].map((content) => content?.['disposition'])).toEqual(['invalid_call', 'executed']);
    expect(told['openai-chat'](body).map(([id]) => id).slice(0, 2)).toEqual(['a', 'b']);
  });

  it('responses: output and status are taken in the place of the response; an unfinished item cuts the turn', async () => {
    const call = { type: 'function_call', call_id: 'a', name: 'get_order', arguments: '{}', status: 'completed' };
    expect((await turn('openai-responses', { session_id: 's', output: [call], status: 'completed', incomplete_details: null })).asked[0]).toMatchObject({ cut: null });
    expect((await turn('openai-responses', { session_id: 's', output: [call], status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })).asked[0]?.cut).toBe('incomplete: max_output_tokens');
    expect((await turn('openai-responses', { session_id: 's', output: [call, { ...call, status: 'in_progress' }], status: 'completed' })).asked[0]?.cut).toBe('in_progress');
    expect((await turn('openai-responses', { session_id: 's', output: [call] })).http).toBe(400);
    expect((await turn('openai-responses', { session_id: 's', response: { output: 7, status: 'completed' } })).body['errors']).toMatchObject([{ pointer: '/response/output' }]);
  });

  it('responses: a custom call is refused under its own type, what the provider runs needs no answer, and what the host runs is named', async () => {
    const output = [
      { type: 'custom_tool_call', call_id: 'a', name: 'run_sql', input: 'drop table' }, { type: 'web_search_call', id: 'ws_1', status: 'completed' }, { type: 'mcp_call', id: 'mcp_1', name: 'x' },
      { type: 'computer_call', call_id: 'b', id: 'cu_1' }, { type: 'mcp_approval_request', id: 'mcpr_1' }, { type: 'tool_search_call', execution: 'client', call_id: 'ts_1' }, { type: 'tool_search_call', execution: 'server' },
      { type: 'message', content: [] }, 7,
    ];
    const { body } = await turn('openai-responses', { session_id: 's', output, status: 'completed' });
    expect(body['input']).toEqual([{ type: 'custom_tool_call_output', call_id: 'a', output: expect.stringContaining('`run_sql`') }]);
    expect(body['unanswered']).toEqual([{ type: 'computer_call', id: 'b' }, { type: 'mcp_approval_request', id: 'mcpr_1' }, { type: 'tool_search_call', id: 'ts_1' }]);
  });

  it('anthropic: a message alone with its stop_reason; server tools need no answer; a tool of a provider’s set is never ours', async () => {
    const content = [
      { type: 'server_tool_use', id: 'srv_1', name: 'web_search', input: {} }, { type: 'web_search_tool_result', tool_use_id: 'srv_1', content: [] }, { type: 'mcp_tool_use', id: 'm', name: 'x', input: {} },
      { type: 'tool_use', id: 'a', name: 'find', toolset_name: 'browser', input: {} }, { type: 'tool_use', id: 'b', name: 'get_order', input: {}, toolset_name: null },
    ];
    const { body, asked } = await turn('anthropic', { session_id: 's', message: { role: 'assistant', content }, stop_reason: 'tool_use' });
    expect(body['message']).toMatchObject({ role: 'user', content: [
      { type: 'tool_result', tool_use_id: 'a', is_error: true, toolset_name: 'browser', content: expect.stringContaining('`browser`') }, { type: 'tool_result', tool_use_id: 'b' },
    ] });
    expect((body['message'] as { content: object[] }).content[1]).not.toHaveProperty('is_error');
    expect(asked[0]?.calls).toHaveLength(2);
    expect((await turn('anthropic', { session_id: 's', message: { role: 'assistant', content: 'Hi.' }, stop_reason: 'end_turn' })).body['message']).toBeNull();
    expect((await turn('anthropic', { session_id: 's', message: { role: 'assistant', content }, })).http).toBe(400);
  });
});

describe('what a model is told', () => {
  const contentOf = async (answer: Answer): Promise<[JsonObject, string, JsonObject]> => {
    const { body } = await turn('anthropic', { session_id: 's', response: response.anthropic([{ id: 'a', name: 'get_order' }]) }, { door: door([], () => answer) });
    const [block] = (body['message'] as { content: { content: string }[] }).content;
    return [JSON.parse(block?.content ?? '') as JsonObject, block?.content ?? '', block as JsonObject];
  };

  it('the result and what to do next, in one order, without our ids', async () => {
    const [, text, block] = await contentOf(executed);
    expect(text).toBe('{"disposition":"executed","next_action":"continue","result":{"receipt_id":"CR-1","amount":2500},"states":{"order:O-417":"DELIVERED"},"legal_actions":["issue_credit"]}');
    expect(block).not.toHaveProperty('is_error');
  });

  it('a refusal is an error with its code, reason, legal actions and names', async () => {
    const refusal = refuse('TRANSITION_ERROR', 'Not while it is PENDING.', { states: { 'order:O-418': 'PENDING' }, legalActions: [], errors: [{ pointer: '/a', code: 'x', message: 'y' }], nearestTools: ['cancel_order'] });
    const [content, , block] = await contentOf(problemAnswer(refusal));
    expect(Object.keys(content)).toEqual(['disposition', 'next_action', 'code', 'title', 'detail', 'errors', 'nearest_tools', 'states', 'legal_actions']);
    expect(content['legal_actions']).toEqual([]);
    expect(block['is_error']).toBe(true);
  });

  it('an open outcome is no error, and has the one id that a person may ask by', async () => {
    const [content, , block] = await contentOf({ ...executed, disposition: 'unknown', next_action: 'wait', outcome: 'unknown', result: null, states: {}, legal_actions: [], retry_after_ms: 1000, detail: 'It may have happened.' });
    expect(content).toEqual({ disposition: 'unknown', next_action: 'wait', detail: 'It may have happened.', result: null, retry_after_ms: 1000, operation_id: 'op_1' });
    expect(block).not.toHaveProperty('is_error');
  });

  it('a cut result says how much of it there is, and the host has the rest in results', async () => {
    const part = { text: '{"a', offset: 0, bytes: 90_000, next_offset: 3, href: '/v1/operations/op_1/result?offset=3' };
    const [content] = await contentOf({ ...executed, result: null, result_part: part });
    expect(content).not.toHaveProperty('result');
    expect(content['result_part']).toEqual({ text: '{"a', bytes_given: 3, bytes_in_all: 90_000, note: expect.stringContaining('3 of 90000 bytes') });
  });
});

/** A provider's object is somebody else's output: whatever it holds, the answer is a 400 in words or one result for each call. */
describe('arbitrary provider objects', () => {
  const junk = fc.jsonValue({ maxDepth: 5 });
  const members = ['id', 'choices', 'message', 'tool_calls', 'function', 'custom', 'arguments', 'name', 'type', 'finish_reason', 'output', 'status', 'incomplete_details', 'reason', 'call_id', 'content', 'input',
    'stop_reason', 'toolset_name', 'function_call', 'execution', '__proto__', 'constructor', 'toString'];
  const words = ['function', 'custom', 'tool_use', 'function_call', 'custom_tool_call', 'computer_call', 'tool_calls', 'completed', 'incomplete', '', 'undefined', '__proto__', 'constructor', '\ud800', '\0'];
  const object = fc.letrec((tie) => ({
    value: fc.oneof({ depthSize: 'medium', withCrossShrink: true }, fc.constantFrom<unknown>(...words, null, 7, 1e300, true), fc.array(tie('value'), { maxLength: 4 }), tie('object')),
    object: fc.dictionary(fc.constantFrom(...members), tie('value'), { maxKeys: 6, noNullPrototype: true }),
  })).object;
  const mutated = (name: Name) => fc.tuple(fc.array(fc.record({ id: fc.option(junk, { nil: undefined }), name: junk, args: junk }), { maxLength: 5 }), fc.constantFrom('tool_calls', 'stop', 'completed', 'tool_use', 'end_turn', 'length'))
    .map(([calls, ending]) => response[name](calls as Call[], ending));

  it.each(names)('%s', async (name) => {
    const asked: ProposedTurn[] = [];
    const listeners = await listen({ door: door(asked) });
    let taken = 0;
    await fc.assert(fc.asyncProperty(fc.oneof(object, junk, mutated(name)), fc.constantFrom('response', 'message', 'output', 'all'), async (given, place) => {
      asked.length = 0;
      const body = { session_id: 's-1', ...(place === 'all' ? (given as object) : { [place]: given, finish_reason: 'stop', status: 'completed', stop_reason: 'end_turn' }) };
      const relevant = Object.fromEntries(Object.entries(body).filter(([member]) => place !== 'response' || ['session_id', 'response'].includes(member)));
      const sent = await post(listeners, name, relevant);
      if (sent.http !== 200) {
        expect([sent.http, sent.body['disposition'], sent.body['next_action']]).toEqual([400, 'invalid_call', 'repair']);
        return;
      }
      taken++;
      const calls = asked[0]?.calls ?? [];
      expect(sent.body['results']).toHaveLength(calls.length);
      expect(told[name](sent.body)).toHaveLength(calls.length);
    }), { numRuns: 300 });
    expect(listeners.logged).toEqual([]);
    expect(taken).toBeGreaterThan(20);
  });
});
