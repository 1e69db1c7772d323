/** `POST /v1/dialects/{dialect}`: a model's turn as its provider gave it, and the messages to append as the provider takes them. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { isRefusal, refuse, type Refusal } from '../../errors.js';
import type { Answer } from '../../model.js';
import type { ProposedTurn } from '../../ports.js';
import type { AgentServerParts } from '../agent/parts.js';
import { principalOf } from '../authentication.js';
import { readPreferences, reportApplied } from '../prefer.js';
import { sendAnswer, sendJson, sendRefusal } from '../reply.js';
import { readTraceparent } from '../traceparent.js';
import { anthropic } from './anthropic.js';
import { modelContent } from './content.js';
import type { Dialect } from './dialect.js';
import { openaiChat } from './openai-chat.js';
import { openaiResponses } from './openai-responses.js';
import { type ReadTurn, readTurn } from './turn.js';

const dialects: readonly Dialect[] = [openaiChat, openaiResponses, anthropic];
const noBody = Buffer.alloc(0);

export const dialectRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door, limits }) => {
  for (const dialect of dialects) {
    app.post(`/v1/dialects/${dialect.name}`, async (request, reply) => {
      const read = readRequest(dialect, request, limits.depth);
      if (isRefusal(read)) return sendRefusal(reply, read);
      // Calls wait for one another, so `respond-async` is not honoured, nor reported as applied.
      const { patienceMs, respondAsync } = readPreferences(request.headers['prefer'], limits.maxPatienceMs);
      const patience = patienceMs === undefined || respondAsync ? {} : { patienceMs };
      const answered = await door.turn({ ...proposedTurn(read, request), ...patience });
      if ('refused' in answered) return sendAnswer(reply, answered.refused);
      return sendJson(reportApplied(reply, { ...patience, respondAsync: false }, 200), messages(dialect, read, answered.results));
    });
  }
};

function readRequest(dialect: Dialect, { headers, body }: FastifyRequest, maxDepth: number): ReadTurn | Refusal {
  if (headers['idempotency-key'] !== undefined) return keyOfTurn;
  return readTurn(dialect, Buffer.isBuffer(body) ? body : noBody, maxDepth);
}

const keyOfTurn = refuse('INVALID_ENVELOPE', 'A turn has no `Idempotency-Key`: one key would stand for several calls. The turn is identified by the response id.', {
  errors: [{ pointer: '', code: 'INVALID_KEY', message: 'Leave out the header `Idempotency-Key`.' }],
});

function proposedTurn({ members, calls, cut }: ReadTurn, request: FastifyRequest): ProposedTurn {
  return { principal: principalOf(request), members, calls, cut, ...readTraceparent(request.headers['traceparent']) };
}

function messages(dialect: Dialect, { given, unanswered }: ReadTurn, results: readonly Answer[]): object {
  const replies = given.map((one, position) => {
    const answer = results[position] as Answer;
    return { ...one, answer, content: modelContent(answer) };
  });
  return { ...dialect.write(replies), results, ...(unanswered.length > 0 ? { unanswered } : {}) };
}
