/** `POST /v1/calls`: one proposed call, as bytes, to the gate; its answer, as HTTP. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { isRefusal, type Refusal, refuse } from '../../errors.js';
import { principalOf } from '../authentication.js';
import type { Proposal } from '../../ports.js';
import { readPreferences, reportApplied } from '../prefer.js';
import { sendAnswer, sendRefusal, statusOf } from '../reply.js';
import { goneSignal } from '../gone.js';
import { readTraceparent } from '../traceparent.js';
import type { AgentServerParts } from './parts.js';

const maxKeyBytes = 512;
const noBody = Buffer.alloc(0);

export const callRoutes: FastifyPluginAsyncTypebox<AgentServerParts> = async (app, { door, limits }) => {
  app.post('/v1/calls', async (request, reply) => {
    const headers = request.headers;
    const key = headers['idempotency-key'] === undefined ? {} : readIdempotencyKey(request.raw.headersDistinct['idempotency-key']);
    if (isRefusal(key)) return sendRefusal(reply, key);
    const preferences = readPreferences(headers['prefer'], limits.maxPatienceMs);
    const answer = await door.propose({
      body: Buffer.isBuffer(request.body) ? request.body : noBody,
      principal: principalOf(request),
      ...key,
      ...preferences,
      ...readTraceparent(headers['traceparent']),
      gone: goneSignal(reply),
    });
    return sendAnswer(reportApplied(reply, preferences, statusOf(answer)), answer);
  });
};

/** A key that is there and unusable is refused: ignored, it would be a promise that nobody keeps. */
function readIdempotencyKey(given: readonly string[] | undefined): Pick<Proposal, 'idempotencyKey'> | Refusal {
  if (given === undefined) return {};
  const [header = ''] = given;
  if (given.length > 1) return badKey('is there more than once');
  const bytes = Buffer.from(header, 'latin1');
  if (bytes.length === 0 || bytes.length > maxKeyBytes) return badKey(`has ${bytes.length} bytes`);
  try {
    // Node hands header bytes out as Latin-1; the member `idempotency_key` is UTF-8, and the two must compare equal.
    return { idempotencyKey: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return badKey('is not UTF-8');
  }
}

function badKey(why: string): Refusal {
  const message = `the header Idempotency-Key ${why}`;
  return refuse('INVALID_ENVELOPE', `The header \`Idempotency-Key\` ${why}; it must be 1 to ${maxKeyBytes} bytes of UTF-8.`, {
    errors: [{ pointer: '/idempotency_key', code: 'INVALID_KEY', message, expected: `1 to ${maxKeyBytes} bytes of UTF-8` }],
  });
}
