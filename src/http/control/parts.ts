/** What the control listener is made of. */
import type { JsonObject } from '../../model.js';
import type { Authenticator, Health, MetricsPage, Records, ReviewDesk } from '../../ports.js';
import type { ServerParts } from '../server.js';

export interface ControlServerParts extends ServerParts {
  records: Records;
  reviews: ReviewDesk;
  health: Health;
  authenticator: Authenticator;
  metricsPage: MetricsPage;
  contracts: { status(): object };
  /** The parsed openapi.yaml; see `readOpenapi`. */
  openapi: JsonObject;
}
