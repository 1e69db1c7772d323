/** `GET /v1/tools`: what this caller may use, plain or in the envelope that a provider takes it in. */
import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox';
import type { JsonObject } from '../../model.js';
import { principalOf } from '../authentication.js';
import type { AgentDoor } from '../../ports.js';
import { sendJson } from '../reply.js';
import type { AgentServerParts } from './parts.js';

type Tool = ReturnType<AgentDoor['tools']>[number];

/** Envelopes only: the schema goes in as it is, and the gateway enforces all of it whatever the provider makes of it. */
const envelopes = {
  'openai-chat': ({ name, description, input_schema }: Tool): JsonObject => ({ type: 'function', function: { name, description, parameters: input_schema } }),
  'openai-responses': ({ name, description, input_schema }: Tool): JsonObject => ({ type: 'function', name, description, parameters: input_schema }),
  anthropic: ({ name, description, input_schema }: Tool): JsonObject => ({ name, description, input_schema }),
  gemini: ({ name, description, input_schema }: Tool): JsonObject => ({ name, description, parametersJsonSchema: input_schema }),
  mcp: ({ name, description, input_schema }: Tool): JsonObject => ({ name, description, inputSchema: input_schema }),
};

const dialects = Object.keys(envelopes) as (keyof typeof envelopes)[];
const schema = { querystring: Type.Object({ dialect: Type.Optional(Type.Unsafe<keyof typeof envelopes>({ type: 'string', enum: dialects })) }, { additionalProperties: false }) };

export const toolRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door }) => {
  app.get('/v1/tools', { schema }, async (request, reply) => {
    const tools = door.tools(principalOf(request));
    const dialect = request.query.dialect;
    if (dialect === undefined) return sendJson(reply, { tools });
    const wrapped = tools.map(envelopes[dialect]);
    return sendJson(reply, { dialect, tools: dialect === 'gemini' ? [{ functionDeclarations: wrapped }] : wrapped });
  });
};
