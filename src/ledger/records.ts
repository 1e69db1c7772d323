/** What the control plane reads: keyset pages, always of one tenant, on connections of its own and bounded in time. */
import type { ChainReader } from '../chain/sealer.js';
import type { Approvals, AttemptRecord, Reviews } from '../gate/ports.js';
import type { Page, Records } from '../ports.js';
import type { Json, JsonObject } from '../model.js';
import { findApproval, listApprovals } from './approvals.js';
import { attemptsOf } from './attempts.js';
import { openChainReader } from './chain-reader.js';
import { digest } from './chain-row.js';
import { createPool } from './connection.js';
import { contentColumns, type ContentRow, receiptsOf, shownOf } from './content.js';
import { writeCursor } from './cursor.js';
import { listOperations, listReceipts } from './lists.js';
import { digestOf } from './operation-row.js';
import { inSnapshot, instant, type ReadOf } from './pages.js';
import { findReview, listReviews } from './reviews.js';
import type { Sealer } from './seal.js';

export interface RecordsOptions {
  url: string;
  /** Few: whoever browses must not take from those who call. */
  poolSize: number;
  /** Of one statement, by the server's clock. */
  statementTimeoutMs: number;
  connectTimeoutMs: number;
  /** How long a list is searched for one page of what its filter lets through. */
  searchMs?: number;
}

/** Half of what a page may take: the step that is under way then is finished. */
const searchedMs = 250;

export interface RecordStore extends Records {
  reviews: Reviews;
  approvals: Approvals;
  chain: ChainReader;
  close(): Promise<void>;
}

/** All reads reject with BadCursor for a cursor that is none, and LedgerUnavailable when the database is away, busy or too slow. */
export function openRecords(options: RecordsOptions, sealer: Sealer): RecordStore {
  // The server ends a statement first; the client's own timer is for a server that does not answer at all.
  const pool = createPool({ ...options, preparedStatements: false, statementTimeoutMs: options.statementTimeoutMs + 1_000 }, options.poolSize);
  // The statement that was under way fails too and says it; without a listener a lost connection would end the process.
  pool.on('connect', (client) => void client.on('error', () => undefined));
  const withinMs = options.searchMs ?? searchedMs;
  /** The only way to a connection here: nobody reads without saying for whom. */
  const read: ReadOf = (tenant, work) => inSnapshot(pool, { tenant, timeoutMs: options.statementTimeoutMs }, work);
  return {
    async receipts(tenant, filter): Promise<Page<JsonObject>> {
      const list = listReceipts<ContentRow>(contentColumns, filter, { tenant, withinMs });
      return read(tenant, async (client) => {
        const { rows, after } = await list(client);
        return { items: await shownOf(client, rows), next_cursor: after && writeCursor('receipts', after) };
      });
    },
    async receipt(tenant, id) {
      return read(tenant, async (client) => {
        const { rows } = await client.query<ContentRow>(`select ${contentColumns} from receipts r where r.tenant = $1 and r.id = $2`, [tenant, id]);
        const [row] = rows;
        return row ? { ...(await shownOf(client, rows))[0], digest: digest(row.digest) } : null;
      });
    },
    async operations(tenant, filter) {
      const { rows, after } = await read(tenant, listOperations<Summary>(summaryColumns, filter, { tenant, withinMs }));
      return { items: rows.map(summary), next_cursor: after && writeCursor('operations', after) };
    },
    async operation(tenant, id) {
      const story = await read(tenant, async (client) => {
        const { rows: [row] } = await client.query<Summary>(`select ${summaryColumns} from operations o where tenant = $1 and operation_id = $2`, [tenant, id]);
        if (!row) return null;
        const receipts = await receiptsOf(client, tenant, id);
        const again = await client.query<{ at: string }>(
          `select ${instant('created_at')} as at from calls where tenant = $1 and operation_id = $2 and again order by calls.created_at`, [tenant, id],
        );
        const callbacks = await client.query<JsonObject>(
          `select service, event_id, ${instant('received_at')} as received_at, weighed from callbacks c where c.tenant = $1 and c.operation_id = $2 order by c.received_at`, [tenant, id],
        );
        return { row, receipts, again: again.rows, callbacks: callbacks.rows };
      });
      return story && {
        ...summary(story.row),
        proposals: [{ at: story.row.created_at }, ...story.again].map(({ at }) => ({ answered_from: at })),
        callbacks: story.callbacks,
        receipts: story.receipts,
      };
    },
    reviews: {
      list: async (tenant, filter) => read(tenant, listReviews(tenant, filter)),
      find: (tenant, id) => read(tenant, (client) => findReview(client, sealer, tenant, id)),
    },
    approvals: {
      list: async (tenant, filter) => read(tenant, listApprovals(tenant, filter)),
      find: (tenant, id) => read(tenant, (client) => findApproval(client, sealer, tenant, id)),
    },
    chain: openChainReader(read),
    close: () => pool.end(),
  };
}

const summaryColumns = `operation_id, generation, state, outcome, reason, verified, effect, tool, contract_version, ${digestOf('contract_digest')}, principal, subject,
  session_id, turn_id, intent_id, call_id, purpose, attempt, attempts, attempts_brief, fence, owner, decision_receipt, effect_receipt, review_id,
  ${instant('created_at')} as created_at, ${instant('settled_at')} as settled_at, ${instant('due_at')} as due_at`;

type Summary = JsonObject & { operation_id: string; created_at: string; attempts_brief: string | null };

function summary(row: Summary): JsonObject {
  const { operation_id, attempts, attempts_brief, ...rest } = row;
  return { id: operation_id, ...rest, attempts: attemptsOf(attempts as unknown as AttemptRecord[], attempts_brief) as unknown as Json };
}
