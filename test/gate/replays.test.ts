import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import { keyPrefix } from '../../src/identity/api-keys.js';
import type { Joints } from '../../src/main.js';
import { until } from '../recovery/process.js';
import { type Agent, type CallBody, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';
import { anotherKey, contractsChanged } from './guarded.js';

/**
 * What was settled and is asked for again and again is told without asking the ledger each time. If anything of it were told to whom, or after
 * what, the ledger would not tell it, a retry would disclose an answer, or deny that it was taken back.
 */
let house: House;
let one: Opened;
let two: Opened;
let db: pg.Client;
const folder = contractsChanged((text) => text.replace(/\n {4}compensate:.*/, '').replace(/ callback:[\s\S]*?(?=\n {4}result:)/, ''));
let finds = 0;
let away = false;
const watched: Joints = {
  ledger: (ledger) => ({
    ...ledger,
    find: (query) => {
      finds++;
      return away ? Promise.reject(new LedgerUnavailable(new Error('away'))) : ledger.find(query);
    },
  }),
};
beforeAll(async () => {
  house = await openHouse({ ...folder, CALLGATE_CONTRACTS_RELOAD: '50ms', CALLGATE_IDENTITY_KEY_CACHE: '0ms' });
  [one, two] = [await openGateway(house, {}, watched), await openGateway(house)];
  db = new pg.Client({ connectionString: house.databaseUrl });
  await db.connect();
});
afterAll(async () => {
  await Promise.all([one.gateway.close(), two.gateway.close()]);
  await db.end();
  await house.close();
});

let amount = 1;
/** A settled credit, and the same call again. */
async function settled(agent: Agent = one.agent): Promise<{ first: Sent; again: (by?: Agent) => Promise<Sent>; body: CallBody }> {
  const body = { session_id: unique('s'), call_id: 'c-1', intent_id: unique('i'), arguments: { amount: amount++ } };
  const first = await agent.credit(body);
  expect(first).toMatchObject({ disposition: 'executed', verified: true });
  return { first, body, again: (by = agent) => by.credit(body) };
}

/** Asked until the ledger was not: from the second time on, unless the machine stood still for a second. */
async function remembered(ask: () => Promise<Sent>): Promise<Sent> {
  for (let n = 0; n < 20; n++) {
    const before = finds;
    const answer = await ask();
    if (finds === before) return answer;
  }
  throw new Error('the ledger was asked each time');
}

const told = ({ trace, header, ...rest }: Sent): object => ({ ...rest, stages: trace.map(({ stage, verdict }) => [stage, verdict]) });
const creditsOf = async (sent: Sent): Promise<number> => (await house.shop.books()).credits.filter(({ key }) => key === sent.operation_id).length;

describe('a settled call that is sent again and again', () => {
  it('asks the ledger when it comes again first, and is told the same from then on without it', async () => {
    const { first, again } = await settled();
    const before = finds;
    const asked = await again();
    expect(finds).toBe(before + 1);
    expect(asked).toMatchObject({ http: 200, disposition: 'replayed', next_action: 'continue', operation_id: first.operation_id, result: first.result, receipts: first.receipts, verified: true });
    expect(told(await remembered(again))).toEqual(told(asked));
    expect(await creditsOf(first)).toBe(1);
  });

  it('is told the same through every door, and what one of them makes of it is not what the next one gets', async () => {
    const { body, again } = await settled();
    const asked = told(await again());
    const call = { call_id: 'c-1', tool: 'issue_credit', arguments: { order_id: 'O-417', currency: 'GBP', ...(body as { arguments: object }).arguments } };
    const { session_id, intent_id } = body as { session_id: string; intent_id: string };
    for (let n = 0; n < 3; n++) {
      const batch = await one.agent.post('/v1/batches', JSON.stringify({ session_id, intent_id, calls: [call, { call_id: 'c-2', tool: 'get_order', arguments: { order_id: 'O-420' } }] }));
      expect((batch as unknown as { results: Sent[] }).results.map(({ disposition }) => disposition)[0]).toBe('replayed');
      await one.agent.post('/v1/dialects/openai-chat', JSON.stringify({ session_id, intent_id, finish_reason: 'tool_calls', message: { tool_calls: [{ id: 'c-1', type: 'function', function: { name: call.tool, arguments: JSON.stringify(call.arguments) } }] } }));
      expect(told(await remembered(again))).toEqual(asked);
    }
  });

  it('under another call id is a duplicate of the first, also when it is remembered', async () => {
    const { first, body } = await settled();
    const other = { ...body, call_id: 'c-2' };
    expect(await one.agent.credit(other)).toMatchObject({ disposition: 'replayed', duplicate_of: 'c-1' });
    expect(await remembered(() => one.agent.credit(other))).toMatchObject({ disposition: 'replayed', duplicate_of: 'c-1', call_id: 'c-2', operation_id: first.operation_id });
  });

  it('by its own key too, which stands for these arguments and no others', async () => {
    const body = { session_id: unique('s'), call_id: 'c-1', idempotency_key: unique('k'), arguments: { amount: amount++ } };
    const first = await one.agent.credit(body);
    expect(first).toMatchObject({ disposition: 'executed' });
    expect(await remembered(() => one.agent.credit(body))).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(await one.agent.credit({ ...body, arguments: { amount: amount++ } })).toMatchObject({ code: 'ID_CONFLICT' });
    expect(await one.agent.credit({ ...body, call_id: 'c-2', arguments: { amount: amount++ } })).toMatchObject({ code: 'ID_CONFLICT' });
  });

  it('with other arguments conflicts', async () => {
    const { body, again } = await settled();
    await remembered(again);
    const other = await one.agent.credit({ ...body, arguments: { amount: amount++ } });
    expect(other).toMatchObject({ code: 'ID_CONFLICT', result: null });
  });

  it('is another call for another principal, subject or tenant with the same ids', async () => {
    const { first, body, again } = await settled();
    await remembered(again);
    const { operation_id } = await one.as(house.keys.otherAgent).credit(body);
    expect(operation_id).not.toBe(first.operation_id);
    for (const key of [house.keys.otherSubject, house.keys.otherTenant]) expect(await one.as(key).credit(body)).toMatchObject({ http: 404, code: 'NOT_FOUND', operation_id: null, result: null });
  });

  it('after it ended without an effect is a new proposal each time', async () => {
    const body = { session_id: unique('s'), call_id: 'c-1', intent_id: unique('i'), arguments: { amount: amount++ } };
    for (let n = 0; n < 2; n++) {
      await house.shop.fault({ tool: 'issue_credit', kind: '503_not_started', times: 3 });
      expect(await one.agent.credit(body)).toMatchObject({ disposition: 'rejected', code: 'NOT_COMMITTED' });
    }
    expect(await one.agent.credit(body)).toMatchObject({ disposition: 'executed' });
  });
});

describe('a read', () => {
  it('under its call id is replayed without the ledger, and a replay is no further read', async () => {
    const session_id = unique('s');
    const read = (call_id: string): Promise<Sent> => one.agent.call({ session_id, call_id, tool: 'get_order', arguments: { order_id: 'O-420' } });
    const first = await read('c-1');
    expect(first).toMatchObject({ disposition: 'executed' });
    const again = await remembered(() => read('c-1'));
    expect(again).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, result: first.result, evidence_of_change: false });
    expect(again).not.toHaveProperty('notice');
    expect(await read('c-2')).toMatchObject({ disposition: 'executed' });
    for (const id of ['c-3', 'c-3', 'c-4']) expect(await read(id)).toMatchObject({ disposition: 'replayed', notice: 'REPEATED_READ' });
    expect(await one.agent.call({ session_id, call_id: 'c-1', tool: 'get_order', arguments: { order_id: 'O-417' } })).toMatchObject({ code: 'ID_CONFLICT' });
  });
});

describe('what changes about a settled call', () => {
  it('the right to it: policy is asked each time, on the facts as they were stored, and whoever may not see it any more is told what a stranger is told', async () => {
    const { again } = await settled();
    await remembered(again);
    const file = join(folder.CALLGATE_CONTRACTS_FOLDER, 'policies', 'retail.cedar');
    const text = readFileSync(file, 'utf8');
    const digest = async (): Promise<unknown> => ((await one.control().get('/v1/contracts')) as unknown as { digest: string }).digest;
    const before = await digest();
    writeFileSync(file, text.replace('resource.customer_id == principal.subject', 'resource.customer_id == "nobody"'));
    await until(async () => {
      await again();
      return (await digest()) !== before;
    }, 5_000);
    expect(await again()).toMatchObject({ http: 404, code: 'NOT_FOUND', operation_id: null, result: null });
    writeFileSync(file, text);
    await until(async () => (await digest()) === before, 5_000);
    expect(await again()).toMatchObject({ disposition: 'replayed' });
  });

  it('a key that was taken away gets nothing more', async () => {
    const key = await anotherKey(house, {});
    const { again } = await settled(one.as(key));
    await remembered(again);
    await db.query('update api_keys set revoked_at = now() where prefix = $1', [keyPrefix(key)]);
    expect(await again()).toMatchObject({ http: 401, code: 'UNAUTHENTICATED' });
  });

  it('its answer is erased: on every replica within a second', async () => {
    const { first, again } = await settled();
    await remembered(again);
    await again(two.agent);
    await db.query('update operations set sealed_answer = null where operation_id = $1', [first.operation_id]);
    const erased = performance.now();
    for (const { agent } of [one, two]) {
      await until(async () => {
        const sentAt = performance.now();
        const answer = await again(agent);
        expect(answer).toMatchObject({ disposition: 'replayed', outcome: 'committed', operation_id: first.operation_id });
        if (answer.code === 'RESULT_EXPIRED') return true;
        expect(answer.result).toEqual(first.result);
        expect(sentAt - erased).toBeLessThan(1_000);
        return false;
      }, 5_000);
    }
  });

  it('it is taken back: whoever asks next is told so, on every replica, because what can be taken back is not remembered', async () => {
    const [here, there] = [await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: 'examples/retail/contracts' }, watched), await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: 'examples/retail/contracts' })];
    try {
      const { first, again } = await settled(here.agent);
      for (let n = 0; n < 3; n++) {
        const before = finds;
        expect(await again()).toMatchObject({ disposition: 'replayed', compensate: first.compensate });
        expect(finds).toBe(before + 1);
        await again(there.agent);
      }
      const undone = await there.agent.call({ session_id: unique('s'), call_id: 'c-1', ...first.compensate });
      expect(undone).toMatchObject({ disposition: 'executed' });
      for (const { agent } of [here, there]) {
        const answer = await again(agent);
        expect(answer).toMatchObject({ disposition: 'replayed', compensated_by: undone.operation_id });
        expect(answer).not.toHaveProperty('compensate');
      }
    } finally {
      await Promise.all([here, there].map(({ gateway }) => gateway.close()));
    }
  });

  it('the ledger is away: what was told a moment ago is told, nothing new is begun, and after that moment nothing is told', async () => {
    const { first, again } = await settled();
    try {
      let answer: Sent | undefined;
      for (let n = 0; n < 20 && answer?.http !== 200; n++) {
        away = false;
        await again();
        away = true;
        answer = await again();
      }
      expect(answer).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id, result: first.result });
      expect(await one.agent.credit({ session_id: unique('s'), call_id: 'c-1', arguments: { amount: amount++ } })).toMatchObject({ http: 503, code: 'UNAVAILABLE' });
      await until(async () => (await again()).http === 503, 5_000);
    } finally {
      away = false;
    }
    expect(await again()).toMatchObject({ disposition: 'replayed', operation_id: first.operation_id });
    expect(await creditsOf(first)).toBe(1);
  });
});
