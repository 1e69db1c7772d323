/** The control plane: the records for people and applications; probes, metrics and documentation for everybody. */
import type { JsonObject } from '../../model.js';
import { requireCredential } from '../authentication.js';
import type { Authenticator, Health, MetricsPage, Records } from '../ports.js';
import { type App, createServer, type ServerParts } from '../server.js';
import { docRoutes } from './docs.js';
import { operationRoutes } from './operations.js';
import { probeRoutes } from './probes.js';
import { receiptRoutes } from './receipts.js';

export interface ControlServerParts extends ServerParts {
  records: Records;
  health: Health;
  authenticator: Authenticator;
  metricsPage: MetricsPage;
  /** The parsed openapi.yaml; see `readOpenapi`. */
  openapi: JsonObject;
}

/** Builds and does not listen: `await app.listen({ host, port })` does. */
export function buildControlServer(parts: ControlServerParts): App {
  const app = createServer('control', parts);
  app.register(probeRoutes, parts);
  app.register(docRoutes, parts);
  app.register(async (scope) => {
    requireCredential(scope, 'control', parts.authenticator);
    scope.register(receiptRoutes, parts);
    scope.register(operationRoutes, parts);
  });
  return app;
}
