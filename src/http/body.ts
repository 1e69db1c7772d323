/**
 * Reads a JSON body as raw bytes; the parse stage reads them strictly. Fastify's own reader answers and closes while
 * the client still writes, and the client then sees a reset in the place of our 413. So what is too much is read and
 * thrown away, up to a bound, and the refusal is sent when the client is ready to read it.
 */
import type { IncomingMessage } from 'node:http';
import { errorCodes, type FastifyRequest } from 'fastify';

type Done = (error: Error | null, body?: Buffer) => void;

const discardedBytes = 16 * 1024 * 1024;

export function rawBody(limitBytes: number) {
  return (request: FastifyRequest, payload: IncomingMessage, done: Done): void => {
    if ((request.headers['content-encoding'] ?? 'identity') !== 'identity') {
      done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE());
      return;
    }
    collect(payload, limitBytes, done);
  };
}

function collect(payload: IncomingMessage, limitBytes: number, done: Done): void {
  let chunks: Buffer[] = [];
  let size = 0;
  const finish = (error: Error | null, body?: Buffer): void => {
    payload.off('data', onData).off('end', onEnd).off('error', finish);
    done(error, body);
  };
  const onData = (chunk: Buffer): void => {
    size += chunk.length;
    if (size <= limitBytes) chunks.push(chunk);
    else chunks = [];
    if (size > limitBytes + discardedBytes) finish(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
  };
  const onEnd = (): void => {
    if (size > limitBytes) finish(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
    else finish(null, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, size));
  };
  payload.on('data', onData).on('end', onEnd).on('error', finish);
}
