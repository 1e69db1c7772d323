/**
 * Kill -9 while states that only the gateway knows are being moved, with answers lost on the way: in the end each state is what the books of
 * the service say was done, no more and no less. If it is not, an order is charged twice, or can never be charged.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { decideNow } from '../people/reviews.js';
import { Agent, type House, openHouse, type Sent, spawnGateway, type Spawned, unique } from '../support/gateway.js';
import { type Checkout, type CheckoutFault, checkoutFolder, type CheckoutTool, openCheckout } from '../support/checkout.js';
import { quickEnv } from './quick.js';

let house: House;
let checkout: Checkout;
beforeAll(async () => {
  checkout = await openCheckout();
  house = await openHouse(quickEnv({ CALLGATE_CONTRACTS_FOLDER: checkoutFolder(), CHECKOUT_URL: checkout.url }));
});
afterAll(async () => {
  await checkout.close();
  await house.close();
});

const kills = 3;
const faults: CheckoutFault[] = ['commit_then_drop', 'drop_before_commit', 'commit_then_drop'];
const after: Record<string, string> = { '': 'NEW', create_transaction: 'CREATED', 'create_transaction,charge_payment': 'CHARGED', 'create_transaction,cancel': 'CANCELLED' };

it(`${kills} kills of one of two replicas: what was done on each entity is a path of its table, and its state is where that path ends`, async () => {
  const session = unique('s');
  const orders = Array.from({ length: 8 }, () => unique('k').slice(0, 20));
  const proposals = orders.flatMap((order) => (['create_transaction', 'charge_payment', 'cancel'] as const).map((tool) => ({
    session_id: session, call_id: `${tool}/${order}`, tool, arguments: { order_id: order, ...(tool === 'create_transaction' ? { amount: 7 } : {}) },
  })));
  let replicas: Spawned[] = await Promise.all([spawnGateway(house), spawnGateway(house)]);
  const one = (n: number): Spawned => replicas[n % replicas.length] as Spawned;
  for (let kill = 0; kill < kills; kill++) {
    const round = proposals.filter((_, n) => n % kills <= kill);
    for (const [n, { tool }] of round.entries()) if (n % 3 === kill) checkout.faults.push({ tool, fault: faults[n % faults.length] as CheckoutFault });
    const answers = round.map((proposal, n) => one(n).agent.call(proposal).catch(() => null));
    const before = checkout.effects.length;
    for (let n = 0; n < 500 && checkout.effects.length < before + 2; n++) await new Promise((resolve) => { setTimeout(resolve, 5); });
    await one(0).kill9();
    await Promise.all(answers);
    replicas = [one(1), await spawnGateway(house)];
  }
  checkout.faults.length = 0;
  const settled = async (proposal: (typeof proposals)[number]): Promise<Sent> => {
    for (let n = 0; ; n++) {
      const answer = await one(n).agent.call(proposal, { prefer: 'wait=5' });
      // Its replica died with it, it is proven absent, and the service keeps no keys: a second send is a person's to order, once it was looked for in the books.
      if (answer.disposition === 'review') {
        const decision = checkout.effects.some(({ key }) => key === answer.operation_id) ? 'committed' : 'not_committed';
        expect(await decideNow(new Agent(one(n).controlUrl, house.keys.reviewer), answer.review_id as string, { decision })).toMatchObject({ http: 200 });
        continue;
      }
      if (!['unknown', 'in_progress', 'unavailable', 'failed'].includes(answer.disposition) || n > 30) return answer;
    }
  };
  for (const order of orders) {
    const answers: Sent[] = [];
    for (const proposal of proposals.filter(({ arguments: { order_id } }) => order_id === order)) answers.push(await settled(proposal));
    const done: CheckoutTool[] = checkout.effects.filter((effect) => effect.order === order).map(({ tool }) => tool);
    expect(Object.keys(after), JSON.stringify(answers)).toContain(done.join());
    expect(answers.filter(({ outcome }) => outcome === 'committed')).toHaveLength(done.length);
    const { states } = await one(1).agent.call({ session_id: session, tool: 'quote_fee', arguments: { order_id: order } });
    expect(states).toEqual({ [`transaction:${order}`]: after[done.join()] });
    expect(done).not.toHaveLength(1);
  }
  await Promise.all(replicas.map((replica) => replica.stop()));
}, 240_000);
