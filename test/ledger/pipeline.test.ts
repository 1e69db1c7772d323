import { afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import pg from 'pg';
import { type ConnectionOptions, LaneConnection } from '../../src/ledger/connection.js';
import type { LaneStatement } from '../../src/ledger/pipeline.js';
import { freshDatabase } from '../support/servers.js';

let options: ConnectionOptions;
beforeAll(async () => {
  options = { url: await freshDatabase(inject('databaseUrl')), preparedStatements: true, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000 };
  const client = new pg.Client({ connectionString: options.url });
  await client.connect();
  await client.query('create table kept (n integer primary key, note text)');
  await client.end();
});

const opened: LaneConnection[] = [];
afterEach(() => Promise.all(opened.splice(0).map((lane) => lane.close())));
function open(more: Partial<ConnectionOptions> = {}): LaneConnection {
  const lane = new LaneConnection({ ...options, ...more });
  opened.push(lane);
  return lane;
}

const insert = (n: number): LaneStatement => ({ name: 'insert', text: 'insert into kept (n) values ($1::integer) returning n', values: [String(n)] });
const select: LaneStatement = { name: 'select', text: 'select n, note, n > 1 as large from kept order by n', values: [] };
const quiet = (n: number): LaneStatement => ({ name: 'quiet', text: 'update kept set note = $2 where n = $1::integer', values: [String(n), 'quiet'] });

describe.each([{ preparedStatements: true }, { preparedStatements: false }])('the statements of a flush ($preparedStatements: kept by the connection)', (kind) => {
  it('are one transaction in their order, each with its rows, also when they are asked again', async () => {
    const lane = open(kind);
    const first = await lane.run([insert(1), quiet(1), insert(2), select].map((statement, n) => (n === 2 ? { ...statement, name: 'insert again' } : statement)));
    expect([...first]).toEqual([['insert', [{ n: 1 }]], ['quiet', []], ['insert again', [{ n: 2 }]], ['select', [{ n: 1, note: 'quiet', large: false }, { n: 2, note: null, large: true }]]]);
    const again = await lane.run([quiet(2), select]);
    expect(again.get('select')).toEqual([{ n: 1, note: 'quiet', large: false }, { n: 2, note: 'quiet', large: true }]);
    expect((await lane.run([{ name: 'empty', text: 'delete from kept', values: [] }])).get('empty')).toEqual([]);
  });

  it('leave nothing when one of them fails, wherever it stands, and the connection goes on', async () => {
    const lane = open(kind);
    const broken: LaneStatement = { name: 'broken', text: 'select 1 / $1::integer as n', values: ['0'] };
    for (const flush of [[insert(1), broken, quiet(1)], [broken, insert(1)], [insert(1), quiet(1), broken], [insert(1), { ...broken, name: 'unknown', text: 'select nothing from nowhere', values: [] }]]) {
      await expect(lane.run(flush)).rejects.toMatchObject({ code: expect.stringMatching(/^(22012|42P01)$/) });
      expect((await lane.run([select])).get('select')).toEqual([]);
    }
    expect((await lane.run([{ ...broken, values: ['1'] }])).get('broken')).toEqual([{ n: 1 }]);
  });
});

it('plans of prepared statements are made once, and without values', async () => {
  const lane = open();
  for (let n = 0; n < 8; n++) await lane.run([{ name: 'find', text: `select e.n from json_to_recordset($1::json) as e (n integer) left join kept k on k.n = e.n`, values: ['[{"n":1}]'] }]);
  const plans = await lane.run([{ name: 'plans', text: `select generic_plans::integer, custom_plans::integer from pg_prepared_statements where name = 'find'`, values: [] }]);
  expect(plans.get('plans')).toEqual([{ generic_plans: 8, custom_plans: 0 }]);
});

it('a flush that is not answered in time is an error of that flush, and the next one has a connection of its own', async () => {
  const lane = open({ statementTimeoutMs: 200 });
  await expect(lane.run([insert(7), { name: 'sleep', text: 'select pg_sleep(20)::text', values: [] }])).rejects.toThrow('timeout');
  expect((await lane.run([select])).get('select')).toEqual([]);
});
