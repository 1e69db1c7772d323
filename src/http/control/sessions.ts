/** `PUT /v1/sessions/{id}`: the application creates a session and sets its budgets, as often as it likes; `GET` shows what is used. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { isRefusal, problems, refuse, type Refusal } from '../../errors.js';
import type { SessionProblem } from '../../ports.js';
import { allow, principalOf } from '../authentication.js';
import { sendJson, sendRefusal } from '../reply.js';
import { sessionId } from '../session-id.js';
import { jsonBody } from './json-body.js';
import type { ControlServerParts } from './parts.js';

const limit = Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000_000 }));
const readSession = jsonBody(Type.Object({
  parent_session_id: Type.Optional(Type.Union([sessionId, Type.Null()])),
  budgets: Type.Optional(Type.Object({ executions: limit, proposals: limit, turns: limit }, { additionalProperties: false })),
}, { additionalProperties: false }));

const schema = { params: Type.Object({ id: sessionId }) };

export const sessionRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { sessions, sessionBudgets }) => {
  app.put('/v1/sessions/:id', { onRequest: allow('application'), schema }, async (request, reply) => {
    const wanted = readSession(request);
    if (isRefusal(wanted)) return sendRefusal(reply, wanted);
    const { tenant, id: by } = principalOf(request);
    const session = await sessions.put({ tenant, id: request.params.id, parent: wanted.parent_session_id ?? null, budgets: wanted.budgets ?? {}, defaults: sessionBudgets, by });
    return 'problem' in session ? sendRefusal(reply, refusalOf(session)) : sendJson(reply, session);
  });

  app.get('/v1/sessions/:id', { onRequest: allow('auditor', 'reviewer', 'admin', 'application'), schema }, async (request, reply) => {
    const session = await sessions.get(principalOf(request).tenant, request.params.id);
    return session === null ? sendRefusal(reply, refuse('NOT_FOUND', 'No application of this tenant created a session of that id.')) : sendJson(reply, session);
  });
};

const faults: Record<SessionProblem['problem'], { pointer: string; message: string }> = {
  UNKNOWN_PARENT: { pointer: '/parent_session_id', message: 'No session of that id was created; create the parent first.' },
  CYCLE: { pointer: '/parent_session_id', message: 'The session would be its own ancestor.' },
  PARENT_IS_FIXED: { pointer: '/parent_session_id', message: 'The session exists with another parent or none; a parent is settled when a session is created. Create another session.' },
  BUDGETS_OF_THE_ROOT: { pointer: '/budgets', message: 'The session draws on its topmost parent; set the budgets there.' },
};

function refusalOf({ problem }: SessionProblem): Refusal {
  const { pointer, message } = faults[problem];
  return refuse('INVALID_SESSION', `${problems.INVALID_SESSION.title}: ${message}`, { errors: [{ pointer, code: problem, message }] });
}
