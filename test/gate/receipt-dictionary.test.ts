import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dictionaryFor } from '../../src/gate/receipt-dictionary.js';
import { contentColumns, type ContentRow, contentsOf } from '../../src/ledger/content.js';
import type { ToolPlan } from '../../src/contract/plan.js';
import { type House, openGateway, openHouse, type Opened } from '../support/gateway.js';
import { compiled } from '../tau/edition.js';

const edition = compiled('tau1');
const ofTool = (tool: ToolPlan, policy = edition.policy) => dictionaryFor(tool, policy);

/** Replicas share it by its digest, and no erasure reaches it. */
describe('the dictionary of a tool', () => {
  it('is the same from the same contract, and another one of another contract or policies', () => {
    const [one, again] = [compiled('tau1'), compiled('tau1')].map(({ tool, policy }) => dictionaryFor(tool('cancel_pending_order'), policy));
    expect(again?.bytes.equals(one?.bytes as Buffer)).toBe(true);
    expect(again?.digest).toEqual(one?.digest);
    expect(ofTool(edition.tool('cancel_pending_order'), { ...edition.policy, version: 'sha256:other' }).digest).not.toEqual(one?.digest);
    expect(ofTool(edition.tool('get_order_details')).digest).not.toEqual(one?.digest);
  });

  it('is small however large the schema of a tool is, and keeps what every receipt of it has', () => {
    const properties = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`member_${n}`, { enum: ['é'.repeat(50), n] }]));
    const tool = { ...edition.tool('cancel_pending_order'), argsSchema: { type: 'object', properties }, resultSchema: { type: 'array', items: { $ref: '#' } } };
    const { bytes } = ofTool(tool);
    expect(bytes.length).toBeLessThanOrEqual(6 * 1024);
    expect(bytes.toString()).toContain('"roles":["agent"]');
  });
});

describe('receipts of real calls', () => {
  let house: House;
  let open: Opened;
  let db: pg.Client;
  beforeAll(async () => {
    house = await openHouse();
    open = await openGateway(house);
    db = new pg.Client({ connectionString: house.databaseUrl });
    await db.connect();
  });
  afterAll(async () => {
    await open.gateway.close();
    await db.end();
    await house.close();
  });

  it('are a quarter of their text or less, and leave nothing of a call in a dictionary', async () => {
    for (const amount of [101, 102, 103]) {
      await open.agent.credit({ session_id: 's-personal', intent_id: 'intent-personal', arguments: { order_id: 'O-417', amount } });
      await open.agent.call({ session_id: 's-personal', tool: 'get_order', arguments: { order_id: 'O-417' } });
      await open.agent.call({ session_id: 's-personal', tool: 'issue_credit', arguments: { order_id: 'O-417', amount: 999_999, currency: 'GBP' } });
    }
    const { rows } = await db.query<ContentRow>(`select ${contentColumns} from receipts r where r.packed is not null`);
    expect(rows.length).toBeGreaterThan(6);
    const texts = await contentsOf(db, rows);
    const lengths = rows.map(({ packed }, n) => (packed as Buffer).length / (texts[n] as string).length);
    expect(lengths.reduce((sum, each) => sum + each, 0) / rows.length).toBeLessThan(0.25);
    const { rows: kept } = await db.query<{ dictionary: Buffer }>('select dictionary from receipt_dictionaries');
    expect(kept.length).toBeGreaterThan(1);
    for (const { dictionary } of kept) expect(dictionary.toString()).not.toMatch(/C-17|O-417|agent-1|personal|CR-|10[123]|999999/);
  });
});
