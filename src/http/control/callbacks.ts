/** `POST /v1/callbacks/{service}`: what a service tells by itself. It needs no key: the signature is the credential. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { isRefusal, refuse } from '../../errors.js';
import { rawBody } from '../body.js';
import { isIdentifier } from '../identifier.js';
import { sendJson, sendRefusal } from '../reply.js';
import type { ControlServerParts } from './parts.js';

const params = Type.Object({ service: Type.String() });
const noBody = Buffer.alloc(0);
const eventId = /^[\x21-\x7e]{1,256}$/;
/** Nothing that a contract may read. */
const credentials: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization', 'webhook-signature']);
const unsigned = refuse('CALLBACK_NOT_VERIFIED', 'The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` are needed, each once.');

export const callbackRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { callbacks, limits }) => {
  app.addContentTypeParser('application/json', rawBody(limits.bodyBytes));
  app.post('/v1/callbacks/:service', { schema: { params } }, async (request, reply) => {
    const { service } = request.params;
    const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => single(request, name));
    if (!id || !timestamp || !signatures || !eventId.test(id) || !isIdentifier(service)) return sendRefusal(reply, unsigned);
    const verdict = await callbacks.receive({
      service, id, timestamp, signatures, headers: plainHeaders(request), body: Buffer.isBuffer(request.body) ? request.body : noBody,
    });
    return isRefusal(verdict) ? sendRefusal(reply, verdict) : sendJson(reply, verdict);
  });
};

function single({ raw }: FastifyRequest, name: string): string | undefined {
  const values = raw.headersDistinct[name];
  return values?.length === 1 ? values[0] : undefined;
}

function plainHeaders({ headers }: FastifyRequest): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' && !credentials.has(name) ? [[name, value]] : [])));
}
