/**
 * Whatever is thrown becomes a problem document. What we know is told; everything else is `INTERNAL` with an incident
 * id, and its stack goes to the log alone.
 */
import { randomUUID } from 'node:crypto';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { CredentialsUnavailable, LedgerUnavailable, type Refusal, refuse } from '../errors.js';
import type { FieldError, Json } from '../model.js';
import { BadCursor, type Log, type Plane } from '../ports.js';
import { sendRefusal } from './reply.js';

export function failureHandler(plane: Plane, bodyBytes: number, log: Log) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const refusal = knownFailure(error, request, bodyBytes);
    const where = { plane, method: request.method, route: request.routeOptions?.url ?? 'unmatched' };
    if (error instanceof LedgerUnavailable) log.warn({ err: error, ...where }, 'the ledger could not be reached for a request');
    if (refusal) return sendRefusal(reply, refusal);
    const incidentId = `inc_${randomUUID()}`;
    log.error({ incident_id: incidentId, err: error, ...where }, 'a request failed unexpectedly');
    return sendRefusal(reply, refuse('INTERNAL', `The gateway failed; tell the operator incident \`${incidentId}\`.`), incidentId);
  };
}

export function noSuchRoute(_request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return sendRefusal(reply, refuse('ROUTE_NOT_FOUND', 'No path of this listener matches the method and path of the request.'));
}

function knownFailure(error: unknown, request: FastifyRequest, bodyBytes: number): Refusal | null {
  if (error instanceof LedgerUnavailable) return refuse('UNAVAILABLE', 'The ledger does not answer now.');
  if (error instanceof CredentialsUnavailable) return refuse('ISSUER_UNAVAILABLE', 'The token can be neither accepted nor refused now.');
  if (error instanceof BadCursor) {
    const message = 'not a cursor of this list; take `next_cursor` of a page as it is';
    return refuse('INVALID_ENVELOPE', 'The cursor cannot be read.', { errors: [{ pointer: '/cursor', code: 'BAD_CURSOR', message }] });
  }
  if (!(error instanceof Error)) return null;
  return frameworkFailure(error as FastifyError, request, bodyBytes);
}

function frameworkFailure(error: FastifyError, request: FastifyRequest, bodyBytes: number): Refusal | null {
  switch (error.code) {
    case 'FST_ERR_VALIDATION':
      return refuse('INVALID_ENVELOPE', 'A parameter of the query is not valid.', { errors: (error.validation ?? []).map(fieldError) });
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return refuse('UNSUPPORTED_MEDIA_TYPE', `The body is declared as ${declaredType(request)}; send plain \`application/json\`.`);
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return refuse('BODY_TOO_LARGE', `A body may have at most ${bodyBytes} bytes.`);
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return refuse('ROUTE_NOT_FOUND', 'The path is not percent-encoded correctly, or a segment of it is too long.');
    case 'ECONNRESET':
      return refuse('MALFORMED_HTTP', 'The request was cut off.');
    default:
      return null;
  }
}

function declaredType(request: FastifyRequest): string {
  const type = request.headers['content-type'];
  const encoding = request.headers['content-encoding'];
  const shown = type === undefined ? 'nothing' : `\`${type.slice(0, 100)}\``;
  return encoding === undefined ? shown : `${shown} with content encoding \`${encoding.slice(0, 40)}\``;
}

type Violation = NonNullable<FastifyError['validation']>[number];

function fieldError({ instancePath, keyword, params, message }: Violation): FieldError {
  if (keyword === 'additionalProperties') {
    return { pointer: `/${String(params['additionalProperty'])}`, code: 'UNKNOWN_PARAMETER', message: 'no such parameter; nothing was filtered by it' };
  }
  const allowed = params['allowedValues'];
  return {
    pointer: instancePath,
    code: 'INVALID_PARAMETER',
    message: message ?? keyword,
    ...(Array.isArray(allowed) && { expected: allowed as Json[] }),
  };
}
