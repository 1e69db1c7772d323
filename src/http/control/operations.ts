/** `GET /v1/operations` and the whole story of one; always within the tenant of the credential. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { isRefusal, refuse } from '../../errors.js';
import { allow, principalOf } from '../authentication.js';
import { isIdentifier } from '../identifier.js';
import { sendJson, sendRefusal } from '../reply.js';
import { filterOf, operationQuery } from './filters.js';
import type { ControlServerParts } from './parts.js';

const onRequest = allow('auditor', 'reviewer', 'admin', 'application');
const unknownOperation = refuse('OPERATION_NOT_FOUND', 'No operation of this tenant has that id.');

export const operationRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { records }) => {
  app.get('/v1/operations', { onRequest, schema: { querystring: operationQuery } }, async (request, reply) => {
    const filter = filterOf(request.query);
    if (isRefusal(filter)) return sendRefusal(reply, filter);
    return sendJson(reply, await records.operations(principalOf(request).tenant, filter));
  });

  app.get('/v1/operations/:id', { onRequest, schema: { params: Type.Object({ id: Type.String() }) } }, async (request, reply) => {
    const { id } = request.params;
    const operation = isIdentifier(id) ? await records.operation(principalOf(request).tenant, id) : null;
    return operation === null ? sendRefusal(reply, unknownOperation) : sendJson(reply, operation);
  });
};
