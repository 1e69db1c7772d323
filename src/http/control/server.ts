/** The control plane: the records for people and applications; probes, metrics and documentation for everybody. */
import { requireCredential } from '../authentication.js';
import { approvalRoutes } from './approvals.js';
import { rawBody } from '../body.js';
import { type App, createServer } from '../server.js';
import { callbackRoutes } from './callbacks.js';
import { contractRoutes } from './contracts.js';
import { docRoutes } from './docs.js';
import { operationRoutes } from './operations.js';
import type { ControlServerParts } from './parts.js';
import { probeRoutes } from './probes.js';
import { receiptRoutes } from './receipts.js';
import { reviewRoutes } from './reviews.js';
import { sessionRoutes } from './sessions.js';

/** Builds and does not listen: `await app.listen({ host, port })` does. */
export function buildControlServer(parts: ControlServerParts): App {
  const app = createServer('control', parts);
  app.register(probeRoutes, parts);
  app.register(docRoutes, parts);
  app.register(callbackRoutes, parts);
  app.register(async (scope) => {
    requireCredential(scope, 'control', parts.authenticator);
    scope.addContentTypeParser('application/json', rawBody(parts.limits.bodyBytes));
    scope.register(receiptRoutes, parts);
    scope.register(operationRoutes, parts);
    scope.register(approvalRoutes, parts);
    scope.register(reviewRoutes, parts);
    scope.register(contractRoutes, parts);
    scope.register(sessionRoutes, parts);
  });
  return app;
}
