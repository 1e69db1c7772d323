/** `POST /v1/batches`: calls that belong together, to the gate; one answer for each of them, in the order given. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { refuse } from '../../errors.js';
import { principalOf } from '../authentication.js';
import { readPreferences, reportApplied } from '../prefer.js';
import { sendAnswer, sendJson, sendRefusal } from '../reply.js';
import { readTraceparent } from '../traceparent.js';
import type { AgentServerParts } from './parts.js';

const noBody = Buffer.alloc(0);
const keyOfBatch = refuse('INVALID_ENVELOPE', 'A batch has no `Idempotency-Key`: one key would stand for several calls. Each call may have its own `idempotency_key`.', {
  errors: [{ pointer: '', code: 'INVALID_KEY', message: 'Leave out the header `Idempotency-Key`.' }],
});

export const batchRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door, limits }) => {
  app.post('/v1/batches', async (request, reply) => {
    const { headers } = request;
    if (headers['idempotency-key'] !== undefined) return sendRefusal(reply, keyOfBatch);
    // Each call waits for those before it, so `respond-async` is not honoured, nor reported as applied.
    const { patienceMs, respondAsync } = readPreferences(headers['prefer'], limits.maxPatienceMs);
    const patience = patienceMs === undefined || respondAsync ? {} : { patienceMs };
    const answered = await door.batch({
      body: Buffer.isBuffer(request.body) ? request.body : noBody,
      principal: principalOf(request),
      ...patience,
      ...readTraceparent(headers['traceparent']),
    });
    if ('refused' in answered) return sendAnswer(reply, answered.refused);
    return sendJson(reportApplied(reply, { ...patience, respondAsync: false }, 200), { results: answered.results });
  });
};
