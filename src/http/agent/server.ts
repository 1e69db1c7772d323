/** The agent plane: propose a call, a batch or a model's turn, ask for its outcome, cancel it, list the tools. */
import { rawBody } from '../body.js';
import { requireCredential } from '../authentication.js';
import { limitCallers } from '../caller-limits.js';
import { type App, createServer } from '../server.js';
import { batchRoutes } from './batches.js';
import { dialectRoutes } from '../dialects/routes.js';
import { callRoutes } from './calls.js';
import { operationRoutes } from './operations.js';
import type { AgentServerParts } from './parts.js';
import { sessionRoutes } from './sessions.js';
import { toolRoutes } from './tools.js';

/** Builds and does not listen: `await app.listen({ host, port })` does. */
export function buildAgentServer(parts: AgentServerParts): App {
  const app = createServer('agent', parts);
  const callers = parts.callers && limitCallers(parts.callers);
  app.addHook('onClose', async () => callers?.stop());
  app.register(async (scope) => {
    requireCredential(scope, 'agent', parts.authenticator, callers?.enter);
    scope.addContentTypeParser('application/json', rawBody(parts.limits.bodyBytes));
    scope.register(callRoutes, parts);
    scope.register(batchRoutes, parts);
    scope.register(dialectRoutes, parts);
    scope.register(operationRoutes, parts);
    scope.register(sessionRoutes, parts);
    scope.register(toolRoutes, parts);
  });
  return app;
}
