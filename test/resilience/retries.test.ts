/**
 * Retries inside an operation (semantics.md section 5), against a service that keeps its own books: as often and as long as the contract says,
 * with full jitter, not before the end of a pause that was asked for, and never a second effect.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openGateway, type Opened, type Sent, unique } from '../support/gateway.js';
import { type Desk, type Desks, openDesks, type Turn } from './desk.js';

const notStarted: Turn = { status: 503, body: { code: 'NOT_STARTED' } };
const inSeconds = (seconds: number): Turn => ({ status: 503, body: { code: 'NOT_STARTED' }, headers: { 'retry-after': String(seconds) } });
const error = (status: number, headers: Record<string, string> = {}): Turn => ({ status, headers });

let all: Desks;
let open: Opened;
let patient: Desk;
let hasty: Desk;

beforeAll(async () => {
  all = await openDesks({ patient: {}, hasty: { attempts: 10, elapsed: '400ms' } }, { CALLGATE_UPSTREAM_BREAKER_FAILURES: '10000', CALLGATE_EXECUTION_RETRY_RATIO: '1' });
  open = await openGateway(all.house);
  ({ patient, hasty } = all.desks as { patient: Desk; hasty: Desk });
});
afterAll(async () => {
  await open?.gateway.close();
  await all?.close();
});
beforeEach(async () => {
  // A pause that the test before was told of is over when a call goes through again.
  for (const desk of [patient, hasty]) {
    desk.mend();
    await desk.becomes(() => !pausedBy.has(desk.name) || performance.now() > (pausedBy.get(desk.name) as number));
  }
});
/** Until when a service has asked to be left alone. */
const pausedBy = new Map<string, number>();
const pausedFor = (desk: Desk, seconds: number): void => void pausedBy.set(desk.name, performance.now() + seconds * 1000 + 100);

const call = (tool: string, args: object = { text: unique('t') }, more: object = {}): Promise<Sent> =>
  open.agent.call({ session_id: unique('s'), tool, arguments: args, ...more }, { prefer: 'wait=15' });
const pay = (): Promise<Sent> => call('patient_pay');
const look = (): Promise<Sent> => call('patient_look', { id: 'x' });

interface Row { what: string; tool: 'pay' | 'note' | 'send' | 'look'; turns: Turn[]; always?: Turn; sends: number; told: object; effects: number }
const executed = { disposition: 'executed', http: 200 };
const rows: Row[] = [
  { what: 'proven not begun, twice', tool: 'pay', turns: [notStarted, notStarted], sends: 3, told: executed, effects: 1 },
  { what: 'proven not begun, always', tool: 'pay', turns: [], always: notStarted, sends: 3, told: { disposition: 'rejected', code: 'NOT_COMMITTED', next_action: 'retry', http: 422 }, effects: 0 },
  { what: 'proven not begun, without an honoured key', tool: 'note', turns: [notStarted, notStarted], sends: 3, told: executed, effects: 1 },
  { what: 'lost before the effect: sent again once absence is proven', tool: 'pay', turns: ['drop', 'drop'], sends: 3, told: { ...executed, outcome: 'committed' }, effects: 1 },
  { what: 'the same without an honoured key', tool: 'note', turns: ['drop'], sends: 2, told: { ...executed, outcome: 'committed' }, effects: 1 },
  { what: 'case-02: lost after the effect: found, and not sent again', tool: 'note', turns: ['lose'], sends: 1, told: { ...executed, verified: true }, effects: 1 },
  { what: 'case-02: lost after the effect where only the key can tell: sent again under the same key', tool: 'send', turns: ['lose', 'lose'], sends: 3, told: executed, effects: 1 },
  { what: '500 where only the key can tell, always', tool: 'send', turns: [], always: error(500), sends: 3, told: { disposition: 'review', http: 202 }, effects: 0 },
  { what: 'a business refusal', tool: 'pay', turns: [error(422)], sends: 1, told: { disposition: 'rejected', code: 'UPSTREAM_REJECTED' }, effects: 0 },
  { what: 'a read: 500, reset, then good', tool: 'look', turns: [error(500), 'drop'], sends: 3, told: { ...executed, result: { id: 'item' } }, effects: 0 },
  { what: 'a read: 408 and 425, then good', tool: 'look', turns: [error(408), error(425)], sends: 3, told: executed, effects: 0 },
  { what: 'a read that always fails', tool: 'look', turns: [], always: error(502), sends: 3, told: { disposition: 'failed', code: 'READ_FAILED', next_action: 'retry', http: 502 }, effects: 0 },
  { what: 'a read that is refused', tool: 'look', turns: [error(403)], sends: 1, told: { disposition: 'rejected' }, effects: 0 },
];

describe('attempts of one operation', () => {
  it.each(rows)('$what ($tool): $sends sent, $effects effects', async ({ tool, turns, always = 'commit', sends, told, effects }) => {
    const before = patient.effects.length;
    Object.assign(patient, { turns: [...turns], always });
    const answer = await call(`patient_${tool}`, tool === 'look' ? { id: 'x' } : { text: unique('t') });
    expect(answer).toMatchObject(told);
    expect(patient.calls).toHaveLength(sends);
    expect(patient.effects.length - before).toBe(effects);
    expect(new Set(patient.calls.map(({ key }) => key)).size).toBe(1);
  });

  it('end with the time that the contract gives, whatever is left of their number', async () => {
    hasty.always = { status: 503, body: { code: 'NOT_STARTED' }, afterMs: 150 };
    expect(await call('hasty_pay')).toMatchObject({ code: 'NOT_COMMITTED' });
    hasty.always = { status: 500, afterMs: 150 };
    const writes = hasty.asked.length;
    expect(await call('hasty_look', { id: 'x' })).toMatchObject({ code: 'READ_FAILED' });
    for (const sends of [writes, hasty.asked.length - writes]) {
      expect(sends).toBeGreaterThanOrEqual(1);
      expect(sends).toBeLessThanOrEqual(4);
    }
  });

  it('a service that cannot be reached: nothing was sent, and the next call goes through once it is back', async () => {
    await patient.close();
    expect(await pay()).toMatchObject({ disposition: 'failed', code: 'UPSTREAM_UNREACHABLE', http: 502, next_action: 'retry' });
    expect(patient.asked).toEqual([]);
    await patient.listen();
    expect(await pay()).toMatchObject(executed);
  });

  it('wait with full jitter: anything from nothing on', async () => {
    const gaps: number[] = [];
    for (let n = 0; n < 40; n++) {
      patient.turns = [error(500)];
      await look();
      const [first, second] = patient.asked.slice(-2);
      gaps.push((second?.at ?? 0) - (first?.at ?? 0));
    }
    gaps.sort((a, b) => a - b);
    expect(gaps[0]).toBeLessThan(50);
    expect((gaps[35] ?? 0) - (gaps[4] ?? 0)).toBeGreaterThan(25);
  });
});

/** case-54: of a pause that was asked for, not one request comes too early, in seconds and as a date. */
describe('Retry-After', () => {
  const date = (): Turn => ({ status: 503, body: { code: 'NOT_STARTED' }, headers: { 'retry-after': new Date(Math.ceil(Date.now() / 1000) * 1000 + 1000).toUTCString() } });

  it.each([['seconds', (): Turn => inSeconds(1)], ['a date', date]] as const)('%s: a short one is waited for within the operation', async (_, turn) => {
    patient.turns = [turn()];
    expect(await pay()).toMatchObject(executed);
    const [first, second] = patient.calls;
    expect(patient.calls).toHaveLength(2);
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(900);
  });

  it('of a read that failed is waited for as well, where the caller’s patience allows it', async () => {
    patient.turns = [error(503, { 'retry-after': '1' })];
    expect(await look()).toMatchObject(executed);
    const [first, second] = patient.calls;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(900);
    patient.turns = [error(503, { 'retry-after': '2' })];
    pausedFor(patient, 2);
    const impatient = await open.agent.call({ session_id: unique('s'), tool: 'patient_look', arguments: { id: 'x' } }, { prefer: 'wait=1' });
    expect(impatient).toMatchObject({ disposition: 'rate_limited', http: 429, next_action: 'retry' });
    expect(Number(impatient.header('retry-after'))).toBe(2);
  });

  it('longer than the operation may take ends it, and tells the caller for how long', async () => {
    hasty.turns = [inSeconds(2)];
    pausedFor(hasty, 2);
    const answer = await call('hasty_pay');
    expect(answer).toMatchObject({ code: 'NOT_COMMITTED', next_action: 'retry' });
    expect(answer.retry_after_ms).toBeGreaterThan(1_000);
    expect(hasty.calls).toHaveLength(1);
  });

  it('of a 429 is told to the caller, and kept by everybody else in this process', async () => {
    const text = unique('t');
    patient.turns = [error(429, { 'retry-after': '5' })];
    pausedFor(patient, 5);
    const began = performance.now();
    const first = await call('patient_pay', { text });
    expect(first).toMatchObject({ disposition: 'rate_limited', code: 'RATE_LIMITED', http: 429, next_action: 'retry' });
    expect(Number(first.header('retry-after'))).toBeGreaterThanOrEqual(1);
    while (performance.now() - began < 1_500) {
      for (const other of [await call('patient_pay', { text }), await call('patient_look', { id: 'y' }), await call('patient_note')]) {
        expect(other).toMatchObject({ disposition: 'rate_limited', http: 429 });
        expect(other.retry_after_ms).toBeGreaterThan(0);
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(patient.calls).toHaveLength(1);
    expect(await call('hasty_look', { id: 'x' })).toMatchObject(executed);
    let again: Sent;
    do again = await call('patient_pay', { text });
    while (again.disposition === 'rate_limited');
    expect(again).toMatchObject(executed);
    expect((patient.calls[1]?.at ?? 0) - (patient.calls[0]?.at ?? 0)).toBeGreaterThan(4_900);
  });
});

it('the share of retries holds over everything that is sent to a service, and a refused retry is no error of its own', async () => {
  const stingy = await openGateway(all.house, { CALLGATE_EXECUTION_RETRY_RATIO: '0.1' });
  try {
    patient.always = error(500);
    const began = performance.now();
    const answers = await Promise.all(Array.from({ length: 60 }, () => stingy.agent.call({ session_id: unique('s'), tool: 'patient_look', arguments: { id: 'x' } })));
    expect(new Set(answers.map(({ code }) => code))).toEqual(new Set(['READ_FAILED']));
    const seconds = (performance.now() - began) / 1000;
    expect(patient.calls.length).toBeGreaterThan(60);
    expect(patient.calls.length).toBeLessThanOrEqual(60 + 10 + 6 + Math.ceil(seconds));
    patient.always = notStarted;
    patient.asked.length = 0;
    const writes = await Promise.all(Array.from({ length: 40 }, () => stingy.agent.call({ session_id: unique('s'), tool: 'patient_pay', arguments: { text: unique('t') } })));
    expect(new Set(writes.map(({ code }) => code))).toEqual(new Set(['NOT_COMMITTED']));
    expect(patient.calls.length).toBeLessThanOrEqual(40 + 10 + 4 + Math.ceil((performance.now() - began) / 1000));
    patient.always = 'lose_first';
    patient.asked.length = 0;
    const unknown = await Promise.all(Array.from({ length: 8 }, () => stingy.agent.call({ session_id: unique('s'), tool: 'patient_send', arguments: { text: unique('t') } })));
    for (const one of unknown) expect(await stingy.agent.settled(one.operation_id as string)).toMatchObject({ outcome: 'committed' });
    expect(patient.calls).toHaveLength(2 * 8);
    expect(await (await fetch(`${stingy.gateway.controlUrl}/metrics`)).text()).toMatch(/callgate_upstream_refusals_total\{service="patient",because="retry_ratio"\} [1-9]/);
  } finally {
    await stingy.gateway.close();
  }
});
