import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type House, type Opened, openGateway, openHouse, type Sent, unique } from '../support/gateway.js';
import { contractsWith, HeldAgent } from './guarded.js';

/**
 * Stage 1 and the shape half of stage 2: what is not exactly one well-formed call with exactly the arguments of its tool is refused
 * with the place and the mend, and the service never hears of it. Whoever guesses here executes something that nobody asked for.
 */
let house: House;
let open: Opened;
let agent: HeldAgent;
beforeAll(async () => {
  house = await openHouse(contractsWith([
    ['        currency: { enum: [GBP] }\n      required: [order_id, amount, currency]',
      `        currency: { enum: [GBP] }
        note: { type: string, maxLength: 60000 }
        lines: { type: array, maxItems: 5, items: { type: object, properties: { sku: { type: string, maxLength: 50 }, qty: { type: integer } }, required: [sku] } }
      required: [order_id, amount, currency]`],
  ]));
  open = await openGateway(house);
  agent = new HeldAgent(open.gateway.agentUrl, house.keys.agent);
});
afterAll(async () => {
  await open.gateway.close();
  await house.close();
});
beforeEach(() => house.shop.reset());

const requests = async (): Promise<number> => Object.values((await house.shop.books()).requests).reduce((sum, n) => sum + n, 0);
const untouched = async (): Promise<void> => expect(await requests()).toBe(0);
const post = (body: string | Buffer, headers = {}): Promise<Sent> => agent.post('/v1/calls', body, headers);

const args = { order_id: 'O-417', amount: 2500, currency: 'GBP' };
const body = (change: object = {}, given: unknown = args): Record<string, unknown> => ({ session_id: unique('s'), call_id: 'c-1', tool: 'issue_credit', arguments: given, ...change });
const text = (given: string): string => `{"session_id":"${unique('s')}","call_id":"c-1","tool":"issue_credit","arguments":${given}}`;
const withArgs = (given: object): Promise<Sent> => agent.call(body({}, { ...args, ...given }));

describe('bytes that are not one well-formed call', () => {
  const whole = JSON.stringify({ session_id: 's', tool: 'issue_credit', arguments: args });
  const wrong: [string, string | Buffer, string, number][] = [
    ['no body at all', '', 'MALFORMED_JSON', 400],
    ['white space', '  \n', 'MALFORMED_JSON', 400],
    ['a word', 'hello', 'MALFORMED_JSON', 400],
    ['text after the object', `${whole}x`, 'MALFORMED_JSON', 400],
    ['two objects', whole + whole, 'MALFORMED_JSON', 400],
    ['case-27: an end that was cut off', whole.slice(0, -5), 'MALFORMED_JSON', 400],
    ['a trailing comma', whole.replace('}}', '},}'), 'MALFORMED_JSON', 400],
    ['a comment', `/* */${whole}`, 'MALFORMED_JSON', 400],
    ['NaN', text('{"amount":NaN}'), 'MALFORMED_JSON', 400],
    ['a byte order mark', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(whole)]), 'MALFORMED_JSON', 400],
    ['UTF-16', Buffer.from(whole, 'utf16le'), 'MALFORMED_JSON', 400],
    ['invalid UTF-8', Buffer.from(whole.replace('O-417', 'O-\xff'), 'latin1'), 'MALFORMED_JSON', 400],
    ['an array', `[${whole}]`, 'INVALID_ENVELOPE', 400],
    ['null', 'null', 'INVALID_ENVELOPE', 400],
    ['a number', '7', 'INVALID_ENVELOPE', 400],
    ['a text', JSON.stringify(whole), 'INVALID_ENVELOPE', 400],
    ['case-33: a member named twice', whole.replace('{', '{"tool":"get_order",'), 'DUPLICATE_KEY', 400],
    ['case-33: an argument named twice', text('{"order_id":"O-417","amount":5,"amount":5000,"currency":"GBP"}'), 'DUPLICATE_KEY', 400],
    ['case-33: an argument named twice, once with an escape', text('{"order_id":"O-417","amount":5,"\\u0061mount":5000,"currency":"GBP"}'), 'DUPLICATE_KEY', 400],
    ['case-33: a key named twice far below', text('{"a":[{"b":{"c":[{"d":1,"d":1}]}}]}'), 'DUPLICATE_KEY', 400],
    ['case-33: a key named twice in arguments as text', text(JSON.stringify('{"amount":1,"amount":2}')), 'DUPLICATE_KEY', 400],
    ['1e999', text('{"order_id":"O-417","amount":1e999,"currency":"GBP"}'), 'NUMBER_NOT_FINITE', 400],
    ['-1e999 in arguments as text', text('"{\\"amount\\":-1e999}"'), 'NUMBER_NOT_FINITE', 400],
    ['case-34: 20,000 brackets', '['.repeat(20_000), 'TOO_DEEP', 400],
    ['case-34: 20,000 brackets as an argument', text('['.repeat(20_000)), 'TOO_DEEP', 400],
    ['case-34: 20,000 brackets in arguments as text', text(JSON.stringify(`{"a":${'['.repeat(20_000)}`)), 'TOO_DEEP', 400],
    ['case-29: an integer above 2^53', text('{"order_id":"O-417","amount":9007199254740993,"currency":"GBP"}'), 'INTEGER_PRECISION', 422],
    ['case-29: a 19-digit integer in arguments as text', text('"{\\"amount\\":7301299420421230017}"'), 'INTEGER_PRECISION', 422],
    ['case-29: an integer above 2^53 among the members', whole.replace('{', '{"occurrence":9007199254740993,'), 'INTEGER_PRECISION', 422],
    ['case-34: 5 MiB', JSON.stringify({ ...JSON.parse(whole), arguments: { ...args, note: 'x'.repeat(5 * 1024 * 1024) } }), 'BODY_TOO_LARGE', 413],
    ['case-34: arguments beyond their limit', JSON.stringify({ ...JSON.parse(whole), arguments: { ...args, note: 'x'.repeat(70_000) } }), 'ARGUMENTS_TOO_LARGE', 413],
    ['case-34: arguments as text beyond their limit', JSON.stringify({ ...JSON.parse(whole), arguments: JSON.stringify({ ...args, note: 'x'.repeat(70_000) }) }), 'ARGUMENTS_TOO_LARGE', 413],
    ['case-27: arguments as text, cut off', text(JSON.stringify('{"order_id":"O-417","amount":25')), 'MALFORMED_JSON', 400],
    ['arguments as empty text', text('""'), 'MALFORMED_JSON', 400],
  ];
  it.each(wrong)('%s is refused, without a receipt and without a request', async (_, bytes, code, http) => {
    const answer = await post(bytes);
    expect(answer).toMatchObject({ http, code, next_action: 'repair', receipts: { decision: null, effect: null }, result: null });
    await untouched();
  });

  it.each([['text/plain'], ['application/x-www-form-urlencoded'], ['application/jsonx'], ['']])('a body of type %j is refused', async (type) => {
    expect(await post(JSON.stringify(body()), { 'content-type': type })).toMatchObject({ http: 400, code: 'UNSUPPORTED_MEDIA_TYPE', next_action: 'repair' });
    await untouched();
  });

  it('a charset beside the type has no effect, as RFC 8259 has it: the bytes are UTF-8 or nothing', async () => {
    const given = JSON.stringify(body());
    expect(await post(Buffer.from(given, 'utf16le'), { 'content-type': 'application/json; charset=utf-16' })).toMatchObject({ code: 'MALFORMED_JSON' });
    await untouched();
    expect(await post(given, { 'content-type': 'application/json; charset=utf-16' })).toMatchObject({ disposition: 'executed' });
  });

  it('the pointer names the place of a duplicate', async () => {
    expect(await post(text('{"a":[{"b":1,"b":2}]}'))).toMatchObject({ errors: [{ pointer: '/arguments/a/0/b', code: 'duplicate_key' }] });
    expect(await post(text(JSON.stringify('{"a":[{"b":1,"b":2}]}')))).toMatchObject({ errors: [{ pointer: '/arguments/a/0/b', code: 'duplicate_key' }] });
  });
});

describe('members around the arguments', () => {
  it('a misspelt one is told with the nearest, several at once', async () => {
    const answer = await agent.call({ ...body(), intentid: 'i', ocurrence: 2 });
    expect(answer).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    expect(answer.errors).toEqual(expect.arrayContaining([
      expect.objectContaining({ pointer: '/intentid', code: 'unknown_member', nearest: 'intent_id' }),
      expect.objectContaining({ pointer: '/ocurrence', code: 'unknown_member', nearest: 'occurrence' }),
    ]));
    await untouched();
  });

  it.each([
    ['without a session', { session_id: undefined }, '/session_id', 'required'],
    ['with an empty session', { session_id: '' }, '/session_id', 'type'],
    ['without a tool', { tool: undefined }, '/tool', 'required'],
    ['without arguments', { arguments: undefined }, '/arguments', 'required'],
    ['with arguments that are a list', { arguments: [] }, '/arguments', 'type'],
    ['with arguments that are null', { arguments: null }, '/arguments', 'type'],
    ['with a number for a call id', { call_id: 7 }, '/call_id', 'type'],
    ['with null for a call id', { call_id: null }, '/call_id', 'type'],
    ['with occurrence 0', { occurrence: 0 }, '/occurrence', 'type'],
    ['with a fraction of an occurrence', { occurrence: 1.5 }, '/occurrence', 'type'],
    ['with a member that is called __proto__', JSON.parse('{"__proto__": {"tool": "x"}}'), '/__proto__', 'unknown_member'],
    ['with a member that is called constructor', { constructor: 1 }, '/constructor', 'unknown_member'],
    ['case-32: with NUL in an id', { session_id: 'a\0b' }, '/session_id', 'unstorable_text'],
    ['case-32: with a lone surrogate in an id', { call_id: 'a\ud83d' }, '/call_id', 'unstorable_text'],
    ['case-32: with NUL in a tool’s name', { tool: 'get\0order' }, '/tool', 'unstorable_text'],
  ])('%s the call is refused and its place is named', async (_, change, pointer, code) => {
    const given = body();
    for (const [name, value] of Object.entries(change as object)) Object.defineProperty(given, name, { value, enumerable: true, configurable: true, writable: true });
    const answer = await post(JSON.stringify(given));
    expect(answer).toMatchObject({ http: 400, disposition: 'invalid_call', code: 'INVALID_ENVELOPE' });
    expect(answer.errors).toEqual(expect.arrayContaining([expect.objectContaining({ pointer, code })]));
    await untouched();
  });

  it('20,000 unknown ones are refused, and only the first are told', async () => {
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`m${n}`, 0]));
    const answer = await agent.call({ ...body(), ...many });
    expect(answer).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    expect(answer.errors?.length).toBeLessThanOrEqual(20);
    await untouched();
  });

  it('a contract that is pinned must be the one that is served', async () => {
    const pinned = await agent.call(body({ contract: '3.1.0' }));
    expect(pinned).toMatchObject({ disposition: 'executed' });
    expect(await agent.call(body({ contract: pinned.contract?.digest }, { ...args, amount: 100 }))).toMatchObject({ disposition: 'executed' });
    await house.shop.reset();
    for (const contract of ['3.0.0', `sha256:${'0'.repeat(64)}`]) expect(await agent.call(body({ contract }))).toMatchObject({ http: 400, code: 'CONTRACT_NOT_SERVED' });
    await untouched();
  });
});

describe('arguments', () => {
  it.each<[string, object, { pointer: string; code: string; nearest?: string }]>([
    ['case-25: an unknown one, with the nearest name', { ammount: 1 }, { pointer: '/ammount', code: 'unknown_argument', nearest: 'amount' }],
    ['case-25: an unknown one below', { lines: [{ sku: 'a', quantity: 1 }] }, { pointer: '/lines/0/quantity', code: 'unknown_argument' }],
    ['an unknown one whose name has a line break', { 'a\nb': 1 }, { pointer: '/a\nb', code: 'unknown_argument' }],
    ['one that is called constructor', { constructor: 1 }, { pointer: '/constructor', code: 'unknown_argument' }],
    ['a bound one, which is never the model’s to give', { customer_id: 'C-90' }, { pointer: '/customer_id', code: 'unknown_argument' }],
    ['case-30: a number as text', { amount: '2500' }, { pointer: '/amount', code: 'type' }],
    ['case-30: a text as a number', { order_id: 417 }, { pointer: '/order_id', code: 'type' }],
    ['a fraction where an integer is asked for', { amount: 25.5 }, { pointer: '/amount', code: 'type' }],
    ['case-29: an integer spelt with an exponent beyond 2^53', { amount: 1e21 }, { pointer: '/amount', code: 'integer_precision' }],
    ['null', { currency: null }, { pointer: '/currency', code: 'enum' }],
    ['one beyond its bounds', { amount: 0 }, { pointer: '/amount', code: 'minimum' }],
    ['one off its pattern', { order_id: 'O-417/../../admin' }, { pointer: '/order_id', code: 'pattern' }],
    ['one off its pattern by a line break at the end', { order_id: 'O-417\n' }, { pointer: '/order_id', code: 'pattern' }],
    ['case-32: NUL', { note: 'ok \0 end' }, { pointer: '/note', code: 'unstorable_text' }],
    ['case-32: a lone surrogate', { note: '😀 \ud83d' }, { pointer: '/note', code: 'unstorable_text' }],
    ['case-32: NUL in a name', { 'a\0b': 1 }, { pointer: '/a␀b', code: 'unstorable_text' }],
    ['case-32: a lone surrogate in a name', { '\ud800': 1 }, { pointer: '/\ufffd', code: 'unstorable_text' }],
    ['case-32: NUL within a list that came as text', { lines: JSON.stringify([{ sku: 'a\0' }]) }, { pointer: '/lines/0/sku', code: 'unstorable_text' }],
    ['case-32: a lone surrogate within a list that came as text', { lines: '[{"sku":"\\ud800"}]' }, { pointer: '/lines/0/sku', code: 'unstorable_text' }],
    ['case-26: a list as text that is cut off', { lines: '[{"sku":"a"' }, { pointer: '/lines', code: 'type' }],
    ['case-33: a list as text that names a key twice', { lines: '[{"sku":"a","sku":"b"}]' }, { pointer: '/lines', code: 'type' }],
    ['case-26: a list as text within text', { lines: JSON.stringify(JSON.stringify([{ sku: 'a' }])) }, { pointer: '/lines', code: 'type' }],
  ])('%s: refused with its place, with a receipt, without a request', async (_, change, error) => {
    const answer = await withArgs(change);
    expect(answer).toMatchObject({ http: 422, disposition: 'invalid_arguments', next_action: 'repair', receipts: { decision: expect.stringMatching(/^rcp_/) } });
    expect(answer.errors).toEqual(expect.arrayContaining([expect.objectContaining(error)]));
    await untouched();
  });

  it('one that is called __proto__ is an unknown argument like any other', async () => {
    const answer = await post(text('{"order_id":"O-417","amount":2500,"currency":"GBP","__proto__":{"amount":1}}'));
    expect(answer).toMatchObject({ http: 422, errors: [{ pointer: '/__proto__', code: 'unknown_argument' }] });
    await untouched();
  });

  it('a missing one is named, and nothing takes its place', async () => {
    expect(await agent.call(body({}, { order_id: 'O-417' }))).toMatchObject({
      http: 422, errors: expect.arrayContaining([expect.objectContaining({ pointer: '/amount', code: 'required' }), expect.objectContaining({ pointer: '/currency', code: 'required' })]),
    });
    await untouched();
  });

  it('case-26: as text, outer and nested, are unwrapped once, told in `repaired`, and are the same call as the plain ones', async () => {
    const session = unique('s');
    const lines = [{ sku: 'a', qty: 1 }];
    const plain = await agent.call(body({ session_id: session }, { ...args, lines }));
    expect(plain).toMatchObject({ disposition: 'executed', repaired: [] });
    const outer = await agent.call(body({ session_id: session }, JSON.stringify({ ...args, lines })));
    const nested = await agent.call(body({ session_id: session }, { ...args, lines: JSON.stringify(lines) }));
    const both = await agent.call(body({ session_id: session }, JSON.stringify({ ...args, lines: JSON.stringify(lines) })));
    for (const answer of [outer, nested, both]) expect(answer).toMatchObject({ disposition: 'replayed', operation_id: plain.operation_id });
    expect(nested.repaired).toEqual(['/lines']);
    expect((await house.shop.books()).credits).toHaveLength(1);
  });

  it('case-26: a text argument that looks like JSON stays the text it is', async () => {
    const answer = await withArgs({ note: '{"a":1}' });
    expect(answer).toMatchObject({ disposition: 'executed', repaired: [] });
    const receipt = await open.control().get(`/v1/receipts/${answer.receipts.decision}`);
    expect(JSON.stringify(receipt)).toContain(JSON.stringify(JSON.stringify({ a: 1 })).slice(1, -1));
  });

  it('case-32: emoji, combining characters and a text of the greatest length pass unchanged', async () => {
    const note = `e\u0301 😀 ${'x'.repeat(50_000)}`;
    const answer = await withArgs({ note });
    expect(answer).toMatchObject({ disposition: 'executed' });
    const receipt = JSON.stringify(await open.control().get(`/v1/receipts/${answer.receipts.decision}`));
    expect(receipt).toContain('e\u0301 😀');
  });
});

describe('whatever bytes come', () => {
  /** A valid call with bytes taken out, put in, doubled or overwritten. */
  const mutated = fc.tuple(fc.constant(JSON.stringify(body({ session_id: 's' }))), fc.array(fc.record({ at: fc.nat(200), cut: fc.nat(8), put: fc.uint8Array({ maxLength: 4 }) }), { minLength: 1, maxLength: 4 }))
    .map(([start, edits]) => edits.reduce((bytes, { at, cut, put }) => Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)]), Buffer.from(start)));
  const json = fc.json({ maxDepth: 6 }).map((given) => Buffer.from(given));
  const asArguments = fc.json({ maxDepth: 4 }).map((given) => Buffer.from(text(given)));

  it('a body that is not a valid call is a problem document below 500, and the service hears nothing', async () => {
    await fc.assert(fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)), json, asArguments, mutated), async (bytes) => {
      await house.shop.reset();
      const answer = await post(bytes);
      if (answer.http === 200) return; // the mutation was in a text where any will do, for instance the session
      expect(answer.http).toBeLessThan(500);
      expect(answer.type).toBe(`/docs/problems/${answer.code}`);
      const { requests: made, credits } = await house.shop.books();
      expect(credits).toEqual([]);
      if (['invalid_call', 'invalid_arguments', 'blocked_tool'].includes(answer.disposition)) expect(made).toEqual(Object.fromEntries(Object.keys(made).map((route) => [route, 0])));
    }), { numRuns: 250 });
  });
});
