/** `GET /v1/contracts`: what is served, and why the newest set of the folder is not, where it was refused. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { allow } from '../authentication.js';
import { sendJson } from '../reply.js';
import type { ControlServerParts } from './parts.js';

export const contractRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { contracts }) => {
  app.get('/v1/contracts', { onRequest: allow('auditor', 'reviewer', 'admin', 'application') }, async (_request, reply) =>
    sendJson(reply, contracts.status()));
};
