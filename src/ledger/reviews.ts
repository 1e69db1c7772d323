/** What the people who decide on reviews read: the list, and one with all that its operation has left behind, as of one moment. */
import type pg from 'pg';
import type { ReviewCase, ReviewDecision } from '../gate/ports.js';
import type { JsonObject } from '../model.js';
import type { Page, ReviewFilter } from '../ports.js';
import { receiptsOf } from './content.js';
import { readCursor } from './cursor.js';
import { operationColumns, type OperationRow, toOperation } from './operation-row.js';
import { instant, page, Where } from './pages.js';
import type { Sealer } from './seal.js';

const columns = `id, operation_id, tool, reason, ${instant('opened_at')} as opened_at, ${instant('deadline')} as deadline,
  decided_at is null and deadline < now() as overdue, ${instant('escalated_at')} as escalated_at, decision, ${instant('decided_at')} as decided_at, decided_by,
  decided_because, decision_receipt`;

type Row = {
  id: string; operation_id: string; tool: string; reason: string; opened_at: string; deadline: string; overdue: boolean; escalated_at: string | null;
  decision: ReviewDecision | null; decided_at: string; decided_by: string; decided_because: string; decision_receipt: string;
};

const orders = {
  open: { list: 'reviews_open', is: 'decided_at is null', key: 'opened_at', after: '(opened_at, id) > (?::timestamptz, ?)', by: 'reviews.opened_at, reviews.id' },
  decided: { list: 'reviews_decided', is: 'decided_at is not null', key: 'decided_at', after: '(decided_at, id) < (?::timestamptz, ?)', by: 'reviews.decided_at desc, reviews.id desc' },
} as const;

/** @throws BadCursor, before anything is asked. */
export function listReviews(tenant: string, filter: ReviewFilter): (client: pg.PoolClient) => Promise<Page<JsonObject>> {
  const order = orders[filter.state];
  const where = new Where(tenant);
  where.add(order.is);
  where.equal(filter, ['tool', 'reason']);
  if (filter.cursor) where.add(order.after, ...readCursor(order.list, filter.cursor));
  return async (client) => {
    const { rows } = await client.query<Row>(`select ${columns} from reviews where ${where.text} order by ${order.by} limit ${filter.limit + 1}`, where.values);
    return page(order.list, rows, filter.limit, summary, (row) => [row[order.key], row.id]);
  };
}

function summary(row: Row): JsonObject {
  return {
    id: row.id, state: row.decision === null ? 'open' : 'decided', operation_id: row.operation_id, tool: row.tool, reason: row.reason, opened_at: row.opened_at,
    deadline: row.deadline, overdue: row.overdue, escalated_at: row.escalated_at, decision: decisionOf(row),
  };
}

function decisionOf(row: Row): ReviewCase['decision'] {
  if (row.decision === null) return null;
  return { decision: row.decision, by: row.decided_by, at: row.decided_at, because: row.decided_because, receipt: row.decision_receipt };
}

export async function findReview(client: pg.PoolClient, sealer: Sealer, tenant: string, id: string): Promise<ReviewCase | null> {
  const { rows: [row] } = await client.query<Row>(`select ${columns} from reviews where tenant = $1 and id = $2`, [tenant, id]);
  if (!row) return null;
  const { rows: [operation] } = await client.query<OperationRow>(
    `select ${operationColumns} from operations o where o.tenant = $1 and o.operation_id = $2`, [tenant, row.operation_id],
  );
  if (!operation) return null;
  const { rows: [approval] } = await client.query<{ approved_by: string[] }>(
    'select approved_by from approvals where tenant = $1 and operation_id = $2', [tenant, row.operation_id],
  );
  const receipts = await receiptsOf(client, tenant, row.operation_id);
  return {
    id: row.id, reason: row.reason, openedAt: row.opened_at, deadline: row.deadline, overdue: row.overdue, escalatedAt: row.escalated_at,
    decision: decisionOf(row), operation: toOperation(operation, sealer), receipts, approvers: approval?.approved_by ?? [],
  };
}
