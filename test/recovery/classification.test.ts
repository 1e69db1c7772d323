import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectFile } from '../../src/project.js';
import { decide, reviewOf } from '../people/reviews.js';
import { type House, openGateway, openHouse, type Opened, type Sent } from '../support/gateway.js';
import { until } from './process.js';
import { drive, driveRead, driveReadBack, type Lane } from './table/drive.js';
import { classes, type Class, type Observation, observations, worldsOf } from './table/observations.js';
import { classificationPage, type ReadRow, type Row, type ShownRow } from './table/page.js';
import { type Cell, expected, expectedOfRead, expectedOfReadBack, momentsOf } from './table/rules.js';
import { contractsOf, Scripted, setups, type Setup, writeTool } from './table/service.js';

/**
 * Semantics.md sections 3 and 4 as one table, every cell driven through a whole gateway and held to a rule that was written down apart from the code.
 * If a cell slips, a customer is paid twice (an effect is taken for absent and sent again), a refund is lost (an absent one is taken for done), or an
 * order is held up for ever.
 */
const lanes = 20;
let rows: Row[] = [];
let shown: ShownRow[] = [];
let reads: ReadRow[] = [];
const heard = new Map<object, Sent[]>();

let service: Scripted;
let house: House;
let open: Opened;
let brief: Opened;
let page = '';

const firstOf = (name: Class): Observation => observations.find(({ proves }) => proves === name) as Observation;

/** Everything for the first of a class; for the others what an attempt comes to on its own, and after one that had happened and was lost, which is the dear one. */
function cellsOf(observation: Observation): Cell[] {
  const cells = (Object.keys(setups) as Setup[]).flatMap((setup) => momentsOf(setup).flatMap((moment) => worldsOf(observation).flatMap((world): Cell[] => {
    const once = { setup, moment, world, before: 'nothing' } as const;
    return moment === 'after_unknown' && world === 'nothing' ? [{ ...once, before: 'happened' }, once] : [once];
  })));
  if (observation === firstOf(observation.proves)) return cells;
  return cells.filter(({ setup, moment, before }) => moment === 'first' || (moment === 'after_unknown' && setup === 'key' && before === 'happened'));
}

type Job<T> = (lane: Lane) => Promise<T>;

/** Each lane takes the next one; what came of them is in the order of the jobs. */
async function inLanes<T>(jobs: Job<T>[]): Promise<T[]> {
  const done: T[] = [];
  let next = 0;
  await Promise.all(Array.from({ length: lanes }, async (_, n) => {
    for (let at = next++; at < jobs.length; at = next++) done[at] = await (jobs[at] as Job<T>)({ n, service, open, brief, reviewer: house.keys.reviewer });
  }));
  return done;
}

function keep<T extends object>(row: T, all: Sent[]): T {
  heard.set(row, all);
  return row;
}

beforeAll(async () => {
  service = new Scripted();
  await service.listen();
  process.env['SCRIPTED_URL'] = service.url;
  house = await openHouse({
    CALLGATE_CONTRACTS_FOLDER: contractsOf(lanes), CALLGATE_EXECUTION_RETRY_RATIO: '1', CALLGATE_UPSTREAM_BREAKER_FAILURES: '10000', CALLGATE_UPSTREAM_MAX_RESPONSE: '4KiB',
    CALLGATE_RECONCILE_SWEEP_INTERVAL: '200ms', CALLGATE_RECONCILE_BACKOFF_FIRST: '100ms', CALLGATE_RECONCILE_BACKOFF_MAX: '500ms', SCRIPTED_URL: service.url,
  });
  const around = { upstream: (upstream: Parameters<Scripted['around']>[0]) => service.around(upstream) };
  open = await openGateway(house, {}, around);
  brief = await openGateway(house, { CALLGATE_RECONCILE_DEADLINE: '2s' }, around);
  rows = await inLanes(observations.flatMap((observation) => cellsOf(observation).map((cell): Job<Row> => async (lane) => {
    const driven = await drive(lane, observation, cell);
    return keep({ observation, cell, ends: driven.ends }, driven.heard);
  })));
  shown = await inLanes((['committed', 'claimed', 'accepted', 'unknown'] as const).flatMap((name) => (['both', 'readback'] as const).flatMap((setup) =>
    (['twice', 'nothing'] as const).map((which): Job<ShownRow> => async (lane) => ({ observation: firstOf(name), setup, shown: which, ends: await driveReadBack(lane, firstOf(name), setup, which) })))));
  reads = await inLanes(observations.filter(({ read }) => read !== null).flatMap((observation) => [false, true].map((last): Job<ReadRow> => async (lane) =>
    ({ observation, last, ends: await driveRead(lane, observation, last) }))));
  page = classificationPage(rows, shown, reads, observations);
}, 300_000);
afterAll(async () => {
  await open?.gateway.close();
  await brief?.gateway.close();
  await house?.close();
  await service?.close();
});

describe('a write, whatever an attempt of it comes to', () => {
  it.each(observations.map((observation) => [observation.seen, observation] as const))('%s', (_, observation) => {
    const own = rows.filter((row) => row.observation === observation);
    expect(own).toHaveLength(cellsOf(observation).length);
    for (const { cell, ends } of own) expect({ cell, ...ends }).toEqual({ cell, ...expected(observation, cell) });
  });

  it('is never answered with what client libraries send again by themselves, once a byte of it may have left', () => {
    for (const row of rows) {
      for (const { http, disposition } of heard.get(row) ?? []) {
        if (http === 408 || http >= 500) expect([http, disposition, row.ends.sent], `${row.observation.seen} ${JSON.stringify(row.cell)}`).toEqual([502, 'failed', 0]);
      }
    }
  });

  it('has never more than one effect, and one that has none is never told as verified', () => {
    for (const { ends } of rows) {
      expect(ends.effects).toBeLessThanOrEqual(1);
      if (ends.told.endsWith(', verified')) expect(ends.effects).toBe(1);
    }
  });
});

describe('a read-back', () => {
  it('that shows two effects, or nothing until the deadline, ends with a person, whatever the answer had proved', () => {
    expect(shown).toHaveLength(16);
    for (const { observation, setup, shown: which, ends } of shown) expect({ proves: observation.proves, setup, ...ends }).toEqual({ proves: observation.proves, setup, ...expectedOfReadBack(which) });
  });
});

describe('a read', () => {
  it.each(observations.filter(({ read }) => read !== null).map((observation) => [observation.seen, observation] as const))('%s', (_, observation) => {
    const own = reads.filter((row) => row.observation === observation);
    expect(own).toHaveLength(2);
    for (const { last, ends } of own) expect({ last, ...ends }).toEqual({ last, ...expectedOfRead(observation, last) });
  });
});

describe('without an honoured key an unknown attempt stays the last', () => {
  it.each([['readback', 'the service could not prove'], ['neither', 'honours no key']] as const)('%s: neither the gateway nor a person sends it again', async (setup, why) => {
    const id = `never-${setup}`;
    service.script(id, [{ by: { wire: ({ socket }) => void socket?.destroy() }, takesEffect: false }, { by: { wire: () => undefined }, takesEffect: true }], true);
    const first = await brief.agent.call({ session_id: id, call_id: 'c', tool: writeTool(0, setup, false), arguments: { cell: id } }, { prefer: 'wait=2' });
    let answer = first;
    await until(async () => {
      answer = await brief.agent.get(`/v1/operations/${first.operation_id}`, { prefer: 'wait=1' });
      return answer.disposition === 'review';
    }, 20_000);
    const desk = brief.control(house.keys.reviewer);
    const { digest } = await reviewOf(desk, answer.review_id as string);
    const refused = await decide(desk, answer.review_id as string, { decision: 'resend', expected_digest: digest });
    expect(refused).toMatchObject({ http: 409, code: 'DECISION_NOT_POSSIBLE' });
    expect(refused['detail']?.toLowerCase()).toContain(why);
    expect(service.books(id)).toEqual({ sent: 1, effects: 0 });
  });
});

describe('the table', () => {
  it('has every class of the specification, and for each everything that can be driven', () => {
    for (const name of Object.keys(classes) as Class[]) expect(observations.some(({ proves }) => proves === name), name).toBe(true);
    // every hundred of HTTP, and each status that the specification names
    const seen = observations.map((observation) => observation.seen).join(' ');
    for (const status of ['200', '202', '301', '408', '409', '412', '425', '429', '500', '503']) expect(seen, status).toContain(status);
  });

  it('docs/classification.md is what the gateway did', async () => {
    console.log(page);
    await expect(page).toMatchFileSnapshot(projectFile('docs', 'classification.md'));
  });
});
