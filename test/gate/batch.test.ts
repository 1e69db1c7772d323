import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Sent, unique } from '../support/gateway.js';
import { until } from '../recovery/process.js';
import { type Call, cancel, charge, create, dispositions, getSale, note, type OpenedTill, openTill, readDoc, stock, type TillHouse, writeDoc } from './till/house.js';

/**
 * A model's turn as one request: run in an order that is legal, each effect once, and one answer per call whatever happens. A call that is
 * lost leaves a conversation that no provider takes any more; a wrong order charges what was cancelled.
 */
let house: TillHouse;
let open: OpenedTill;
beforeAll(async () => {
  house = await openTill();
  open = await house.open();
});
afterAll(async () => {
  await open.gateway.close();
  await house.close();
});
const till = () => house.till;

describe('the order of writes on one entity', () => {
  it('create_transaction and charge_payment the wrong way round: both run, the right way round, one charge', async () => {
    const sale = unique('sale');
    const answered = await open.batches.batch([charge(sale, { call_id: 'c-2' }), create(sale, { call_id: 'c-1' })]);
    expect(answered.http).toBe(200);
    expect(answered.results.map(({ call_id, disposition, outcome, verified, states }) => ({ call_id, disposition, outcome, verified, states }))).toEqual([
      { call_id: 'c-2', disposition: 'executed', outcome: 'committed', verified: true, states: { [`sale:${sale}`]: 'CHARGED' } },
      { call_id: 'c-1', disposition: 'executed', outcome: 'committed', verified: true, states: { [`sale:${sale}`]: 'CREATED' } },
    ]);
    expect(till().on(sale)).toEqual(['create_transaction', 'charge_payment']);
  });

  it('with a cancel in between the illegal one is refused with what is legal, and nothing is charged', async () => {
    const sale = unique('sale');
    const answered = await open.batches.batch([create(sale), cancel(sale), charge(sale)]);
    expect(dispositions(answered)).toEqual(['executed', 'executed', 'TRANSITION_ERROR']);
    expect(answered.results[2]).toMatchObject({ status: 409, next_action: 'refresh', states: { [`sale:${sale}`]: 'CANCELLED' }, legal_actions: [], operation_id: null });
    expect(answered.results[2]?.receipts.decision).toMatch(/^rcp_/);
    expect(till().on(sale)).toEqual(['create_transaction', 'cancel_sale']);

    const other = unique('sale');
    expect(dispositions(await open.batches.batch([charge(other), cancel(other), create(other)]))).toEqual(['TRANSITION_ERROR', 'executed', 'TRANSITION_ERROR']);
    expect(till().on(other)).toEqual(['cancel_sale']);
  });

  const actions = { create, charge, cancel };
  const table: Record<string, Partial<Record<keyof typeof actions, string>>> = { NEW: { create: 'CREATED', cancel: 'CANCELLED' }, CREATED: { charge: 'CHARGED', cancel: 'CANCELLED' } };
  const permutations = <T>(list: T[]): T[][] => (list.length < 2 ? [list] : list.flatMap((one, n) => permutations(list.filter((_, other) => other !== n)).map((rest) => [one, ...rest])));

  it.each(permutations(['create', 'charge', 'cancel'] as const satisfies (keyof typeof actions)[]).concat(permutations(['create', 'charge'])))(
    'the rule in every order: %s %s %s', async (...listed) => {
      const names = listed.filter((name) => name !== undefined);
      const sale = unique('sale');
      let state = 'NEW';
      let left = [...names];
      const ran: string[] = [];
      for (let next = left.find((name) => table[state]?.[name]); next !== undefined; next = left.find((name) => table[state]?.[name])) {
        state = table[state]?.[next] as string;
        ran.push(next);
        left = left.filter((name) => name !== next);
      }
      const answered = await open.batches.batch(names.map((name) => actions[name](sale)));
      expect(dispositions(answered)).toEqual(names.map((name) => (ran.includes(name) ? 'executed' : 'TRANSITION_ERROR')));
      expect(till().on(sale).map((tool) => tool.split('_')[0])).toEqual(ran);
    });

  it('case-22: write, read, write on one document in the listed order, another document beside them', async () => {
    const [doc, other] = [unique('doc'), unique('doc')];
    const release = till().hold('write_doc');
    const answering = open.batches.batch([writeDoc(doc, 'A'), readDoc(doc), writeDoc(doc, 'B'), readDoc(other)]);
    const seen = till().requests.length;
    await until(() => till().requests.slice(seen).filter((request) => request === 'GET doc').length >= 2 && till().requests.slice(seen).includes('write_doc'), 5_000);
    release();
    const answered = await answering;
    expect(dispositions(answered)).toEqual(['executed', 'executed', 'executed', 'executed']);
    expect(answered.results.map(({ result }) => (result as { text?: string }).text)).toEqual([undefined, 'A', undefined, '']);
    expect(till().effects.filter(({ id }) => id === doc).map(({ body }) => body['text'])).toEqual(['A', 'B']);
  });

  it('a read of an entity comes after the writes that are listed before it, also where those were put in order', async () => {
    const sale = unique('sale');
    const answered = await open.batches.batch([getSale(sale), charge(sale), getSale(sale), create(sale), getSale(sale)]);
    expect(answered.results.flatMap(({ tool, result }) => (tool === 'get_sale' ? [(result as { status: string }).status] : []))).toEqual(['NEW', 'CHARGED', 'CHARGED']);
  });

  it('a read of no entity comes after every write that is listed before it', async () => {
    const [one, two] = [unique('doc'), unique('doc')];
    const before = till().effects.length;
    const release = till().hold('write_doc');
    const answering = open.batches.batch([{ tool: 'list_all', arguments: {} }, writeDoc(one, 'A'), writeDoc(two, 'A'), { tool: 'list_all', arguments: {} }]);
    const seen = till().requests.length;
    await until(() => till().requests.slice(seen).filter((request) => request === 'write_doc').length === 2, 5_000); // both documents at once
    release();
    const answered = await answering;
    expect([answered.results[0]?.result, answered.results[3]?.result]).toEqual([{ effects: before }, { effects: before + 2 }]);
  });

  it('a listed order that is legal costs no observation beyond those of its calls', async () => {
    const reads = async (calls: number, run: () => Promise<unknown>): Promise<number> => {
      const seen = till().requests.length;
      await run();
      return till().requests.slice(seen).filter((request) => request === 'GET sale').length / calls;
    };
    const [a, b] = [unique('sale'), unique('sale')];
    const alone = await reads(2, async () => {
      for (const { call_id, tool, arguments: args } of [create(a), charge(a)]) await open.agent.call({ session_id: a, call_id, tool, arguments: args });
    });
    expect(await reads(2, () => open.batches.batch([create(b), charge(b)]))).toBe(alone);
  });
});

describe('a predecessor that did not commit', () => {
  it('skips the writes after it on that entity and nothing else; reads after it run', async () => {
    const [doc, other] = [unique('doc'), unique('doc')];
    till().fault('write_doc', 'refuse');
    const answered = await open.batches.batch([writeDoc(doc, 'A'), readDoc(doc), writeDoc(doc, 'B'), writeDoc(doc, 'C')]);
    expect(dispositions(answered)).toEqual(['NOT_LIKE_THAT', 'executed', 'PREDECESSOR_FAILED', 'PREDECESSOR_FAILED']);
    expect(answered.results[2]).toMatchObject({ disposition: 'precondition_failed', status: 409, next_action: 'refresh', outcome: null, operation_id: null });
    expect(answered.results[2]?.receipts.decision).toMatch(/^rcp_/);
    expect(till().on(doc)).toEqual([]);
    expect(dispositions(await open.batches.batch([writeDoc(other, 'A')]))).toEqual(['executed']);
  });

  it('is any refusal of a write whose entity is known, also of its arguments', async () => {
    const doc = unique('doc');
    const wrong = writeDoc(doc, 'A', { arguments: { doc_id: doc, text: 'x'.repeat(201) } });
    expect(dispositions(await open.batches.batch([wrong, writeDoc(doc, 'B')]))).toEqual(['INVALID_ARGUMENTS', 'PREDECESSOR_FAILED']);
    const denied = writeDoc(doc, 'forbidden');
    const answered = await open.batches.batch([denied, writeDoc(doc, 'B')]);
    expect(answered.results.map(({ disposition }) => disposition)).toEqual(['denied', 'precondition_failed']);
    expect(till().on(doc)).toEqual([]);
  });

  it('reaches on over entities that a skipped write would have changed', async () => {
    const [doc, shelf] = [unique('doc'), unique('shelf')];
    till().fault('write_doc', 'refuse');
    const answered = await open.batches.batch([
      writeDoc(doc, 'A'), { tool: 'file_doc', arguments: { doc_id: doc, shelf_id: shelf } }, { tool: 'label_shelf', arguments: { shelf_id: shelf, text: 'L' } },
    ]);
    expect(dispositions(answered)).toEqual(['NOT_LIKE_THAT', 'PREDECESSOR_FAILED', 'PREDECESSOR_FAILED']);
    expect([...till().on(doc), ...till().on(shelf)]).toEqual([]);
  });

  it('has no entity where it is no call of a tool of this caller, and then skips nothing', async () => {
    const doc = unique('doc');
    const answered = await open.batches.batch([{ tool: 'wipe_doc', arguments: { doc_id: doc } }, { tool: 'write_doc', arguments: '{"doc_id":"' }, writeDoc(doc, 'A')]);
    expect(dispositions(answered)).toEqual(['BLOCKED_TOOL', 'MALFORMED_JSON', 'executed']);
  });

  it('that is not settled makes those after it wait, under the same ids, and all run once when they are sent again', async () => {
    const doc = unique('doc');
    const release = till().hold('write_doc');
    const calls = [writeDoc(doc, 'A'), writeDoc(doc, 'B'), readDoc(doc)];
    const session = unique('s');
    const first = await open.batches.batch(calls, { session_id: session }, { prefer: 'wait=1' });
    expect(dispositions(first).slice(0, 2)).toEqual(['unknown', 'PREDECESSOR_UNKNOWN']);
    expect(first.results[1]).toMatchObject({ status: 409, next_action: 'wait', operation_id: null });
    expect(first.results[2]).toMatchObject({ disposition: 'in_progress', code: 'NOT_BEGUN', next_action: 'wait' });
    release();
    await open.agent.settled(first.results[0]?.operation_id as string);
    const again = await open.batches.batch(calls, { session_id: session });
    expect(dispositions(again)).toEqual(['replayed', 'executed', 'executed']);
    expect(till().effects.filter(({ id }) => id === doc).map(({ body }) => body['text'])).toEqual(['A', 'B']);
  });

  it('that was lost on the way is read back, and the next one runs on what it left', async () => {
    const sale = unique('sale');
    till().fault('create_transaction', 'drop_after');
    expect(dispositions(await open.batches.batch([charge(sale), create(sale)]))).toEqual(['executed', 'executed']);
    expect(till().on(sale)).toEqual(['create_transaction', 'charge_payment']);
  });

  it('binds neither id nor fingerprint to those that it skipped', async () => {
    const doc = unique('doc');
    const session = unique('s');
    till().fault('write_doc', 'refuse');
    expect(dispositions(await open.batches.batch([writeDoc(doc, 'A'), writeDoc(doc, 'B', { call_id: 'b' })], { session_id: session }))[1]).toBe('PREDECESSOR_FAILED');
    expect(dispositions(await open.batches.batch([writeDoc(doc, 'C', { call_id: 'b' })], { session_id: session }))).toEqual(['executed']);
  });
});

describe('ids', () => {
  it('case-19: missing, empty and repeated ids: every call runs, each is answered under the id that came, and a batch sent again is replayed', async () => {
    const t = unique('t');
    const calls = [note(`${t} one`, { call_id: '' }), note(`${t} two`, { call_id: '' }), note(`${t} three`, { call_id: 'x:1' }), note(`${t} four`, { call_id: 'x:1' }), note(`${t} five`)];
    const session = unique('s');
    const answered = await open.batches.batch(calls, { session_id: session });
    expect(dispositions(answered)).toEqual(Array(5).fill('executed'));
    expect(answered.results.slice(2, 4).map(({ call_id }) => call_id)).toEqual(['x:1', 'x:1']);
    const minted = [0, 1, 4].map((position) => answered.results[position]?.call_id);
    expect(new Set(minted).size).toBe(3);
    for (const id of minted) expect(id).toMatch(/^call_/);
    const notes = () => till().effects.filter(({ body }) => String(body['t']).startsWith(t));
    expect(notes()).toHaveLength(5);

    const named = calls.filter(({ call_id }) => call_id === 'x:1');
    expect(dispositions(await open.batches.batch(named, { session_id: session }))).toEqual(['replayed', 'replayed']);
    expect(notes()).toHaveLength(5);
  });

  it('an id means the same call over requests: alone or in a batch, and other arguments are a conflict', async () => {
    const session = unique('s');
    const doc = unique('doc');
    expect(dispositions(await open.batches.batch([writeDoc(doc, 'A', { call_id: 'a' }), writeDoc(doc, 'B', { call_id: 'a' })], { session_id: session }))).toEqual(['executed', 'executed']);
    expect(await open.agent.call({ session_id: session, ...writeDoc(doc, 'A', { call_id: 'a' }) })).toMatchObject({ disposition: 'replayed' });
    expect(dispositions(await open.batches.batch([writeDoc(doc, 'C', { call_id: 'a' }), writeDoc(doc, 'C', { call_id: 'a' })], { session_id: session }))).toEqual(['ID_CONFLICT', 'ID_CONFLICT']);
  });

  it('case-06: equal writes of one turn are one effect, each id with its own answer; a meant repeat runs after the first', async () => {
    const sku = unique('sku');
    const answered = await open.batches.batch([stock(sku, { call_id: 'c', occurrence: 2 }), stock(sku, { call_id: 'a' }), stock(sku, { call_id: 'b' })]);
    expect(answered.results.map(({ call_id, disposition, duplicate_of }) => [call_id, disposition, duplicate_of])).toEqual([['c', 'executed', undefined], ['a', 'executed', undefined], ['b', 'replayed', 'a']]);
    expect(answered.results[1]?.operation_id).toBe(answered.results[2]?.operation_id);
    expect(till().on(sku)).toEqual(['add_stock', 'add_stock']);
  });

  it('case-06: also where the contract tells calls apart by their ids, and also when the batch comes again', async () => {
    const t = unique('t');
    const session = unique('s');
    const calls = [note(t, { call_id: '' }), note(t, { call_id: 'b' }), note(t, { call_id: 'c' })];
    const ids = ({ results }: { results: { disposition: string; duplicate_of?: string }[] }) => results.map(({ disposition }) => disposition);
    expect(ids(await open.batches.batch(calls, { session_id: session }))).toEqual(['executed', 'replayed', 'replayed']);
    expect(ids(await open.batches.batch(calls, { session_id: session }))).toEqual(['replayed', 'replayed', 'replayed']);
    expect(till().effects.filter(({ body }) => body['t'] === t)).toHaveLength(1);
    expect(ids(await open.batches.batch([note(t, { call_id: 'd' })], { session_id: session }))).toEqual(['executed']);
  });
});

describe('one answer per call', () => {
  it('a member that is wrong refuses its own call alone, whatever it is', async () => {
    const wrong: unknown[] = [null, 7, 'text', [], {}, { tool: 'add_note' }, { tool: 'add_note', arguments: 7 }, { tool: '', arguments: {} }, { ...note('x'), extra: 1 }, { ...note('x'), session_id: 's' },
      { ...note('x'), call_id: 7 }, { ...note('x'), occurrence: 0 }, { ...note('x'), contract: '9.9.9' }, { ...note('a\u0000b') }];
    await fc.assert(fc.asyncProperty(fc.array(fc.constantFrom(...wrong), { minLength: 1, maxLength: 5 }), fc.nat(), async (bad, place) => {
      const doc = unique('doc');
      const calls = [...bad] as Call[];
      calls.splice(place % (bad.length + 1), 0, writeDoc(doc, 'A'));
      const answered = await open.batches.batch(calls);
      expect(answered.http).toBe(200);
      expect(answered.results.map(({ disposition }) => (disposition === 'executed' ? 'executed' : disposition.startsWith('invalid_') ? 'invalid' : disposition)))
        .toEqual(calls.map((call) => (bad.includes(call) ? 'invalid' : 'executed')));
      for (const { call_id } of answered.results) expect(typeof call_id).toBe('string');
    }), { numRuns: 15 });
  });

  it('a batch that is none is refused whole, and nothing runs', async () => {
    const t = unique('t');
    const one = note(t);
    const bodies: [string, string, number][] = [
      ['{"session_id":"s","calls":[', 'MALFORMED_JSON', 400],
      [JSON.stringify({ session_id: 's', calls: [one] }).replace('{"t"', '{"t":"x","t"'), 'DUPLICATE_KEY', 400],
      [JSON.stringify({ calls: [one] }), 'INVALID_ENVELOPE', 400],
      [JSON.stringify({ session_id: 's' }), 'INVALID_ENVELOPE', 400],
      [JSON.stringify({ session_id: 's', calls: {} }), 'INVALID_ENVELOPE', 400],
      [JSON.stringify({ session_id: 's', calls: [one], call: [] }), 'INVALID_ENVELOPE', 400],
      [JSON.stringify([one]), 'INVALID_ENVELOPE', 400],
      [JSON.stringify({ session_id: 's', calls: Array(21).fill(one) }), 'TOO_MANY_CALLS', 400],
      [JSON.stringify({ session_id: 's', calls: [{ ...one, arguments: { t: 'x'.repeat(300_000) } }] }), 'BODY_TOO_LARGE', 413],
    ];
    for (const [body, code, status] of bodies) expect(await open.batches.post('/v1/batches', body)).toMatchObject({ http: status, code, disposition: 'invalid_call' });
    expect(await open.batches.batch([one], {}, { 'idempotency-key': 'k' })).toMatchObject({ http: 400, code: 'INVALID_ENVELOPE' });
    expect(till().effects.filter(({ body }) => body['t'] === t)).toEqual([]);
    expect(await open.batches.batch([])).toMatchObject({ http: 200, results: [] });
    expect((await open.batches.batch(Array.from({ length: 20 }, (_, n) => note(`${t} ${n}`)))).results).toHaveLength(20);
  });

  it('case-21: a client that hangs up ends nothing, and finds every result when it comes again', async () => {
    const [doc, other] = [unique('doc'), unique('doc')];
    const session = unique('s');
    const calls = [writeDoc(doc, 'A'), writeDoc(doc, 'B'), writeDoc(other, 'A')];
    const release = till().hold('write_doc');
    const seen = till().requests.length;
    const hangup = new AbortController();
    const gone = fetch(`${open.batches.url}/v1/batches`, {
      method: 'POST', signal: hangup.signal, body: JSON.stringify({ session_id: session, calls }), headers: { authorization: `Bearer ${open.batches.key}`, 'content-type': 'application/json' },
    });
    await until(() => till().requests.slice(seen).filter((request) => request === 'write_doc').length === 2, 5_000);
    hangup.abort();
    await expect(gone).rejects.toThrow();
    release();
    await until(() => till().on(doc).length === 2 && till().on(other).length === 1, 5_000);
    expect(dispositions(await open.batches.batch(calls, { session_id: session }))).toEqual(['replayed', 'replayed', 'replayed']);
    expect([...till().on(doc), ...till().on(other)]).toHaveLength(3);
  });

  it('what a write may have changed besides its own entity is no conflict for the same session afterwards', async () => {
    const [doc, shelf] = [unique('doc'), unique('shelf')];
    const session = unique('s');
    const propose = (tool: string, args: object): Promise<Sent> => open.agent.call({ session_id: session, tool, arguments: args });
    await propose('read_shelf', { shelf_id: shelf });
    expect(await propose('file_doc', { doc_id: doc, shelf_id: shelf })).toMatchObject({ disposition: 'executed' });
    expect(await propose('label_shelf', { shelf_id: shelf, text: 'red' })).toMatchObject({ disposition: 'executed' });
    await propose('read_shelf', { shelf_id: shelf });
    till().change('shelf', shelf, { text: 'theirs' });
    expect(await propose('label_shelf', { shelf_id: shelf, text: 'blue' })).toMatchObject({ code: 'VERSION_CONFLICT' });
  });

  it('an expected version that a write of the same turn moved on is no conflict; one that somebody else moved on is', async () => {
    const doc = unique('doc');
    const session = unique('s');
    await open.agent.call({ session_id: session, ...readDoc(doc) });
    const both = [writeDoc(doc, 'A', { expected_version: '0' }), writeDoc(doc, 'B', { expected_version: '0' })];
    expect(dispositions(await open.batches.batch(both, { session_id: session }))).toEqual(['executed', 'executed']);
    till().change('doc', doc, { text: 'theirs' });
    expect(dispositions(await open.batches.batch([writeDoc(doc, 'C'), writeDoc(doc, 'D')], { session_id: session }))).toEqual(['VERSION_CONFLICT', 'PREDECESSOR_FAILED']);
    expect(dispositions(await open.batches.batch([writeDoc(doc, 'C', { expected_version: '2' })], { session_id: session }))).toEqual(['VERSION_CONFLICT']);
  });

  it('a write that a turn made before it was cut short moves nothing on when the turn comes again: what others did since is a conflict', async () => {
    const doc = unique('doc');
    const session = unique('s');
    const both = [writeDoc(doc, 'A', { expected_version: '0' }), writeDoc(doc, 'B', { expected_version: '0' })];
    expect(dispositions(await open.batches.batch(both.slice(0, 1), { session_id: session, turn_id: 't' }))).toEqual(['executed']);
    till().change('doc', doc, { text: 'theirs' });
    expect(dispositions(await open.batches.batch(both, { session_id: session, turn_id: 't' }))).toEqual(['replayed', 'VERSION_CONFLICT']);
  });
});
