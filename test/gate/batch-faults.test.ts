import { expect, it, onTestFinished } from 'vitest';
import { LedgerUnavailable } from '../../src/errors.js';
import { spawnGateway, unique } from '../support/gateway.js';
import { until } from '../recovery/process.js';
import { BatchAgent, charge, create, dispositions, note, type OpenedTill, openTill, readDoc, type TillHouse, writeDoc } from './till/house.js';

/**
 * One answer per call and one effect per call also where something breaks in the middle of a turn. A lost position breaks the
 * conversation for good; a turn that is sent again after a crash must find what it did and do the rest.
 */
async function opened(env: Record<string, string> = {}, joints: Parameters<TillHouse['open']>[1] = {}): Promise<{ house: TillHouse; open: OpenedTill }> {
  const house = await openTill();
  onTestFinished(() => house.close());
  const open = await house.open(env, joints);
  onTestFinished(() => open.gateway.close());
  return { house, open };
}

it('a failure of ours in one call is one position; the others run and are answered', async () => {
  const { house, open } = await opened({}, {
    ledger: (ledger) => ({ ...ledger, reserve: (intent) => (JSON.stringify(intent.operation.dossier.args).includes('broken') ? Promise.reject(new Error('a bug')) : ledger.reserve(intent)) }),
  });
  const [doc, other] = [unique('doc'), unique('doc')];
  const answered = await open.batches.batch([writeDoc(doc, 'broken'), writeDoc(other, 'A'), writeDoc(doc, 'B')]);
  expect(answered.http).toBe(200);
  expect(dispositions(answered)).toEqual(['INTERNAL', 'executed', 'UNAVAILABLE']);
  expect(answered.results[0]?.detail).toMatch(/inc_/);
  expect([house.till.on(doc), house.till.on(other)]).toEqual([[], ['write_doc']]);
});

it('a ledger that is lost in the middle: what committed is told, the rest is unavailable, and nothing of it was sent', async () => {
  let away = false;
  const { house, open } = await opened({}, {
    ledger: (ledger) => ({
      ...ledger,
      find: (query) => (away ? Promise.reject(new LedgerUnavailable(new Error('away'))) : ledger.find(query)),
      record: (entry) => (away ? Promise.reject(new LedgerUnavailable(new Error('away'))) : ledger.record(entry)),
      transition: async (transition) => {
        const moved = await ledger.transition(transition);
        away ||= transition.settle === true;
        return moved;
      },
    }),
  });
  const doc = unique('doc');
  const session = unique('s');
  const calls = [writeDoc(doc, 'A'), writeDoc(doc, 'B'), readDoc(doc), writeDoc(doc, 'C')];
  const answered = await open.batches.batch(calls, { session_id: session });
  expect(answered.http).toBe(200);
  expect(dispositions(answered)).toEqual(['executed', 'UNAVAILABLE', 'UNAVAILABLE', 'UNAVAILABLE']);
  expect(house.till.on(doc)).toEqual(['write_doc']);
});

it('a budget that runs out in the middle stops the rest, each with its answer', async () => {
  const { house, open } = await opened({ CALLGATE_BUDGETS_EXECUTIONS_PER_PRINCIPAL_PER_DAY: '2' });
  const t = unique('t');
  const answered = await open.batches.batch(['1', '2', '3', '4'].map((n) => note(`${t} ${n}`)));
  expect(dispositions(answered).sort()).toEqual(['BUDGET_EXHAUSTED', 'BUDGET_EXHAUSTED', 'executed', 'executed']);
  expect(house.till.effects).toHaveLength(2);
});

it('a replica that is told to stop answers every position: what runs is finished, what has not begun is unavailable', async () => {
  const house = await openTill();
  onTestFinished(() => house.close());
  const open = await house.open();
  const doc = unique('doc');
  const release = house.till.hold('write_doc');
  const answering = open.batches.batch([writeDoc(doc, 'A'), writeDoc(doc, 'B'), writeDoc(doc, 'C')]);
  await until(() => house.till.requests.includes('write_doc'), 10_000);
  const closed = open.gateway.close();
  release();
  expect(dispositions(await answering)).toEqual(['executed', 'DRAINING', 'UNAVAILABLE']);
  expect(house.till.on(doc)).toEqual(['write_doc']);
  await closed;
});

it('two replicas that get the same batch at once are one effect per call, and both are told of it', async () => {
  const house = await openTill();
  onTestFinished(() => house.close());
  const gateways = await Promise.all([house.open(), house.open()]);
  onTestFinished(async () => void (await Promise.all(gateways.map(({ gateway }) => gateway.close()))));
  for (let n = 0; n < 5; n++) {
    const [sale, doc] = [unique('sale'), unique('doc')];
    const session = unique('s');
    const calls = [charge(sale), create(sale), writeDoc(doc, 'A'), writeDoc(doc, 'B'), note(unique('t'), { call_id: 'n' })];
    const answered = await Promise.all(gateways.map(({ batches }) => batches.batch(calls, { session_id: session }, { prefer: 'wait=30' })));
    for (let position = 0; position < calls.length; position++) {
      const both = answered.map(({ results }) => results[position]);
      expect(both.map((answer) => answer?.code ?? answer?.disposition).sort()).toEqual(['executed', 'replayed']);
      expect(new Set(both.map((answer) => answer?.operation_id)).size).toBe(1);
    }
    expect(house.till.on(sale)).toEqual(['create_transaction', 'charge_payment']);
    expect(house.till.effects.filter(({ id }) => id === doc).map(({ body }) => body['text'])).toEqual(['A', 'B']);
  }
  expect(house.till.effects.filter(({ tool }) => tool === 'add_note')).toHaveLength(5);
});

it('a verdict about a world that another replica has moved on since the look-up is not given: the call may have been that one', async () => {
  const house = await openTill();
  onTestFinished(() => house.close());
  const other = await house.open();
  onTestFinished(() => other.gateway.close());
  const sale = unique('sale');
  const call = { session_id: unique('s'), ...create(sale) };
  let ahead: Promise<unknown> | undefined;
  const late = await house.open({}, {
    ledger: (ledger) => ({
      ...ledger,
      async find(query) {
        const found = await ledger.find(query);
        ahead ??= other.agent.call(call);
        await ahead;
        return found;
      },
    }),
  });
  onTestFinished(() => late.gateway.close());
  expect(await late.agent.call(call)).toMatchObject({ disposition: 'replayed', outcome: 'committed' });
  expect(await ahead).toMatchObject({ disposition: 'executed' });
  expect(house.till.on(sale)).toEqual(['create_transaction']);
});

it('kill -9 in the middle of a batch: sent again elsewhere, every call is one effect, in order', async () => {
  const house = await openTill();
  onTestFinished(() => house.close());
  const env = { ...house.env, CALLGATE_EXECUTION_LEASE: '1s', CALLGATE_EXECUTION_SEND_WINDOW: '500ms', CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms' };
  const doomed = await spawnGateway(house.house, env);
  const agent = new BatchAgent(doomed.agentUrl, house.house.keys.agent);
  const [sale, doc] = [unique('sale'), unique('doc')];
  const session = unique('s');
  const calls = [charge(sale), create(sale), writeDoc(doc, 'A'), writeDoc(doc, 'B'), note(unique('t'), { call_id: 'n' })];
  const release = house.till.hold('charge_payment');
  const gone = agent.batch(calls, { session_id: session }).catch(() => 'gone');
  await until(() => house.till.requests.includes('charge_payment') && house.till.on(doc).length === 2, 20_000);
  await doomed.kill9();
  expect(await gone).toBe('gone');
  release();
  const open = await house.open(env);
  onTestFinished(() => open.gateway.close());
  let answered = await open.batches.batch(calls, { session_id: session }, { prefer: 'wait=20' });
  const settled = (): boolean => answered.results.every(({ outcome }) => outcome === 'committed');
  for (let n = 0; n < 10 && !settled(); n++) answered = await open.batches.batch(calls, { session_id: session }, { prefer: 'wait=20' });
  expect(dispositions(answered)).toEqual(Array(5).fill('replayed'));
  expect(house.till.on(sale)).toEqual(['create_transaction', 'charge_payment']);
  expect(house.till.effects.filter(({ id }) => id === doc).map(({ body }) => body['text'])).toEqual(['A', 'B']);
  expect(house.till.effects.filter(({ tool }) => tool === 'add_note')).toHaveLength(1);
}, 120_000);
