/** `GET /v1/operations/{id}`, its result in pages, and its cancellation: the same answer object, later. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { refuse } from '../../errors.js';
import { principalOf } from '../authentication.js';
import { isIdentifier } from '../identifier.js';
import { readPreferences, reportApplied } from '../prefer.js';
import { sendAnswer, sendJson, sendRefusal, statusOf } from '../reply.js';
import type { AgentServerParts } from './parts.js';

const schema = { params: Type.Object({ id: Type.String() }) };
const bytes = Type.Optional(Type.String({ pattern: '^[0-9]{1,12}$' }));
const pageSchema = { ...schema, querystring: Type.Object({ offset: bytes, limit: bytes }, { additionalProperties: false }) };
/** A page that is shorter would not get on. */
const longestCharacter = 4;
const unknownOperation = refuse('OPERATION_NOT_FOUND', 'No operation of this caller has that id.');

export const operationRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door, limits }) => {
  app.get('/v1/operations/:id', { schema }, async (request, reply) => {
    if (!isIdentifier(request.params.id)) return sendRefusal(reply, unknownOperation);
    const preferences = readPreferences(request.headers['prefer'], limits.maxPatienceMs);
    const answer = await door.operation(principalOf(request), request.params.id, preferences.patienceMs ?? 0);
    return sendAnswer(reportApplied(reply, preferences, statusOf(answer)), answer);
  });

  app.get('/v1/operations/:id/result', { schema: pageSchema }, async (request, reply) => {
    if (!isIdentifier(request.params.id)) return sendRefusal(reply, unknownOperation);
    const { offset = '0', limit } = request.query;
    const limitBytes = limit === undefined ? {} : { limitBytes: Math.max(Number(limit), longestCharacter) };
    const asked = await door.result(principalOf(request), request.params.id, { offset: Number(offset), ...limitBytes });
    return 'page' in asked ? sendJson(reply, asked.page) : sendAnswer(reply, asked.refused);
  });

  app.post('/v1/operations/:id/cancel', { schema }, async (request, reply) => {
    if (!isIdentifier(request.params.id)) return sendRefusal(reply, unknownOperation);
    return sendAnswer(reply, await door.cancel(principalOf(request), request.params.id));
  });
};
