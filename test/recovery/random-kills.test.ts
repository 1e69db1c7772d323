import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Agent, type House, openHouse, type Sent, spawnGateway, type Spawned } from '../support/gateway.js';
import { extraOrder } from './many-orders.js';
import { quickEnv } from './quick.js';

vi.mock('../../examples/retail/service/seed.js', async (original) => (await import('./many-orders.js')).manyOrders(await original()));

/**
 * Kill -9 at random moments under load, with a service that loses answers: each intent ends as the books say. If this is lost, no refund
 * that was under way during a deploy, an OOM kill or a power cut can be trusted, and the audit log lacks what happened (case-50).
 * CALLGATE_KILLS sets how many kills (15), CALLGATE_SEED repeats a run.
 */
const kills = Number(process.env['CALLGATE_KILLS'] ?? 15);
const seed = Number(process.env['CALLGATE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const parallel = 8;
const orders = 40;
const callsPerKill = 10;

const kinds = ['commit_then_drop', 'commit_then_500', 'drop_before_commit', '503_not_started', 'delay_commit', 'slow_reply', 'truncate_body', 'bad_json', 'accept_202'];

/** mulberry32 */
function random(from: number): () => number {
  let a = from;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Intent { order: string; amount: number; body: object; final: Sent | null }

describe('kill -9 at random moments under load', () => {
  let house: House;
  beforeAll(async () => { house = await openHouse(quickEnv()); });
  afterAll(() => house.close());

  it(`case-50, ${kills} kills (seed ${seed}): effects = intents that ended as committed, each on record, nothing stuck, nothing twice`, async () => {
    console.log(`CALLGATE_SEED=${seed} CALLGATE_KILLS=${kills}`);
    const next = random(seed);
    const pick = <T>(all: readonly T[]): T => all[Math.floor(next() * all.length)] as T;
    // Several intents of different amounts on each order: what one leaves open holds the others back, and must let them go.
    const intents = Array.from({ length: kills * callsPerKill }, (_, n): Intent => {
      const order = extraOrder(n % orders);
      const amount = 100 + n;
      return { order, amount, final: null, body: { session_id: `s-${n}`, call_id: `c-${n}`, tool: 'issue_credit', arguments: { order_id: order, amount, currency: 'GBP' } } };
    });
    let faults = 0;
    let interrupted = 0;
    let cursor = 0;
    let up: Spawned = await spawnGateway(house);

    /** One caller: proposes intents in turn, and after a cut connection goes on with the next one. */
    const caller = async (agent: Agent): Promise<void> => {
      for (let intent = intents[cursor++]; intent; intent = intents[cursor++]) {
        if (next() < 0.5) {
          faults++;
          await house.shop.fault({ tool: 'issue_credit', kind: pick(kinds), ms: Math.floor(next() * 900) });
        }
        if (next() < 0.1) await house.shop.fault({ tool: 'get_credit_receipt', kind: pick(['commit_then_500', 'truncate_body', 'drop_before_commit']) });
        try {
          keep(intent, await agent.call(intent.body as { [member: string]: unknown }));
        } catch {
          interrupted++;
          return;
        }
        if (cursor % callsPerKill === 0) return;
      }
    };
    for (let kill = 0; kill < kills; kill++) {
      const callers = Array.from({ length: parallel }, () => caller(up.agent));
      await new Promise((resolve) => setTimeout(resolve, 20 + next() * 600));
      await up.kill9();
      await Promise.all(callers);
      up = await spawnGateway(house);
    }
    const idle = intents.slice(cursor);

    const began = performance.now();
    await inParallel(intents, parallel * 2, async (intent) => settle(intent, up.agent));
    const tookMs = Math.round(performance.now() - began);
    const { credits } = await house.shop.books();
    for (const intent of intents) {
      const effects = credits.filter(({ order_id, amount }) => order_id === intent.order && amount === intent.amount);
      const committed = intent.final?.outcome === 'committed';
      expect(effects.length, `${JSON.stringify(intent.body)} ended ${JSON.stringify(intent.final)}`).toBe(committed ? 1 : 0);
      expect(intent.final?.disposition).toMatch(/^(executed|replayed)$/);
    }
    expect(credits).toHaveLength(intents.length);
    expect(await unrecorded(house.databaseUrl, credits.map(({ key }) => key))).toEqual([]);
    console.log(`${kills} kills, ${intents.length} intents (${idle.length} first proposed afterwards), ${faults} faults, ${interrupted} calls cut off, all final ${tookMs} ms after the last start`);
    expect(faults).toBeGreaterThan(kills);
    expect(interrupted).toBeGreaterThan(kills / 2);
    expect(await up.stop()).toBe(0);
  }, 60_000 + kills * 8_000);
});

/** Keys of effects without the receipt of the decision that let them happen, or without the one that says what came of it. */
async function unrecorded(databaseUrl: string, keys: string[]): Promise<string[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ key: string }>(`
      select k.key from unnest($1::text[]) as k (key)
      where (select count(distinct r.kind) from operations o join receipts r on r.tenant = o.tenant and r.operation_id = o.operation_id
        where o.upstream_key = k.key and r.kind in ('decision', 'effect')) < 2`, [keys]);
    return rows.map(({ key }) => key);
  } finally {
    await client.end();
  }
}

/** Once an effect is known, the same answer for ever. */
function keep(intent: Intent, answer: Sent): void {
  expect(answer.http === 408 || (answer.http >= 500 && answer.outcome !== null), `${answer.http} ${answer.disposition}`).toBe(false);
  if (intent.final?.outcome === 'committed') expect(answer).toMatchObject({ operation_id: intent.final.operation_id, outcome: 'committed', result: intent.final.result ?? answer.result });
  intent.final = answer;
}

/** The same call again while it is told to wait, to verify or to try again with the same ids. */
async function settle(intent: Intent, agent: Agent): Promise<void> {
  const end = performance.now() + 30_000;
  do {
    keep(intent, await agent.call(intent.body as { [member: string]: unknown }, { prefer: 'wait=10' }));
    if (!['wait', 'verify', 'retry'].includes(intent.final?.next_action ?? '')) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  } while (performance.now() < end);
}

async function inParallel<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  await Promise.all(Array.from({ length: width }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  }));
}
