/** How an answer becomes an HTTP response: status, media type, and the headers that steer client libraries. */
import type { FastifyReply } from 'fastify';
import type { Refusal } from '../errors.js';
import type { Answer, Disposition } from '../model.js';
import { forbidsResend, problemAnswer, retryAfterSeconds } from './problem.js';

const unsettled: ReadonlySet<Disposition> = new Set(['pending', 'unknown', 'approval_required', 'review']);

export function statusOf(answer: Answer): number {
  return answer.status ?? (unsettled.has(answer.disposition) ? 202 : 200);
}

export function sendAnswer(reply: FastifyReply, answer: Answer): FastifyReply {
  const status = statusOf(answer);
  const refused = status >= 400;
  const pause = retryAfterSeconds(answer);
  if (pause !== null) reply.header('retry-after', String(pause));
  if (refused && forbidsResend(answer)) reply.header('x-should-retry', 'false');
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="callgate"');
  const document = refused ? { ...answer, errors: answer.errors ?? [] } : answer;
  return sendText(reply.code(status), refused ? 'application/problem+json' : 'application/json', JSON.stringify(document));
}

export function sendRefusal(reply: FastifyReply, refusal: Refusal, incidentId?: string): FastifyReply {
  return sendAnswer(reply, problemAnswer(refusal, incidentId));
}

export function sendJson(reply: FastifyReply, value: object): FastifyReply {
  return sendText(reply, 'application/json', JSON.stringify(value));
}

export function sendText(reply: FastifyReply, mediaType: string, text: string): FastifyReply {
  return reply
    .header('content-type', mediaType)
    .header('cache-control', 'no-store')
    .header('x-content-type-options', 'nosniff')
    // Without a serializer Fastify adds a charset to the type of a string, which no JSON type has; bytes would be a write of their own behind the head.
    .serializer(asItIs)
    .send(text);
}

function asItIs(text: string): string {
  return text;
}
