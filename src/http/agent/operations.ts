/** `GET /v1/operations/{id}` and its cancellation: the same answer object, later. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { refuse } from '../../errors.js';
import { principalOf } from '../authentication.js';
import { isIdentifier } from '../identifier.js';
import { readPreferences, reportApplied } from '../prefer.js';
import { sendAnswer, sendRefusal, statusOf } from '../reply.js';
import type { AgentServerParts } from './parts.js';

const schema = { params: Type.Object({ id: Type.String() }) };
const unknownOperation = refuse('OPERATION_NOT_FOUND', 'No operation of this caller has that id.');

export const operationRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door, limits }) => {
  app.get('/v1/operations/:id', { schema }, async (request, reply) => {
    if (!isIdentifier(request.params.id)) return sendRefusal(reply, unknownOperation);
    const preferences = readPreferences(request.headers['prefer'], limits.maxPatienceMs);
    const answer = await door.operation(principalOf(request), request.params.id, preferences.patienceMs ?? 0);
    return sendAnswer(reportApplied(reply, preferences, statusOf(answer)), answer);
  });

  app.post('/v1/operations/:id/cancel', { schema }, async (request, reply) => {
    if (!isIdentifier(request.params.id)) return sendRefusal(reply, unknownOperation);
    return sendAnswer(reply, await door.cancel(principalOf(request), request.params.id));
  });
};
