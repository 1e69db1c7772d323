/** What the ledger says of itself, by the control plane, for the checker to hold against the books. */
import { setTimeout as delay } from 'node:timers/promises';
import type { LedgerEntry } from './history.js';
import type { House } from './house.js';
import { inParallel } from './parallel.js';
import { ask } from './wire.js';

const readers = 6;

/** Writes alone: reads have no effect to account for. */
export async function readLedger(house: House, since: string): Promise<LedgerEntry[]> {
  const entries: LedgerEntry[] = [];
  for (const tenant of ['acme', 'globex'] as const) {
    const key = house.keys.people[tenant].auditor;
    const writes: string[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const page = await insist(house, `/v1/operations?limit=500&from=${encodeURIComponent(since)}${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`, key);
      for (const { id, effect } of page['items'] as { id: string; effect: string }[]) if (effect !== 'none') writes.push(id);
      cursor = page['next_cursor'] as string | null;
    }
    await inParallel(writes, readers, async (id) => {
      const story = await insist(house, `/v1/operations/${id}`, key);
      const receipts = story['receipts'] as { id: string; kind: string }[];
      entries.push({ id, state: story['state'] as string, session: story['session_id'] as string, receipts: receipts.map((receipt) => ({ id: receipt.id, kind: receipt.kind })) });
    });
  }
  return entries;
}

async function insist(house: House, path: string, key: string): Promise<Record<string, unknown>> {
  for (let tries = 0; ; tries++) {
    const heard = await ask(house.fleet.any(tries).controlUrl + path, key);
    if (heard?.http === 200) return heard.body;
    if (tries === 50) throw new Error(`${path} is answered ${heard?.http} ${heard?.text}`);
    await delay(200);
  }
}
