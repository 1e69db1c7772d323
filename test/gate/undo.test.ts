import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';

/**
 * What was done is taken back by the call that the contract names, with the values of what was done, once, whoever proposes it and under
 * whatever ids. If this is lost, an undo that is planned again takes back twice, or takes back something else.
 */
describe('taking back', () => {
  let house: House;
  let one: Opened;
  let two: Opened;
  beforeAll(async () => {
    house = await openHouse();
    [one, two] = [await openGateway(house), await openGateway(house)];
  });
  beforeEach(() => house.shop.reset());
  afterAll(async () => {
    await Promise.all([one.gateway.close(), two.gateway.close()]);
    await house.close();
  });
  const credit = (): Promise<Sent> => one.agent.credit({ session_id: unique('s'), intent_id: unique('i'), call_id: 'c-1' });
  const undo = (agent: Agent, of: Sent, change: object = {}): Promise<Sent> =>
    agent.call({ session_id: unique('s'), intent_id: unique('i'), call_id: unique('c'), ...of.compensate, ...change });

  it('it is offered with the values of what was done, and recorded on both', async () => {
    const done = await credit();
    expect(done.compensate).toEqual({ tool: 'void_credit', arguments: { receipt_id: (done.result as { receipt_id: string }).receipt_id } });
    const undone = await undo(one.agent, done);
    expect(undone).toMatchObject({ disposition: 'executed', outcome: 'committed', compensates: done.operation_id });
    const after = await one.agent.get(`/v1/operations/${done.operation_id}`);
    expect(after).toMatchObject({ disposition: 'executed', result: done.result, compensated_by: undone.operation_id });
    expect(after.compensate).toBeUndefined();
    const { receipts } = (await one.control().get(`/v1/operations/${undone.operation_id}`)) as unknown as { receipts: object[] };
    for (const receipt of receipts) expect(receipt).toMatchObject({ compensates: done.operation_id });
  });

  it('once, under any session, intent, call id, key and occurrence, at the same time on two replicas', async () => {
    const done = await credit();
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) =>
      undo(n % 2 === 0 ? one.agent : two.agent, done, n % 4 === 3 ? { idempotency_key: unique('k') } : {})));
    expect(new Set(answers.map(({ operation_id: id }) => id)).size).toBe(1);
    for (const answer of answers) expect(answer).toMatchObject({ outcome: 'committed', result: { voided: true } });
    expect(answers.filter(({ disposition }) => disposition === 'executed')).toHaveLength(1);
    expect((await house.shop.books()).voids).toHaveLength(1);
    expect(await undo(two.agent, done)).toMatchObject({ disposition: 'replayed' });
  });

  it('after one that had no effect it can be taken back still', async () => {
    const done = await credit();
    await house.shop.fault({ tool: 'void_credit', kind: '429', retry_after: 0 });
    const first = await undo(one.agent, done);
    expect(first).toMatchObject({ disposition: 'rate_limited' });
    expect((await one.agent.get(`/v1/operations/${done.operation_id}`)).compensate).toEqual(done.compensate);
    let second = await undo(one.agent, done);
    while (second.disposition === 'rate_limited') second = await undo(one.agent, done);
    expect(second).toMatchObject({ disposition: 'executed', compensates: done.operation_id });
    expect((await house.shop.books()).voids).toHaveLength(1);
  });

  it('each effect has its own; other arguments are a call of their own', async () => {
    const [first, second] = [await credit(), await credit()];
    const [a, b] = [await undo(one.agent, first), await undo(two.agent, second)];
    expect([a.compensates, b.compensates]).toEqual([first.operation_id, second.operation_id]);
    const other = await undo(one.agent, first, { arguments: { receipt_id: 'CR-NOBODY' } });
    expect(other).toMatchObject({ http: 404 });
    expect(other.compensates).toBeUndefined();
    expect((await house.shop.books()).voids).toHaveLength(2);
  });

  it('nobody else is offered it, nor takes it back as this', async () => {
    const done = await credit();
    const theirs = await undo(one.as(house.keys.otherAgent), done);
    expect(theirs.compensates).toBeUndefined();
    expect(await one.as(house.keys.otherAgent).get(`/v1/operations/${done.operation_id}`)).toMatchObject({ http: 404 });
    expect((await house.shop.books()).voids.length).toBeLessThanOrEqual(1);
  });
});
