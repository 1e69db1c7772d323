/** `/v1/reviews`: what no machine could settle, and the decisions of those who may. A GET never decides. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { isRefusal, refuse } from '../../errors.js';
import type { Json } from '../../model.js';
import type { ReviewFilter, ReviewVerdict } from '../../ports.js';
import { allow, principalOf } from '../authentication.js';
import { isIdentifier } from '../identifier.js';
import { readPreferences } from '../prefer.js';
import { sendAnswer, sendJson, sendRefusal } from '../reply.js';
import { filterOf, reviewQuery } from './filters.js';
import { jsonBody } from './json-body.js';
import type { ControlServerParts } from './parts.js';

const mayRead = allow('reviewer', 'auditor', 'admin');
/** Not `admin`: whoever can make keys could otherwise decide on what these keys did. */
const mayDecide = allow('reviewer');
const unknownReview = refuse('REVIEW_NOT_FOUND', 'No review of this tenant has that id.');
const params = Type.Object({ id: Type.String() });

const readVerdict = jsonBody(Type.Object({
  decision: Type.Union([Type.Literal('committed'), Type.Literal('not_committed'), Type.Literal('resend'), Type.Literal('abandon')]),
  reason: Type.String({ minLength: 1, maxLength: 4_000 }),
  evidence: Type.Optional(Type.Unsafe<Json>(Type.Any())),
  result: Type.Optional(Type.Unsafe<Json>(Type.Any())),
  expected_digest: Type.String({ minLength: 1, maxLength: 128 }),
}, { additionalProperties: false }));

const readOrder = jsonBody(Type.Object({
  reason: Type.String({ minLength: 1, maxLength: 4_000 }),
  expected_digest: Type.String({ minLength: 1, maxLength: 128 }),
}, { additionalProperties: false }));

export const reviewRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { reviews, limits }) => {
  app.get('/v1/reviews', { onRequest: mayRead, schema: { querystring: reviewQuery } }, async (request, reply) => {
    const filter = filterOf(request.query);
    if (isRefusal(filter)) return sendRefusal(reply, filter);
    return sendJson(reply, await reviews.list(principalOf(request).tenant, { ...filter, state: filter.state ?? 'open' } as ReviewFilter));
  });

  app.get('/v1/reviews/:id', { onRequest: mayRead, schema: { params } }, async (request, reply) => {
    const { id } = request.params;
    const review = isIdentifier(id) ? await reviews.one(principalOf(request).tenant, id) : null;
    return review === null ? sendRefusal(reply, unknownReview) : sendJson(reply, review);
  });

  app.post('/v1/reviews/:id/decision', { onRequest: mayDecide, schema: { params } }, async (request, reply) => {
    const { id } = request.params;
    const verdict = readVerdict(request);
    if (isRefusal(verdict)) return sendRefusal(reply, verdict);
    const decided = isIdentifier(id) ? await reviews.decide(principalOf(request), id, verdict as ReviewVerdict) : unknownReview;
    return isRefusal(decided) ? sendRefusal(reply, decided) : sendJson(reply, decided);
  });

  app.post('/v1/reviews/:id/undo', { onRequest: mayDecide, schema: { params } }, async (request, reply) => {
    const { id } = request.params;
    const order = readOrder(request);
    if (isRefusal(order)) return sendRefusal(reply, order);
    const { patienceMs } = readPreferences(request.headers['prefer'], limits.maxPatienceMs);
    const ordered = isIdentifier(id) ? await reviews.undo(principalOf(request), id, { ...order, ...(patienceMs === undefined ? {} : { patienceMs }) }) : unknownReview;
    return isRefusal(ordered) ? sendRefusal(reply, ordered) : sendAnswer(reply, ordered);
  });
};
