/** Tells the gate that nobody waits for an answer any more. */
import type { FastifyReply } from 'fastify';

/** Aborted when the connection ends before its answer was written. */
export function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort();
  });
  return gone.signal;
}
