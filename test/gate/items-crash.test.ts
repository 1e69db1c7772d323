import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type House, openHouse, type Sent, type Spawned, spawnGateway, unique } from '../support/gateway.js';
import { openPayouts, payoutContracts, type PayoutFault, type Payouts } from './payouts.js';

/**
 * No item is done twice and none is lost, whatever lists it is proposed in, on whichever replica, under lost answers and kill -9: by the
 * books of the service. If this is lost, a crash in the middle of a payroll pays some twice and others never.
 */
describe('items of a list under lost answers and kill -9', () => {
  const seed = Number(process.env['ITEMS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  const rounds = Number(process.env['ITEMS_ROUNDS'] ?? 4);
  const refs = ['a', 'b', 'c', 'd', 'e', 'f'];
  const faults: (PayoutFault | null)[] = [null, null, 'drop_before', 'drop_after', '500_after', '503_before', 'hang_after'];
  let house: House;
  let payouts: Payouts;
  let replicas: [Spawned, Spawned];
  const env = (): Record<string, string> => ({ PAYOUTS_URL: payouts.url });
  beforeAll(async () => {
    payouts = await openPayouts();
    house = await openHouse({
      CALLGATE_CONTRACTS_FOLDER: payoutContracts(), CALLGATE_EXECUTION_LEASE: '1s', CALLGATE_EXECUTION_SEND_WINDOW: '500ms', CALLGATE_RECONCILE_SWEEP_INTERVAL: '100ms',
      CALLGATE_EXECUTION_PATIENCE: '3s', CALLGATE_LOG_LEVEL: 'fatal',
    });
    replicas = await Promise.all([spawnGateway(house, env()), spawnGateway(house, env())]);
  }, 60_000);
  afterAll(async () => {
    for (const replica of replicas) await replica.kill9();
    await Promise.all([payouts.close(), house.close()]);
  });

  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const some = <T>(of: readonly T[]): T[] => of.filter(() => random(2) === 0);

  /** An answer that did not come is asked for again, with the same ids, of whichever replica is there. */
  async function propose(intent: string, args: object): Promise<Sent> {
    const call = { session_id: `s-${intent}`, intent_id: intent, call_id: unique('c'), tool: 'pay_out', arguments: args };
    for (let n = random(2); ; n++) {
      const answer = await (replicas[n % 2] as Spawned).agent.call(call).catch(() => undefined);
      if (answer && !['in_progress', 'unavailable', 'failed'].includes(answer.disposition) && answer.code !== 'NOT_COMMITTED') return answer;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async function settled(answer: Sent): Promise<Sent> {
    let now = answer;
    for (let n = 0; ['unknown', 'pending', 'in_progress'].includes(now.disposition); n++) {
      now = (await (replicas[n % 2] as Spawned).agent.get(`/v1/operations/${answer.operation_id}`, { prefer: 'wait=1' }).catch(() => undefined)) ?? now;
    }
    return now;
  }

  async function killOne(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, random(1_500)));
    const n = random(2) as 0 | 1;
    await replicas[n].kill9();
    replicas[n] = await spawnGateway(house, env());
  }

  it(`seed ${seed}, ${rounds} rounds: ITEMS_SEED and ITEMS_ROUNDS play others`, async () => {
    let resumed = 0;
    for (let round = 0; round < rounds; round++) {
      payouts.reset();
      payouts.faults = Array.from({ length: 12 }, () => faults[random(faults.length)] as PayoutFault | null);
      payouts.stubborn = Object.fromEntries(some(refs).map((ref) => [ref, { times: 1 + random(4), says: random(2) === 0 ? 'busy' : 'failed' }]));
      const intent = unique('i');
      const listOf = (wanted: string[]): object => ({ month: '2026-11', payees: wanted.map((ref) => ({ ref, amount: 100 })) });
      const lists = [refs, ...Array.from({ length: 4 }, () => some(refs)).filter(({ length }) => length > 0)];
      const killing = killOne();
      const answers = await Promise.all(lists.map(async (list) => settled(await propose(intent, listOf(list)))));
      await killing;

      const paid = (): Record<string, number> => Object.fromEntries([...new Set(payouts.books.map(({ ref }) => ref))].map((ref) => [ref, payouts.books.filter((one) => one.ref === ref).length]));
      const held = (given: Sent[]): void => {
        for (const { disposition, code, items = [] } of given) {
          expect(['executed', 'replayed', 'precondition_failed', 'rejected'], `${disposition} ${code}`).toContain(disposition);
          for (const { key, outcome } of items) if (outcome === 'committed') expect([key, paid()[key]]).toEqual([key, 1]);
        }
        for (const [ref, times] of Object.entries(paid())) expect([ref, times]).toEqual([ref, 1]);
      };
      held(answers);
      payouts.faults = [];
      payouts.stubborn = {};
      // What an answer left over is proposed as it says, until nothing is.
      let open = answers;
      for (let n = 0; n < 10 && open.length > 0; n++) {
        const left = open.flatMap((answer) => (answer.retry_with ? [answer.retry_with.arguments] : answer.disposition === 'rejected' ? [listOf(refs)] : []));
        open = [];
        for (const args of left) open.push(await settled(await propose(intent, args)));
        resumed += open.length;
        held(open);
      }
      expect(open).toEqual([]);
      expect(paid()).toEqual(Object.fromEntries(refs.map((ref) => [ref, 1])));
    }
    expect(resumed).toBeGreaterThan(0);
  }, 240_000);
});
