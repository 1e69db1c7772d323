/** What the control listener is made of. */
import type { JsonObject } from '../../model.js';
import type { ApprovalDesk, Authenticator, CallbackDesk, Health, MetricsPage, ReceiptChain, Records, ReviewDesk, SessionBudgets, Sessions } from '../../ports.js';
import type { ServerParts } from '../server.js';

export interface ControlServerParts extends ServerParts {
  records: Records;
  receiptChain: ReceiptChain;
  approvals: ApprovalDesk;
  reviews: ReviewDesk;
  callbacks: CallbackDesk;
  sessions: Sessions;
  /** What a session begins with, where the application does not say. */
  sessionBudgets: SessionBudgets;
  health: Health;
  authenticator: Authenticator;
  metricsPage: MetricsPage;
  contracts: { status(): object };
  /** The parsed openapi.yaml; see `readOpenapi`. */
  openapi: JsonObject;
}
