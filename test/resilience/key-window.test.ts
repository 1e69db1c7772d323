/**
 * A further attempt may have to wait for its service for a long time. The service may have forgotten its key by then, and what was harmless when it
 * was decided would be a second effect.
 */
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { decideNow, reviewOf } from '../people/reviews.js';
import { until } from '../recovery/process.js';
import { openGateway, unique } from '../support/gateway.js';
import { type Desk, openDesks } from './desk.js';

it('a decided re-send whose service asks for a pause is not sent any more once the key may be forgotten: back to a person', async () => {
  const all = await openDesks({ desk: { attempts: 1 } });
  const open = await openGateway(all.house);
  const database = new pg.Pool({ connectionString: all.house.databaseUrl, max: 1 });
  onTestFinished(async () => {
    await open.gateway.close();
    await database.end();
    await all.close();
  });
  const desk = all.desks['desk'] as Desk;
  desk.turns = ['lose'];
  const first = await open.agent.call({ session_id: unique('s'), tool: 'desk_send', arguments: { text: 'x' } });
  expect(first).toMatchObject({ disposition: 'review' });
  const operation = first.operation_id as string;
  const review = first.review_id as string;

  desk.turns = [{ status: 429, headers: { 'retry-after': '3' } }];
  expect(await open.agent.call({ session_id: unique('s'), tool: 'desk_look', arguments: { id: 'x' } })).toMatchObject({ disposition: 'rate_limited' });
  expect(await decideNow(open.control(all.house.keys.reviewer), review, { decision: 'resend' })).toMatchObject({ http: 200 });
  await database.query("update operations set first_sent_at = first_sent_at - interval '1 day' where operation_id = $1", [operation]);

  await until(async () => (await open.agent.get(`/v1/operations/${operation}`)).disposition === 'review', 20_000);
  const again = await open.agent.get(`/v1/operations/${operation}`);
  expect(again.review_id).not.toBe(review);
  expect(await reviewOf(open.control(all.house.keys.reviewer), again.review_id as string)).toMatchObject({ reason: 'KEY_WINDOW_PASSED', state: 'open' });
  expect(desk.calls.map(({ method }) => method)).toEqual(['POST', 'GET']);
  expect(desk.effects).toHaveLength(1);
});
