/** `GET /v1/receipts`, newest first, one receipt, and the chain with its keys; always within the tenant of the credential. */
import { Readable } from 'node:stream';
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { isRefusal, refuse } from '../../errors.js';
import { allow, principalOf } from '../authentication.js';
import { isIdentifier } from '../identifier.js';
import { sendJson, sendRefusal } from '../reply.js';
import { filterOf, receiptQuery } from './filters.js';
import type { ControlServerParts } from './parts.js';

const onRequest = allow('auditor', 'reviewer', 'admin', 'application');
/** All of a tenant at once is for those who verify it. */
const exporting = allow('auditor', 'admin');
const exportQuery = Type.Object(
  { format: Type.Optional(Type.Literal('ndjson')), after: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })) }, { additionalProperties: false },
);
const unknownReceipt = refuse('NOT_FOUND', 'No receipt of this tenant has that id.');

export const receiptRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { records, receiptChain }) => {
  app.get('/v1/receipts/keys', { onRequest }, async (_request, reply) => sendJson(reply, receiptChain.keys()));

  app.get('/v1/receipts/export', { onRequest: exporting, schema: { querystring: exportQuery } }, async (request, reply) => {
    const lines = receiptChain.lines(principalOf(request).tenant, Number(request.query.after ?? 0))[Symbol.asyncIterator]();
    const first = await lines.next(); // before the status is sent: what fails at once is told as any other failure
    return reply
      .header('content-type', 'application/x-ndjson')
      .header('cache-control', 'no-store')
      .header('x-content-type-options', 'nosniff')
      .send(Readable.from(following(first, lines)));
  });

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

async function* following(first: IteratorResult<string>, rest: AsyncIterator<string>): AsyncGenerator<Buffer> {
  for (let next = first; !next.done; next = await rest.next()) yield Buffer.from(next.value);
}
