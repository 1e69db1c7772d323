/** `/v1/approvals`: calls that wait for a person before they are sent, and the decisions of those who may. A GET never decides. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { isRefusal, refuse } from '../../errors.js';
import type { ApprovalFilter, ApprovalVerdict } from '../../ports.js';
import { allow, principalOf } from '../authentication.js';
import { isIdentifier } from '../identifier.js';
import { sendJson, sendRefusal } from '../reply.js';
import { approvalQuery, filterOf } from './filters.js';
import { jsonBody } from './json-body.js';
import type { ControlServerParts } from './parts.js';

const mayRead = allow('application', 'reviewer', 'auditor', 'admin');
const mayDecide = allow('application', 'reviewer');
const unknownApproval = refuse('APPROVAL_NOT_FOUND', 'No approval of this tenant has that id.');
const params = Type.Object({ id: Type.String() });

const readVerdict = jsonBody(Type.Object({
  decision: Type.Union([Type.Literal('approve'), Type.Literal('reject'), Type.Literal('revoke')]),
  reason: Type.Optional(Type.String({ maxLength: 4_000 })),
  expected_digest: Type.String({ minLength: 1, maxLength: 128 }),
}, { additionalProperties: false }));

export const approvalRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { approvals }) => {
  app.get('/v1/approvals', { onRequest: mayRead, schema: { querystring: approvalQuery } }, async (request, reply) => {
    const filter = filterOf(request.query);
    if (isRefusal(filter)) return sendRefusal(reply, filter);
    return sendJson(reply, await approvals.list(principalOf(request).tenant, { ...filter, state: filter.state ?? 'pending' } as ApprovalFilter));
  });

  app.get('/v1/approvals/:id', { onRequest: mayRead, schema: { params } }, async (request, reply) => {
    const { id } = request.params;
    const approval = isIdentifier(id) ? await approvals.one(principalOf(request).tenant, id) : null;
    return approval === null ? sendRefusal(reply, unknownApproval) : sendJson(reply, approval);
  });

  app.post('/v1/approvals/:id/decision', { onRequest: mayDecide, schema: { params } }, async (request, reply) => {
    const { id } = request.params;
    const verdict = readVerdict(request);
    if (isRefusal(verdict)) return sendRefusal(reply, verdict);
    const decided = isIdentifier(id) ? await approvals.decide(principalOf(request), id, verdict as ApprovalVerdict) : unknownApproval;
    return isRefusal(decided) ? sendRefusal(reply, decided) : sendJson(reply, decided);
  });
};
