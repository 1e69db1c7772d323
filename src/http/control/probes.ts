/** `/healthz`, `/readyz`, `/metrics`: no credential, and nothing in them that needs one. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Health, Log } from '../../ports.js';
import { sendJson, sendText } from '../reply.js';
import type { ControlServerParts } from './parts.js';

type Readiness = Awaited<ReturnType<Health['readiness']>>;

export const probeRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { health, metricsPage, log }) => {
  app.get('/healthz', async (_request, reply) => sendJson(reply, { status: 'alive' }));

  const tell = tellingChanges(log);
  app.get('/readyz', async (_request, reply) => {
    const { ready, checks } = await probe(health, log);
    tell(ready, checks);
    // A check's `detail` may name a host, so only its state is told here; the log has it.
    const states = Object.fromEntries(Object.entries(checks).map(([name, { state }]) => [name, { state }]));
    return sendJson(reply.code(ready ? 200 : 503), { status: ready ? 'ready' : 'unready', checks: states });
  });

  app.get('/metrics', async (_request, reply) => sendText(reply, metricsPage.contentType, await metricsPage.metrics()));
};

/** Once for each change, however often it is asked: why it is not ready, and that it is again. */
function tellingChanges(log: Log): (ready: boolean, checks: Readiness['checks']) => void {
  let told = 'ready';
  return (ready, checks) => {
    const now = ready ? 'ready' : JSON.stringify(checks);
    if (now === told) return;
    told = now;
    log.warn({ checks }, ready ? 'ready again' : 'not ready');
  };
}

/** A probe that fails itself means not ready, never an error page. */
async function probe(health: Health, log: Log): Promise<Readiness> {
  try {
    return await health.readiness();
  } catch (error) {
    log.warn({ err: error }, 'the readiness probe failed');
    return { ready: false, checks: {} };
  }
}
