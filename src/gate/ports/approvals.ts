/** What waits for an approval before it is sent. */
import type { JsonObject } from '../../model.js';
import type { ApprovalFilter, Page } from '../../ports.js';
import type { Operation, Receipt } from './operations.js';

/** What is asked of a person before a call is sent. */
export interface Asked {
  id: string;
  by: 'client' | 'application' | 'reviewer';
  /** Distinct people. */
  needed: number;
  /** Of what is approved; a decision names it. */
  digest: string;
  /** From the final arguments alone, redacted as receipts are. */
  summary: string;
}

/** An approval with its operation, as of one moment. */
export interface ApprovalCase extends Asked {
  state: 'pending' | 'approved' | 'used' | 'rejected' | 'revoked' | 'expired' | 'stale' | 'cancelled' | 'abandoned';
  operation: Operation;
  askedAt: string;
  expired: boolean;
  approvedBy: string[];
  ended: { by: string; at: string; because: string } | null;
  receipts: JsonObject[];
}

/** One more approval; the last one that is needed makes the operation due. */
export interface Approve { tenant: string; operationId: string; approval: string; digest: string; by: string; receipt: Receipt }

/** Of an approved call: the intent, whose guard keys are claimed now. */
export interface Dispatch {
  tenant: string;
  operationId: string;
  fence: number;
  writeId: string;
  owner: string;
  attemptId: string;
  sendWindowMs: number;
  leaseMs: number;
  reconcileDeadlineMs: number;
  guardKeys: readonly string[];
  guardEpochs: readonly number[];
  receipt: Receipt;
}

export interface Approvals {
  list(tenant: string, filter: ApprovalFilter): Promise<Page<JsonObject>>;
  find(tenant: string, id: string): Promise<ApprovalCase | null>;
}
