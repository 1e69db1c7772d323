/** What was asked and what was said, as callers saw it: all that the checker is given beside the service's books and the ledger's own list. */
import type { Intent, Step } from './plan.js';

/** One answer about one intent. Times in milliseconds on the tester's monotonic clock. */
export interface Said {
  askedAt: number;
  at: number;
  http: number;
  disposition: string;
  next: string;
  outcome: string | null;
  verified: boolean;
  operationId: string | null;
  code: string | null;
  /** Canonical enough to be compared: the JSON text of the result. */
  result: string;
  receiptId: string | null;
  evidenceOfChange: boolean;
  receipts: { decision: string | null; effect: string | null };
}

export interface Verdict { approval: string; decision: 'approve' | 'reject'; by: string; http: number; summary: string; digest: string }

/** Its answer was lost, here (0) or on the way to Postgres (503): it may count, and may not. */
export const isUnheard = ({ http }: Verdict): boolean => http === 0 || http === 503;

export interface Told {
  intent: Intent;
  step: Pick<Step, 'n' | 'kind' | 'session' | 'budget' | 'givesUp'>;
  said: Said[];
  /** Connections that ended without an answer. */
  cut: number;
  /** What was shown to the people who decided, and what they were told. */
  verdicts: Verdict[];
  /** Null: it never came to an end. */
  final: Said | null;
  /** When it first came to one. */
  endedAt: number | null;
}

export const isRefusedByPerson = (told: Told | undefined): boolean => told?.final?.code === 'APPROVAL_REJECTED';

export interface History {
  told: Told[];
  /** Words that name something of one user (operations, receipts) → the users who read them. */
  sightings: Map<string, Set<string>>;
  /** Answers to several calls that had not exactly one for each. */
  misshapen: string[];
  /** What came before a person: under which key it had been sent, and why. */
  reviews: { key: string; reason: string }[];
  quietAt: number;
}

export const newHistory = (): History => ({ told: [], sightings: new Map(), misshapen: [], reviews: [], quietAt: 0 });

/** The service's own record. */
export interface Books {
  credits: { order_id: string; amount: number; key: string; receipt_id: string }[];
  voids: { receipt_id: string; order_id: string; amount: number; key: string }[];
  cancellations: { order_id: string; key: string }[];
}

/** One operation as the control plane tells its story. */
export interface LedgerEntry {
  id: string;
  state: string;
  reason: string | null;
  session: string;
  generation: number;
  tool: string;
  subject: string;
  args: Record<string, unknown>;
  createdAt: string;
  receipts: { id: string; kind: string; disposition: string }[];
}

/** States of an operation that has not come to its end. */
export const openStates: ReadonlySet<string> = new Set(['sending', 'accepted', 'unknown', 'parked', 'approved', 'review']);

export interface Evidence {
  history: History;
  books: Books;
  ledger: LedgerEntry[];
  /** `double_effect` faults that the service met: as many keys may have two effects. */
  doubles: number;
  /** How long an intent may take to its end once everything is quiet. */
  deadlineMs: number;
}
