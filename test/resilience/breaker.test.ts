/**
 * A service that does not work is left alone, and found again. Without it every caller waits for every deadline, and each try at a service
 * that is coming back is one more write of unknown outcome.
 */
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openGateway, type Opened, type Sent, unique } from '../support/gateway.js';
import { until } from '../recovery/process.js';
import { type Desk, type Desks, openDesks } from './desk.js';

const failures = 5;
const openMs = 2_000;
const longMs = 60_000;

let all: Desks;
let open: Opened;
let ill: Desk;
let well: Desk;
let database: pg.Pool;

beforeAll(async () => {
  all = await openDesks({ ill: { attempts: 1, deadline: '1s' }, well: { attempts: 1 } }, {
    CALLGATE_UPSTREAM_BREAKER_FAILURES: String(failures), CALLGATE_LOG_LEVEL: 'fatal',
  });
  ({ ill, well } = all.desks as { ill: Desk; well: Desk });
  database = new pg.Pool({ connectionString: all.house.databaseUrl, max: 1 });
});
afterAll(async () => {
  await database?.end();
  await all?.close();
});
beforeEach(() => {
  ill.mend();
  well.mend();
});
const gatewayThatOpensFor = (ms: number) => async (): Promise<void> => {
  open = await openGateway(all.house, { CALLGATE_UPSTREAM_BREAKER_OPEN: `${ms}ms` });
};
afterEach(() => open?.gateway.close());

const call = (tool: string, args: object = tool.endsWith('_look') ? { id: 'x' } : { text: unique('t') }): Promise<Sent> =>
  open.agent.call({ session_id: unique('s'), tool, arguments: args });
const operations = async (): Promise<number> => Number((await database.query<{ n: string }>('select count(*) as n from operations where effect <> $1', ['none'])).rows[0]?.n);
const metrics = async (): Promise<string> => (await fetch(`${open.gateway.controlUrl}/metrics`)).text();
const breakerIs = async (state: string): Promise<boolean> => (await metrics()).includes(`callgate_upstream_breaker{service="ill",state="${state}"} 1`);
const suspended = { disposition: 'failed', code: 'UPSTREAM_SUSPENDED', http: 502, next_action: 'retry', operation_id: null };

/** Reads fail until it is open. */
async function opened(): Promise<void> {
  ill.always = { status: 500 };
  for (let n = 0; n < failures; n++) expect(await call('ill_look')).toMatchObject({ code: 'READ_FAILED' });
  expect(await breakerIs('open')).toBe(true);
  ill.asked.length = 0;
}

async function halfOpen(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, openMs + 20));
}

describe('an open breaker', () => {
  beforeEach(gatewayThatOpensFor(longMs));

  it('refuses reads and writes at once, before any intent, says when to come again, and touches no other service', async () => {
    await opened();
    const before = await operations();
    for (const tool of ['ill_look', 'ill_pay', 'ill_note', 'ill_send']) {
      const answer = await call(tool);
      expect(answer).toMatchObject(suspended);
      expect(Number(answer.header('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(answer.retry_after_ms).toBeLessThanOrEqual(2 * longMs);
    }
    expect(ill.asked).toEqual([]);
    expect(await operations()).toBe(before);
    expect(await call('well_pay')).toMatchObject({ disposition: 'executed' });
    expect(await metrics()).toMatch(/callgate_upstream_refusals_total\{service="ill",because="suspended"\} [1-9]/);
  });

  it.each([
    ['answers 503', (): void => { ill.always = { status: 503 }; }], ['drops connections', (): void => { ill.always = 'drop'; }], ['does not answer in time', (): void => { ill.always = 'freeze'; }],
    ['refuses connections', (): Promise<void> => ill.close()],
  ] as const)('is open for a service that %s', async (_, fall) => {
    await fall();
    for (const answer of await Promise.all(Array.from({ length: failures }, () => call('ill_look')))) expect(answer).toMatchObject({ code: 'READ_FAILED' });
    expect(await breakerIs('open')).toBe(true);
    expect(await call('ill_note')).toMatchObject(suspended);
    await ill.close();
    await ill.listen();
  });

  it('is not opened by refusals, however many', async () => {
    for (const status of [400, 401, 403, 404, 409, 412, 422]) {
      ill.always = { status };
      await Promise.all([call('ill_look'), call('ill_note'), call('ill_pay')]);
    }
    expect((await metrics()).includes('callgate_upstream_breaker{service="ill"')).toBe(false);
    ill.always = 'commit';
    expect(await call('ill_note')).toMatchObject({ disposition: 'executed' });
  });
});

describe('a half-open breaker', () => {
  beforeEach(gatewayThatOpensFor(openMs));

  it('is never tried by a write without an honoured key, however many come; a read closes it for all', async () => {
    await opened();
    const effects = ill.effects.length;
    await halfOpen();
    for (const answer of await Promise.all(Array.from({ length: 10 }, () => call('ill_note')))) expect(answer).toMatchObject(suspended);
    expect(ill.asked).toEqual([]);
    ill.always = 'commit';
    expect(await call('ill_look')).toMatchObject({ disposition: 'executed' });
    expect(await breakerIs('closed')).toBe(true);
    expect(await call('ill_note')).toMatchObject({ disposition: 'executed' });
    expect(ill.effects.length - effects).toBe(1);
  });

  it('where nothing but writes without a key comes, a connection tries it, over which nothing is sent; then the writes go, each once', async () => {
    await ill.close();
    for (let n = 0; n < failures; n++) expect(await call('ill_note')).toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
    expect(await breakerIs('open')).toBe(true);
    await halfOpen();
    const effects = ill.effects.length;
    for (const answer of await Promise.all(Array.from({ length: 10 }, () => call('ill_note')))) expect(answer).toMatchObject(suspended);
    expect(await breakerIs('open')).toBe(true);
    expect(ill.asked).toEqual([]);
    await ill.listen();
    ill.always = 'commit';
    const before = ill.asked.length;
    await until(async () => (await call('ill_note')).disposition === 'executed', 10_000);
    expect(await breakerIs('closed')).toBe(true);
    expect(ill.calls.slice(before).map(({ path }) => path)).toEqual(['/notes']);
    expect(ill.effects.length - effects).toBe(1);
  });

  it('lets one call of many try, a write under an honoured key too, and is open again when that fails', async () => {
    await opened();
    await halfOpen();
    ill.always = { status: 500, afterMs: 200 };
    const answers = await Promise.all(Array.from({ length: 10 }, () => call('ill_send')));
    expect(ill.calls).toHaveLength(1);
    expect(answers.filter(({ code }) => code === 'UPSTREAM_SUSPENDED')).toHaveLength(9);
    expect(await breakerIs('open')).toBe(true);
    await halfOpen();
    ill.always = 'commit';
    expect(await call('ill_send')).toMatchObject({ disposition: 'executed' });
    expect(await breakerIs('closed')).toBe(true);
  });

  it('is closed by recovery alone: an unknown outcome is read back through it, and settles, with no other call', async () => {
    ill.readBacks = { status: 500 };
    ill.turns = ['lose'];
    ill.always = { status: 500 };
    const unknown = await open.agent.call({ session_id: unique('s'), tool: 'ill_note', arguments: { text: unique('t') } }, { prefer: 'wait=0' });
    expect(unknown).toMatchObject({ disposition: 'unknown', next_action: 'wait' });
    for (let n = 0; n < failures; n++) await call('ill_look');
    expect(await breakerIs('open')).toBe(true);
    await ill.becomes(() => ill.asked.slice(-2).every(({ path }) => path.startsWith('/receipts/')));
    expect(await breakerIs('open')).toBe(true);
    ill.mend();
    expect(await open.agent.settled(unknown.operation_id as string)).toMatchObject({ outcome: 'committed', verified: true });
    expect(await breakerIs('closed')).toBe(true);
    expect(ill.calls).toEqual([]);
  });
});

it('writes whose service fails while it is closed are what they always were: unknown, read back, one effect each', async () => {
  await gatewayThatOpensFor(openMs)();
  const before = ill.effects.length;
  ill.always = 'lose';
  ill.readBacks = 'commit';
  const answers = await Promise.all(Array.from({ length: 12 }, () => call('ill_note')));
  ill.mend();
  let effects = 0;
  for (const answer of answers) {
    if (answer.code === 'UPSTREAM_SUSPENDED') continue;
    expect(await open.agent.settled(answer.operation_id as string)).toMatchObject({ outcome: 'committed' });
    effects++;
  }
  expect(ill.effects.length - before).toBe(effects);
});
