/**
 * One service that no longer answers must not take the others with it: neither their time nor the memory of the process. A call that stands
 * in line has written nothing, so that whatever becomes of it can be sent again.
 */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openGateway, type Opened, type Sent, unique } from '../support/gateway.js';
import { type Desk, type Desks, observationMs, openDesks } from './desk.js';

const places = 4;
const line = 20;

let all: Desks;
let open: Opened;
let frozen: Desk;
let quick: Desk;
let database: pg.Pool;

beforeAll(async () => {
  all = await openDesks({ frozen: { concurrency: places, deadline: '5m', attempts: 1 }, quick: { deadline: '5m', attempts: 1 } }, {
    CALLGATE_UPSTREAM_MAX_WAITING: String(line), CALLGATE_UPSTREAM_BREAKER_FAILURES: '10000',
  });
  open = await openGateway(all.house);
  ({ frozen, quick } = all.desks as { frozen: Desk; quick: Desk });
  database = new pg.Pool({ connectionString: all.house.databaseUrl, max: 1 });
});
afterAll(async () => {
  await open?.gateway.close();
  await database?.end();
  await all?.close();
});
beforeEach(() => {
  frozen.mend();
  quick.mend();
});

const call = (tool: string, wait = 1, args: object = tool.endsWith('_look') ? { id: 'x' } : { text: unique('t') }): Promise<Sent> =>
  open.agent.call({ session_id: unique('s'), tool, arguments: args }, { prefer: `wait=${wait}` });
const intents = async (): Promise<number> => Number((await database.query<{ n: string }>("select count(*) as n from operations where tool like 'frozen%' and effect <> 'none'")).rows[0]?.n);
const busy = { disposition: 'rate_limited', code: 'UPSTREAM_BUSY', http: 429, next_action: 'retry', operation_id: null };

/** The patience is no part of it: an answer that takes longer is a slow one, not another one. */
async function latencies(n: number): Promise<number[]> {
  const all: number[] = [];
  for (let i = 0; i < n; i++) {
    const began = performance.now();
    expect(await call('quick_pay', 20)).toMatchObject({ disposition: 'executed' });
    all.push(performance.now() - began);
  }
  return all;
}

const median = (all: number[]): number => all.sort((a, b) => a - b)[all.length >> 1] as number;

/** While the other service answers nothing, and more and more calls stand in its line. */
async function latenciesBeside(n: number): Promise<number[]> {
  frozen.mend();
  frozen.always = 'hold';
  const stuck: Promise<Sent>[] = [];
  const pressing = setInterval(() => void stuck.push(call('frozen_look', 3), call('frozen_note', 3)), 100);
  try {
    await frozen.becomes(() => frozen.calls.length >= places);
    const beside = await latencies(n);
    expect(frozen.calls).toHaveLength(places);
    return beside;
  } finally {
    clearInterval(pressing);
    frozen.always = 'commit';
    frozen.release();
    await Promise.all(stuck);
  }
}

describe('a service that no longer answers', () => {
  it('leaves the calls to another one as fast as they were', async () => {
    await latencies(20);
    const alone: number[] = [];
    const beside: number[] = [];
    // In turn, so that what else the machine does is in both.
    for (let round = 0; round < 3; round++) {
      alone.push(...await latencies(20));
      beside.push(...await latenciesBeside(20));
    }
    expect(median(beside)).toBeLessThan(3 * median(alone) + 5);
  }, 120_000);

  it('is waited for within the patience of the caller, before any intent; the line is bounded, and who finds it full is told at once', async () => {
    frozen.always = 'freeze';
    const before = await intents();
    const first = Array.from({ length: places }, () => call('frozen_pay', 0));
    await frozen.becomes(() => frozen.calls.length === places);
    const began = performance.now();
    expect(await call('frozen_pay', 1)).toMatchObject(busy);
    expect(performance.now() - began).toBeGreaterThan(950);

    const answers: Sent[] = [];
    const crowd = Array.from({ length: line + 100 }, () => call('frozen_pay', 40).then((answer) => { answers.push(answer); }));
    await frozen.becomes(() => answers.length === 100);
    for (const answer of answers) {
      expect(answer).toMatchObject(busy);
      expect(Number(answer.header('retry-after'))).toBeGreaterThanOrEqual(1);
    }
    expect(await intents() - before).toBe(places);
    expect(frozen.calls).toHaveLength(places);
    frozen.always = 'commit';
    frozen.thaw();
    await Promise.all(crowd);
    for (const answer of answers.slice(100)) expect(answer).toMatchObject({ disposition: 'executed' });
    for (const answer of await Promise.all(first)) expect(await open.agent.settled(answer.operation_id as string)).toMatchObject({ code: 'NOT_COMMITTED' });
  }, 60_000);

  it('that answers again serves who stands in line, in turn, never more at a time than its contract says, and each of them once', async () => {
    const before = frozen.effects.length;
    frozen.always = { status: 200, body: { id: 'n' }, afterMs: 60 };
    const texts = Array.from({ length: places + line }, () => unique('t'));
    const answers = await Promise.all(texts.map((text) => call('frozen_note', 20, { text })));
    expect(answers.map(({ disposition }) => disposition)).toEqual(texts.map(() => 'executed'));
    expect(frozen.calls).toHaveLength(places + line);
    const gaps = frozen.calls.map(({ at }, n) => at - (frozen.calls[n - places]?.at ?? Number.NEGATIVE_INFINITY));
    for (const gap of gaps) expect(gap).toBeGreaterThan(50);
    expect(frozen.effects.length).toBe(before);
  });

  it('and a write that stood in line for longer than its observation is fresh observes again', async () => {
    // A line of one: who finds it full says that somebody stands in it.
    const narrow = await openGateway(all.house, { CALLGATE_UPSTREAM_MAX_WAITING: '1' });
    const ask = (tool: string, wait: number, args: object = { text: unique('t') }): Promise<Sent> =>
      narrow.agent.call({ session_id: unique('s'), tool, arguments: args }, { prefer: `wait=${wait}` });
    try {
      frozen.always = 'hold';
      const held = [ask('frozen_note', 0), ask('frozen_note', 0), ask('frozen_note', 0)];
      await frozen.becomes(() => frozen.calls.length === places - 1);
      const shipped = ask('frozen_ship', 25, { id: 'item' });
      await frozen.becomes(() => frozen.calls.length === places);
      const behind = [ask('frozen_note', 25), ask('frozen_note', 25)];
      expect(await Promise.race(behind)).toMatchObject(busy);
      frozen.release('/seen/item');
      await frozen.becomes(() => frozen.calls.length === places + 1);
      expect(frozen.calls.map(({ path }) => path)).toEqual(['/notes', '/notes', '/notes', '/seen/item', '/notes']);
      await new Promise((resolve) => setTimeout(resolve, observationMs)); // it is older than `max_age` from here on
      frozen.always = 'commit';
      frozen.release();
      expect(await shipped).toMatchObject({ disposition: 'executed' });
      expect(frozen.calls.map(({ path }) => path).filter((path) => path !== '/notes')).toEqual(['/seen/item', '/seen/item', '/ships']);
      await Promise.all([...held, ...behind]);
    } finally {
      frozen.release();
      await narrow.gateway.close();
    }
  }, 60_000);
});
