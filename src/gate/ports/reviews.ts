/** What is in a person's hands, and what they decided. */
import type { JsonObject } from '../../model.js';
import type { Page, ReviewFilter } from '../../ports.js';
import type { Operation, Receipt } from './operations.js';

export interface OpenedReview { id: string; /** Then it is escalated. */ deadlineMs: number }

export type ReviewDecision = 'committed' | 'not_committed' | 'resend' | 'abandon';

export interface Decided { review: string; decision: ReviewDecision; by: string; because: string; receipt: Receipt }

/** A review with all that was kept of its operation, as of one moment. */
export interface ReviewCase {
  id: string;
  openedAt: string;
  deadline: string;
  overdue: boolean;
  escalatedAt: string | null;
  decision: { decision: ReviewDecision; by: string; at: string; because: string; receipt: string } | null;
  /** Why it was opened; the operation may have gone on since. */
  reason: string;
  operation: Operation;
  /** Bodies, in the order of writing. */
  receipts: JsonObject[];
  /** Principals who approved the call. */
  approvers: string[];
}

export interface Reviews {
  list(tenant: string, filter: ReviewFilter): Promise<Page<JsonObject>>;
  find(tenant: string, id: string): Promise<ReviewCase | null>;
}
