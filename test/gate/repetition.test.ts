/**
 * The same call for ever (case-37): people saw 220 equal reads in 25 minutes. From the third equal read on the session is told the last answer
 * in the place of another one, until something was written or a read failed. Counted in the requests that reached the service.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Agent, type House, openGateway, openHouse, type Opened, type Sent, unique } from '../support/gateway.js';

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

const agent = (n: number): Agent => (both[n % 2] as Opened).agent;
const reads = async (): Promise<number> => (await house.shop.books()).requests['GET /orders/{id}'] ?? 0;
const get = (n: number, session: string, more: object = {}): Promise<Sent> => agent(n).call({ session_id: session, tool: 'get_order', arguments: { order_id: 'O-420' }, ...more });

describe('equal reads', () => {
  it.each([['minted', () => ({})], ['their own', (n: number) => ({ call_id: `c-${n}`, turn_id: `t-${n}` })]] as const)(
    'case-37: 220 of them with %s ids over two replicas reach the service twice; the rest is told, and when it was observed', { timeout: 60_000 }, async (_, ids) => {
      const session = unique('s');
      const before = await reads();
      const began = Date.now();
      const answers: Sent[] = [];
      for (let n = 0; n < 220; n++) answers.push(await get(n, session, ids(n)));
      expect(await reads() - before).toBe(2);
      expect(answers.slice(0, 2).map(({ disposition }) => disposition)).toEqual(['executed', 'executed']);
      for (const answer of answers.slice(2)) {
        expect(answer).toMatchObject({
          http: 200, disposition: 'replayed', next_action: 'continue', notice: 'REPEATED_READ', evidence_of_change: false,
          result: answers[1]?.result, states: { 'order:O-420': 'DELIVERED' }, operation_id: answers[1]?.operation_id,
        });
        const observed = Date.parse((answer as unknown as { observed_at: string }).observed_at);
        expect(observed).toBeGreaterThanOrEqual(began);
        expect(observed).toBeLessThanOrEqual(Date.now());
      }
    });

  it('are those of one session, subject, tool and arguments', async () => {
    const session = unique('s');
    for (let n = 0; n < 3; n++) await get(n, session);
    const before = await reads();
    expect(await get(0, unique('s'))).toMatchObject({ disposition: 'executed' });
    expect(await get(0, session, { arguments: { order_id: 'O-417' } })).toMatchObject({ disposition: 'executed' });
    expect(await both[0].as(house.keys.otherAgent).call({ session_id: session, tool: 'get_order', arguments: { order_id: 'O-420' } })).toMatchObject({ disposition: 'executed' });
    expect(await both[0].as(house.keys.otherSubject).call({ session_id: session, tool: 'get_order', arguments: { order_id: 'O-420' } })).toMatchObject({ code: 'NOT_FOUND' });
    expect(await both[0].as(house.keys.otherTenant).call({ session_id: session, tool: 'get_order', arguments: { order_id: 'O-420' } })).toMatchObject({ code: 'NOT_FOUND' });
    expect(await reads() - before).toBe(5);
    expect(await get(1, session)).toMatchObject({ notice: 'REPEATED_READ' });
  });

  it('the count begins anew after a committed write of the session: never is a world told that the session itself has changed', async () => {
    const session = unique('s');
    for (let n = 0; n < 3; n++) await get(n, session);
    const told = await get(0, session);
    expect(told.notice).toBe('REPEATED_READ');
    expect(await agent(1).credit({ session_id: session, arguments: { order_id: 'O-420', amount: 100 } })).toMatchObject({ disposition: 'executed' });
    const fresh = await get(0, session);
    expect(fresh).toMatchObject({ disposition: 'executed', result: { refundable: (told.result as { refundable: number }).refundable - 100 } });
    expect(await get(1, session)).toMatchObject({ disposition: 'executed' });
    expect(await get(0, session)).toMatchObject({ notice: 'REPEATED_READ', result: fresh.result });
  });

  it('the count begins anew after a read that failed', async () => {
    const session = unique('s');
    await get(0, session);
    await house.shop.fault({ tool: 'get_order', kind: '429', retry_after: 0 });
    expect(await get(1, session)).toMatchObject({ disposition: 'rate_limited' });
    const answers: Sent[] = [];
    for (let n = 0; n < 3; n++) {
      let answer = await get(n, session);
      while (answer.disposition === 'rate_limited') answer = await get(n, session);
      answers.push(answer);
    }
    expect(answers.map(({ disposition }) => disposition)).toEqual(['executed', 'executed', 'replayed']);
  });

  it('while a write of the session may have happened and has not settled, each is made: its effect may show at any moment', async () => {
    const session = unique('s');
    for (let n = 0; n < 3; n++) await get(n, session);
    await house.shop.fault({ tool: 'issue_credit', kind: 'drop_before_commit' });
    const open = await agent(0).credit({ session_id: session, arguments: { order_id: 'O-420', amount: 25 } }, { prefer: 'wait=1' });
    expect(open).toMatchObject({ disposition: 'unknown' });
    for (let n = 0; n < 4; n++) expect(await get(n, session)).toMatchObject({ disposition: 'executed' });
    await agent(1).settled(open.operation_id as string);
  });

  it('the count begins anew after a refusal that asks for the present state: what it asks for is to be had', async () => {
    const session = unique('s');
    for (let n = 0; n < 3; n++) await get(n, session);
    const stranger = both[0].as(house.keys.otherAgent);
    expect(await stranger.credit({ session_id: unique('s'), arguments: { order_id: 'O-420', amount: 30 } })).toMatchObject({ disposition: 'executed' });
    const credit = { session_id: session, arguments: { order_id: 'O-420', amount: 40 } };
    expect(await agent(1).credit(credit)).toMatchObject({ disposition: 'version_conflict', next_action: 'refresh' });
    expect(await get(0, session)).toMatchObject({ disposition: 'executed' });
    expect(await agent(1).credit(credit)).toMatchObject({ disposition: 'executed' });
  });

  it('one that is told rests on the right to the resource, as any replay', async () => {
    const session = unique('s');
    for (let n = 0; n < 2; n++) await get(n, session);
    // The credential loses its customer between two reads; the cache of keys is a second long.
    const revoked = both[0].as(house.keys.otherSubject);
    expect(await revoked.call({ session_id: session, tool: 'get_order', arguments: { order_id: 'O-420' } })).toMatchObject({ http: 404, code: 'NOT_FOUND' });
  });

  it('one whose answer is told binds nothing: its call id made anew after a write is made', async () => {
    const session = unique('s');
    for (let n = 0; n < 2; n++) await get(n, session);
    expect(await get(0, session, { call_id: 'later' })).toMatchObject({ notice: 'REPEATED_READ', call_id: 'later' });
    expect(await agent(0).credit({ session_id: session, arguments: { order_id: 'O-420', amount: 50 } })).toMatchObject({ disposition: 'executed' });
    expect(await get(1, session, { call_id: 'later' })).toMatchObject({ disposition: 'executed', call_id: 'later' });
  });
});
