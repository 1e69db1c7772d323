import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Answer, Json, Principal } from '../../src/model.js';
import type { AgentDoor, TurnAnswer, TurnCall } from '../../src/ports.js';
import { unique } from '../support/gateway.js';
import { type Call, charge, create, getSale, note, type OpenedTill, openTill, readDoc, type TillHouse, writeDoc } from './till/house.js';

/**
 * The door that the dialects use. Providers repeat call ids and cut turns: by its id alone a call would be answered with another one's
 * result, and half a turn would write half of what was meant.
 */
let house: TillHouse;
let open: OpenedTill;
let door: AgentDoor;
beforeAll(async () => {
  house = await openTill();
  open = await house.open({}, { door: (given) => { door = given; return given; } });
});
afterAll(async () => {
  await open.gateway.close();
  await house.close();
});

const principal: Principal = { tenant: 'acme', id: 'agent-1', roles: ['agent'], subject: 'C-17', purposes: [], tools: '*', grants: { assertSubject: false, ownKeys: false } };
const send = (calls: (Call | TurnCall)[], members: Record<string, Json> = {}, cut: string | null = null): Promise<TurnAnswer> => door.turn({
  principal, members: { session_id: unique('s'), ...members }, calls: calls.map((call) => ('unusable' in call || 'members' in call ? (call as TurnCall) : { members: call as Json })), cut,
});
const results = async (...given: Parameters<typeof send>): Promise<Answer[]> => {
  const answered = await send(...given);
  if ('refused' in answered) throw new Error(JSON.stringify(answered.refused));
  return answered.results;
};
const told = (answers: Answer[]): (string | undefined)[] => answers.map(({ disposition, code }) => code ?? disposition);

it('case-19: a call is (turn, position): ids that repeat within and over turns are labels', async () => {
  const session_id = unique('s');
  const t = unique('t');
  const notes = () => house.till.effects.filter(({ body }) => String(body['t']).startsWith(t)).length;
  const turn = ['one', 'two', 'three'].map((n) => note(`${t} ${n}`, { call_id: 'call_0' }));
  expect(told(await results(turn, { session_id, turn_id: 'resp_1' }))).toEqual(['executed', 'executed', 'executed']);
  expect((await results(turn, { session_id, turn_id: 'resp_1' })).map(({ disposition, call_id }) => [disposition, call_id])).toEqual(Array(3).fill(['replayed', 'call_0']));
  expect(notes()).toBe(3);
  expect(told(await results(turn, { session_id, turn_id: 'resp_2' }))).toEqual(['executed', 'executed', 'executed']);
  expect(notes()).toBe(6);
  expect(told(await results([note(`${t} four`, { call_id: 'call_0' })], { session_id, turn_id: 'resp_1' }))).toEqual(['ID_CONFLICT']);
});

it('a read of a turn that comes again is replayed; of one without an id it is read again, and its writes are known by what they mean', async () => {
  const doc = unique('doc');
  const session_id = unique('s');
  expect(told(await results([readDoc(doc), writeDoc(doc, 'A')], { session_id, turn_id: 'resp_1' }))).toEqual(['executed', 'executed']);
  expect(told(await results([readDoc(doc), writeDoc(doc, 'A')], { session_id, turn_id: 'resp_1' }))).toEqual(['replayed', 'replayed']);
  expect(told(await results([readDoc(doc), writeDoc(doc, 'A')], { session_id }))).toEqual(['executed', 'replayed']);
  expect(house.till.on(doc)).toEqual(['write_doc']);
});

it('case-27: a cut turn writes nothing, also where its JSON parses, and its reads run', async () => {
  const sale = unique('sale');
  const cutOff = { call_id: 'c', tool: 'charge_payment', arguments: `{"sale_id":"${sale}","amou` };
  const answers = await results([create(sale), getSale(sale), charge(sale), cutOff], {}, 'max_tokens');
  expect(told(answers)).toEqual(['TURN_CUT', 'executed', 'TURN_CUT', 'MALFORMED_JSON']);
  expect(answers[0]).toMatchObject({ disposition: 'invalid_call', status: 400, next_action: 'repair' });
  expect(answers[0]?.receipts.decision).toMatch(/^rcp_/);
  expect(house.till.on(sale)).toEqual([]);
  expect(house.till.requests.filter((request) => request === 'create_transaction')).toEqual([]);
});

it('what is no call of a tool is refused at its position and the others run', async () => {
  const doc = unique('doc');
  const answers = await results([{ callId: 'u-1', unusable: '`shell` is a custom tool call.' }, writeDoc(doc, 'A'), { members: null }]);
  expect(told(answers)).toEqual(['UNUSABLE_CALL', 'executed', 'INVALID_ENVELOPE']);
  expect(answers[0]).toMatchObject({ call_id: 'u-1', disposition: 'invalid_call', detail: '`shell` is a custom tool call.' });
});

it('of more calls than a turn may make the first run and each of the rest is answered', async () => {
  const t = unique('t');
  const answers = await results(Array.from({ length: 23 }, (_, n) => note(`${t} ${n}`, { call_id: `c-${n}` })));
  expect(told(answers)).toEqual([...Array(20).fill('executed'), ...Array(3).fill('BUDGET_EXHAUSTED')]);
  expect(answers.map(({ call_id }) => call_id)).toEqual(Array.from({ length: 23 }, (_, n) => `c-${n}`));
  expect(answers[22]?.detail).toMatch(/20 .*23/);
});

it('a turn whose own members are wrong is refused whole', async () => {
  const t = unique('t');
  for (const members of [{ session_id: 7 }, { session: 's' }, { turn_id: '' }] as Record<string, Json>[]) {
    expect(await send([note(t)], members)).toMatchObject({ refused: { code: 'INVALID_ENVELOPE', status: 400 } });
  }
  expect(house.till.effects.filter(({ body }) => body['t'] === t)).toEqual([]);
});
