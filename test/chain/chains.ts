/** A ledger with its chain, for tests: real Postgres, the receipts written as calls write them. */
import pg from 'pg';
import { inject } from 'vitest';
import { openExporter } from '../../src/chain/export.js';
import { addKey, type KeyRing, readKeyRing } from '../../src/chain/keys.js';
import { Sealer } from '../../src/chain/sealer.js';
import { type Broken, type Known, readLine, type Summary, Verification } from '../../src/chain/verify.js';
import type { Receipt } from '../../src/gate/ports.js';
import { type LedgerStore, openLedger } from '../../src/ledger/ledger.js';
import { migrate } from '../../src/ledger/migrate.js';
import { openRecords, type RecordStore } from '../../src/ledger/records.js';
import { createSealer } from '../../src/ledger/seal.js';
import { projectFile } from '../../src/project.js';
import { newReceiptId } from '../../src/receipt-id.js';
import { freshDatabase } from '../support/servers.js';

export const ring = readKeyRing(JSON.stringify(addKey(null, 'k-1', new Date(Date.now() - 7_200_000), 0)));

export interface Chains {
  url: string;
  db: pg.Client;
  store: LedgerStore;
  records: RecordStore;
  /** What sealers said was wrong. */
  alarms: string[];
  sealer(owner: string, more?: { leaseMs?: number; checkpointMs?: number; keys?: KeyRing | null }): Sealer;
  write(receipts: readonly Receipt[]): Promise<void>;
  /** The lines of an export, and what verification finds in them. */
  lines(tenant: string, after?: number): Promise<string[]>;
  verify(tenant: string, known?: Known[], keys?: KeyRing): Promise<Broken | Summary>;
  close(): Promise<void>;
}

export async function openChains(): Promise<Chains> {
  const url = await freshDatabase(inject('databaseUrl'));
  await migrate(url, projectFile('migrations'));
  const db = new pg.Client({ connectionString: url });
  await db.connect();
  const connection = { url, statementTimeoutMs: 10_000, connectTimeoutMs: 5_000 };
  const store = openLedger({ ...connection, preparedStatements: true, poolSize: 2, maxBatch: 128, maxQueue: 4_096 }, createSealer('seal'));
  const records = openRecords({ ...connection, poolSize: 2 }, createSealer('seal'));
  const alarms: string[] = [];
  const lines = async (tenant: string, after = 0): Promise<string[]> => {
    let text = '';
    for await (const piece of openExporter(records.chain, ring, 10_000).lines(tenant, after)) text += piece;
    return text.trimEnd().split('\n');
  };
  return {
    url, db, store, records, alarms, lines,
    sealer: (owner, { leaseMs = 10_000, checkpointMs = 0, keys = ring } = {}) => new Sealer({
      store: store.chain, reader: records.chain, keys, owner, leaseMs, intervalMs: 50, checkpointMs, sealed: () => undefined, broken: () => undefined,
      log: { info: () => undefined, warn: () => undefined, error: (_fields, message) => void alarms.push(message) },
    }),
    async write(receipts) {
      await store.record({ receipts: [...receipts] });
    },
    verify: async (tenant, known = [], keys = ring) => verifyLines(await lines(tenant), known, keys),
    async close() {
      await Promise.all([store.close(), records.close(), db.end()]);
    },
  };
}

export function verifyLines(lines: readonly string[], known: readonly Known[] = [], keys: KeyRing = ring): Broken | Summary {
  const verification = new Verification(keys, known);
  for (const text of lines) {
    const line = readLine(text);
    if (!line) return { sequence: -1, what: `no line of an export: ${text.slice(0, 80)}` };
    const broken = verification.accept(line);
    if (broken) return broken;
  }
  return verification.finish() ?? verification.summary;
}

/** @param at when it was recorded: an hour ago, so that nothing is excused for being new. */
export function receipt(tenant: string, n: number, at = Date.now() - 3_600_000): Receipt {
  return {
    id: newReceiptId(at), kind: n % 2 === 0 ? 'decision' : 'effect', tenant, operationId: `op_${n}`, sessionId: `s-${n % 3}`, intentId: `i-${n}`, principal: 'agent-1', tool: 'issue_credit',
    disposition: 'executed', outcome: n % 2 === 0 ? null : 'committed', body: { arguments: { order_id: `O-${n}`, amount: n * 100 } },
  };
}
