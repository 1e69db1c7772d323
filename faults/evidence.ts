/** What the ledger says of itself, by the control plane, for the checker to hold against the books. */
import { setTimeout as delay } from 'node:timers/promises';
import { type LedgerEntry, openStates } from './history.js';
import type { House } from './house.js';
import { inParallel } from './parallel.js';
import { ask } from './wire.js';

const readers = 6;

/** When nothing of it moves by itself any more, also what nobody asks after; or as it is at `untilMs`. */
export async function settledLedger(house: House, since: string, untilMs: number): Promise<LedgerEntry[]> {
  for (;;) {
    const ledger = await readLedger(house, since);
    if (!ledger.some(({ state }) => state !== 'parked' && openStates.has(state)) || performance.now() > untilMs) return ledger;
    await delay(200);
  }
}

/** Writes alone: reads have no effect to account for. */
async function readLedger(house: House, since: string): Promise<LedgerEntry[]> {
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
      const receipts = story['receipts'] as { id: string; kind: string; disposition: string; arguments?: Record<string, unknown> | null }[];
      entries.push({
        id, state: story['state'] as string, reason: story['reason'] as string | null, session: story['session_id'] as string, generation: story['generation'] as number,
        tool: story['tool'] as string, subject: story['subject'] as string, args: receipts.find(({ kind }) => kind === 'decision')?.arguments ?? {}, createdAt: story['created_at'] as string,
        receipts: receipts.map(({ id: receipt, kind, disposition }) => ({ id: receipt, kind, disposition })),
      });
    });
  }
  return entries;
}

/** Asked until there is an answer. @throws what it says, when it is none for long. */
export async function insist(house: House, path: string, key: string): Promise<Record<string, unknown>> {
  for (let tries = 0; ; tries++) {
    const heard = await ask(house.fleet.any(tries).controlUrl + path, key);
    if (heard?.http === 200) return heard.body;
    if (tries === 50) throw new Error(`${path} is answered ${heard?.http} ${heard?.text}`);
    await delay(200);
  }
}
