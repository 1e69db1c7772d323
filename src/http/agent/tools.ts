/** `GET /v1/tools`: what this caller may use, plain, or as a provider takes it with the report of the projection. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import { type Dialect, dialects } from '../../contract/views/dialects.js';
import { projectTools } from '../../contract/views/project.js';
import { principalOf } from '../authentication.js';
import type { PublishedTool } from '../../ports.js';
import { sendJson } from '../reply.js';
import type { AgentServerParts } from './parts.js';

const dialect = Type.Optional(Type.Unsafe<Dialect>({ type: 'string', enum: [...dialects] }));
const schema = { querystring: Type.Object({ dialect }, { additionalProperties: false }) };

export const toolRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door }) => {
  app.get('/v1/tools', { schema }, async (request, reply) => {
    const tools = door.tools(principalOf(request));
    const asked = request.query.dialect;
    return asked === undefined ? sendJson(reply, { tools: tools.map(plain) }) : sendJson(reply, projectTools(tools, asked));
  });
};

function plain({ name, version, digest, description, input_schema, output_schema, effect }: PublishedTool) {
  return { name, version, digest, description, input_schema, output_schema, effect };
}
