/**
 * One service that no longer answers must not take the others with it: neither their time nor the memory of the process. A call that stands
 * in line has written nothing, so that whatever becomes of it can be sent again.
 */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openGateway, type Opened, type Sent, unique } from '../support/gateway.js';
import { type Desk, type Desks, openDesks } from './desk.js';

const places = 4;
const line = 20;

let all: Desks;
let open: Opened;
let frozen: Desk;
let quick: Desk;
let database: pg.Pool;

beforeAll(async () => {
  all = await openDesks({ frozen: { concurrency: places, deadline: '5m', attempts: 1 }, quick: { attempts: 1 } }, {
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

async function latencies(n: number): Promise<number[]> {
  const all: number[] = [];
  for (let i = 0; i < n; i++) {
    const began = performance.now();
    expect(await call('quick_pay')).toMatchObject({ disposition: 'executed' });
    all.push(performance.now() - began);
  }
  return all.sort((a, b) => a - b);
}

describe('a service that no longer answers', () => {
  it('leaves the calls to another one as fast as they were', async () => {
    await latencies(20);
    const alone = await latencies(60);
    frozen.always = 'freeze';
    const stuck: Promise<Sent>[] = [];
    const pressing = setInterval(() => void stuck.push(call('frozen_look', 3), call('frozen_note', 3)), 100);
    await frozen.becomes(() => frozen.calls.length >= places);
    const beside = await latencies(60);
    clearInterval(pressing);
    expect(frozen.calls).toHaveLength(places);
    expect(beside[30] ?? 0).toBeLessThan(3 * (alone[30] ?? 0) + 5);
    frozen.always = 'commit';
    frozen.thaw();
    await Promise.all(stuck);
  });

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
    frozen.always = 'freeze';
    const held = [call('frozen_note', 0), call('frozen_note', 0), call('frozen_note', 0)];
    await frozen.becomes(() => frozen.calls.length === places - 1);
    frozen.turns = [{ status: 200, body: { id: 'item' }, afterMs: 400 }];
    const shipped = call('frozen_ship', 25, { id: 'item' });
    await frozen.becomes(() => frozen.calls.length === places);
    held.push(call('frozen_note', 25));
    await frozen.becomes(() => frozen.calls.length === places + 1);
    expect(frozen.calls.map(({ path }) => path)).toEqual(['/notes', '/notes', '/notes', '/seen/item', '/notes']);
    await new Promise((resolve) => setTimeout(resolve, 600)); // it is older than `max_age` from here on
    frozen.always = 'commit';
    frozen.thaw();
    expect(await shipped).toMatchObject({ disposition: 'executed' });
    expect(frozen.calls.map(({ path }) => path).filter((path) => path !== '/notes')).toEqual(['/seen/item', '/seen/item', '/ships']);
    await Promise.all(held);
  });
});
