import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { isMap, parseDocument } from 'yaml';
import { type House, openGateway, openHouse, unique } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { spawnFused, until } from './process.js';
import { changedContracts, quickContracts, quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * Contracts are changed by a deployment, and a deployment kills processes. What had begun ends under the contract that it began with, which the
 * ledger kept: read by new rules, an effect could be taken for absent and be made a second time, or an answer be given that nobody proved.
 */
describe('a process is killed, and the next one starts with other contracts', () => {
  let house: House;
  let n = 0;
  beforeAll(async () => { house = await openHouse(quickEnv()); });
  afterAll(() => house.close());

  const creditsOf = async (order: string): Promise<unknown[]> => (await house.shop.books()).credits.filter(({ order_id }) => order_id === order);
  /** Of another version, and by its read-back no credit was ever given. */
  const blind = (): string => quickContracts([['version: 3.1.0', 'version: 4.0.0'], ['committed: result.count == 1 && result.amount == args.amount', 'committed: result.count == 99'], ['absent: result.count == 0', 'absent: result.count < 99']]);

  it.each<[string, () => string, boolean]>([
    ['whose read-back would say that nothing happened', blind, true],
    ['that have no such tool any more', () => without('issue_credit'), false],
  ])('%s: what was torn is settled by its own read-back, once', async (_, contracts, known) => {
    const order = extraOrder(n++);
    const body = { session_id: unique('s'), call_id: 'c-1', arguments: { order_id: order } };
    const dying = await spawnFused(house, 'after_exchange');
    await expect(dying.agent.credit(body)).rejects.toThrow();
    expect(await dying.ended).toBe('SIGKILL');
    expect(await creditsOf(order)).toHaveLength(1);

    const { gateway, agent, control } = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: contracts() });
    try {
      const [torn] = ((await control().get(`/v1/operations?session_id=${body.session_id}`)) as unknown as { items: { id: string }[] }).items;
      const settled = await agent.settled(torn!.id);
      expect(settled).toMatchObject({ disposition: 'executed', outcome: 'committed', verified: true, contract: { version: '3.1.0' }, result: { amount: 2500 } });
      const served = (await control().get('/v1/contracts')) as unknown as { tools: { name: string; digest: string }[] };
      const now = served.tools.find(({ name }) => name === 'issue_credit');
      expect(now === undefined).toBe(!known);
      expect(settled.contract?.digest).not.toBe(now?.digest);
      expect(await control().get(`/v1/receipts/${settled.receipts.effect}`)).toMatchObject({ kind: 'effect', outcome: 'committed', contract: settled.contract });
      expect(await creditsOf(order)).toHaveLength(1);
      const other = { ...body, session_id: unique('s'), arguments: { order_id: order, amount: 1 } };
      expect(await agent.credit(other)).toMatchObject(known ? { contract: { version: '4.0.0' } } : { http: 404, code: 'BLOCKED_TOOL' });
    } finally {
      await gateway.close();
    }
  }, 60_000);

  it('what was accepted is polled by its own read-back until it is there', async () => {
    const order = extraOrder(n++);
    await house.shop.fault({ tool: 'issue_credit', kind: 'accept_202', ms: 3_000 });
    const first = await spawnFused(house, 'never');
    const answer = await first.agent.credit({ session_id: unique('s'), arguments: { order_id: order } }, { prefer: 'wait=0' });
    expect(answer).toMatchObject({ disposition: 'pending', contract: { version: '3.1.0' } });
    first.signal('SIGKILL');
    await first.ended;
    expect(await creditsOf(order)).toHaveLength(0);

    const { gateway, agent } = await openGateway(house, { CALLGATE_CONTRACTS_FOLDER: without('issue_credit') });
    try {
      await until(async () => (await creditsOf(order)).length > 0, 10_000);
      expect(await agent.settled(answer.operation_id as string)).toMatchObject({ disposition: 'executed', verified: true, contract: answer.contract, result: { amount: 2500 } });
      expect(await creditsOf(order)).toHaveLength(1);
    } finally {
      await gateway.close();
    }
  }, 60_000);
});

/** The example without a tool, and without its actions in the table. */
function without(tool: string): string {
  const folder = changedContracts();
  const file = join(folder, 'retail.yaml');
  const document = parseDocument(readFileSync(file, 'utf8'));
  document.deleteIn(['tools', tool]);
  const table = document.getIn(['entities', 'order', 'transitions']);
  for (const { value } of isMap(table) ? table.items : []) if (isMap(value)) value.delete(tool);
  writeFileSync(file, document.toString());
  return folder;
}
