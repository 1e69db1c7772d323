import { afterAll, beforeAll, expect, it } from 'vitest';
import { type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';

/** An application's key stands for one call. Two calls under one key that meet on two replicas: one runs, and the other is never told its answer. */
let house: House;
let both: [Opened, Opened];
beforeAll(async () => {
  house = await openHouse();
  both = [await openGateway(house), await openGateway(house)];
});
afterAll(async () => {
  await Promise.all(both.map(({ gateway }) => gateway.close()));
  await house.close();
});

const orders = ['O-417', 'O-420'] as const;

it('two calls on different orders under one key, at once on two replicas: one effect, one conflict', { timeout: 120_000 }, async () => {
  for (let round = 0; round < 40; round++) {
    const key = unique('k');
    const session = unique('s');
    const send = (n: 0 | 1, idempotency_key = key): Promise<Sent> => both[n].agent.credit({
      session_id: session, call_id: `c-${n}`, idempotency_key, arguments: { order_id: orders[n], amount: 1 },
    });
    const answers = await Promise.all([send(0), send(1)]);
    expect(answers.map(({ disposition }) => disposition).sort(), JSON.stringify(answers, null, 1)).toEqual(['executed', 'id_conflict']);
    // The one that was refused is free to run under a key of its own, under the same call id.
    const other = answers.findIndex(({ disposition }) => disposition === 'id_conflict') as 0 | 1;
    expect(await send(other, unique('k'))).toMatchObject({ disposition: 'executed', states: { [`order:${orders[other]}`]: 'DELIVERED' } });
  }
});
