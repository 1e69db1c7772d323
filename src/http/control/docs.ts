/** `/docs`, a page for every problem code, and `/openapi.json`; built once, served to everybody. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import type { FastifyReply } from 'fastify';
import { type ProblemCode, problems, refuse } from '../../errors.js';
import { sendRefusal, sendText } from '../reply.js';
import { contentSecurityPolicy, indexPage, problemPage } from './pages.js';
import type { ControlServerParts } from './parts.js';

const unknownPage = refuse('ROUTE_NOT_FOUND', 'No problem has that code; `/docs` lists all of them.');

export const docRoutes: FastifyPluginAsyncTypebox<ControlServerParts> = async (app, { openapi }) => {
  const openapiJson = JSON.stringify(openapi);
  const index = indexPage(openapi);
  const pages = new Map<string, string>((Object.keys(problems) as ProblemCode[]).map((code) => [code, problemPage(code)]));

  app.get('/openapi.json', async (_request, reply) => sendText(reply, 'application/json', openapiJson));
  app.get('/docs', async (_request, reply) => sendPage(reply, index));
  app.get('/docs/problems/:code', { schema: { params: Type.Object({ code: Type.String() }) } }, async (request, reply) => {
    const page = pages.get(request.params.code);
    return page === undefined ? sendRefusal(reply, unknownPage) : sendPage(reply, page);
  });
};

function sendPage(reply: FastifyReply, html: string): FastifyReply {
  reply.header('content-security-policy', contentSecurityPolicy).header('referrer-policy', 'no-referrer');
  return sendText(reply, 'text/html; charset=utf-8', html);
}
