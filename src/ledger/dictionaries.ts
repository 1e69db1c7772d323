/**
 * The dictionaries over which contents are packed. A receipt whose dictionary is not there could never be read, so the first ones of a dictionary
 * are written whole, with it beside them, and only once that is committed it is used; whether it is there Postgres asks again for every row, where
 * a failover or a restored backup may have lost it: a row that names none is refused (`receipts_whole`), and its flush goes again.
 */
import type { Receipt, ReceiptDictionary } from '../gate/ports.js';
import { indexed, largestDictionary } from './deflate.js';
import { hex } from './operation-row.js';
import type { LaneStatement } from './pipeline.js';
import { type KeptDictionary, type ReceiptRow, receiptRow } from './receipt-row.js';

/** In order, as all that flushes wait for each other for. What is there already has not changed. */
const keepText = `
with kept as (
  insert into receipt_dictionaries (digest, dictionary)
  select d.digest, d.dictionary
  from json_to_recordset($1::json) as d (digest bytea, dictionary bytea)
  where exists (select from receipt_packing)
  order by d.digest
  on conflict (digest) do nothing
)
select exists (select from receipt_packing) as packing`;

/** Where the operator has not said that all replicas can read what is packed (migration 0020). */
const askAgainMs = 30_000;

export interface KeepRow { packing: boolean }

/** Of a row in a statement: the id that its dictionary has here. @param digest SQL */
export const dictionaryId = (digest: string): string => `(select k.id from receipt_dictionaries k where k.digest = ${digest})`;

export class Dictionaries {
  private kept = new WeakMap<ReceiptDictionary, KeptDictionary>();
  private readonly wanted = new Map<string, ReceiptDictionary>();
  private askAgainAt = 0;

  /** Packed where that can be, else whole. */
  row(receipt: Receipt): ReceiptRow {
    const { dictionary } = receipt;
    if (!dictionary) return receiptRow(receipt);
    const kept = this.kept.get(dictionary);
    if (!kept && dictionary.bytes.length <= largestDictionary && performance.now() >= this.askAgainAt) this.wanted.set(hex(dictionary.digest), dictionary);
    return receiptRow(receipt, kept);
  }

  /** What a flush of the rows made so far has to bring along. `committed` is to be told once it is. */
  keep(): { statement: LaneStatement; committed(rows: readonly KeepRow[]): void } | undefined {
    if (this.wanted.size === 0) return undefined;
    const brought = [...this.wanted];
    this.wanted.clear();
    const values = [JSON.stringify(brought.map(([digest, { bytes }]) => ({ digest, dictionary: hex(bytes) })))];
    return {
      statement: { name: 'keep', text: keepText, values },
      committed: ([row]) => {
        if (!row?.packing) this.askAgainAt = performance.now() + askAgainMs;
        else for (const [digest, dictionary] of brought) this.kept.set(dictionary, { digest, index: indexed(dictionary.bytes) });
      },
    };
  }

  /** After a flush that failed nobody knows what the server has that answers next. */
  forget(): void {
    this.kept = new WeakMap();
  }
}
