/** `GET /v1/receipts`, newest first, and one receipt; always within the tenant of the credential. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { isRefusal, refuse } from '../../errors.js';
import { allow, principalOf } from '../authentication.js';
import { isIdentifier } from '../identifier.js';
import { sendJson, sendRefusal } from '../reply.js';
import { filterOf, receiptQuery } from './filters.js';
import type { ControlServerParts } from './parts.js';

const onRequest = allow('auditor', 'reviewer', 'admin', 'application');
const unknownReceipt = refuse('NOT_FOUND', 'No receipt of this tenant has that id.');

export const receiptRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { records }) => {
  app.get('/v1/receipts', { onRequest, schema: { querystring: receiptQuery } }, async (request, reply) => {
    const filter = filterOf(request.query);
    if (isRefusal(filter)) return sendRefusal(reply, filter);
    return sendJson(reply, await records.receipts(principalOf(request).tenant, filter));
  });

  app.get('/v1/receipts/:id', { onRequest, schema: { params: Type.Object({ id: Type.String() }) } }, async (request, reply) => {
    const { id } = request.params;
    const receipt = isIdentifier(id) ? await records.receipt(principalOf(request).tenant, id) : null;
    return receipt === null ? sendRefusal(reply, unknownReceipt) : sendJson(reply, receipt);
  });
};
