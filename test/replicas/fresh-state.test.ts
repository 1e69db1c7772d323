import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { projectFile } from '../../src/project.js';
import { openGateway, openHouse, unique } from '../support/gateway.js';

/** Contracts of the example whose credit is not conditional at the service, with a rule that the service itself does not know. */
function contractsHeldByTheGuardKey(): string {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-contracts-'));
  cpSync(projectFile('examples', 'retail', 'contracts'), folder, { recursive: true });
  const file = join(folder, 'retail.yaml');
  const text = readFileSync(file, 'utf8');
  const changed = text.replace(', If-Match: "{order.version}" }', ' }').replace('check: args.amount <= order.refundable', 'check: args.amount + 1000 <= order.refundable');
  expect(changed.split('\n').filter((line, n) => line !== text.split('\n')[n])).toHaveLength(2);
  writeFileSync(file, changed);
  return folder;
}

/**
 * Between looking at an order and reserving the call, a gateway can be overtaken by a whole call on another one. If the first look were
 * then good enough, a rule that only the gateway knows would be broken, and no guard key would have said a word.
 */
it.each([
  ['conditional', undefined, { disposition: 'executed' }],
  ['held by the guard key alone', contractsHeldByTheGuardKey, { disposition: 'precondition_failed', code: 'AMOUNT_EXCEEDS_BALANCE' }],
] as const)('a write that is %s and was overtaken on another gateway is decided anew on what that one left', async (_, contracts, second) => {
  const house = await openHouse(contracts ? { CALLGATE_CONTRACTS_FOLDER: contracts() } : {});
  onTestFinished(() => house.close());
  const a = await openGateway(house);
  onTestFinished(() => a.gateway.close());
  let overtaking: Promise<{ disposition: string }> | undefined;
  const b = await openGateway(house, {}, {
    ledger: (ledger) => ({
      ...ledger,
      async reserve(intent) {
        overtaking ??= a.agent.credit({ session_id: unique('a'), arguments: { amount: 2_000 } });
        await overtaking;
        return ledger.reserve(intent);
      },
    }),
  });
  onTestFinished(() => b.gateway.close());
  expect(await b.agent.credit({ session_id: unique('b'), arguments: { amount: 2_500 } })).toMatchObject(second);
  expect(await overtaking).toMatchObject({ disposition: 'executed' });
  const { credits, requests } = await house.shop.books();
  expect(requests['POST /orders/{id}/credits']).toBe(credits.length);
  expect(credits.map(({ amount }) => amount)).toEqual(second.disposition === 'executed' ? [2_000, 2_500] : [2_000]);
});
