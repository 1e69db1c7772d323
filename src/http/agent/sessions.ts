/** `GET /v1/sessions/{id}/context`: what to put into a model's system prompt. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { isRefusal } from '../../errors.js';
import { principalOf } from '../authentication.js';
import { sendJson, sendRefusal } from '../reply.js';
import { sessionId } from '../session-id.js';
import type { AgentServerParts } from './parts.js';

const schema = {
  params: Type.Object({ id: sessionId }),
  querystring: Type.Object({ subject: Type.Optional(sessionId) }, { additionalProperties: false }),
};

export const sessionRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door }) => {
  app.get('/v1/sessions/:id/context', { schema }, async (request, reply) => {
    const { subject } = request.query;
    const context = await door.context(principalOf(request), { id: request.params.id, ...(subject === undefined ? {} : { subject }) });
    return isRefusal(context) ? sendRefusal(reply, context) : sendJson(reply, context);
  });
};
