/** Tells the gate that nobody waits for an answer any more. */
import type { FastifyReply } from 'fastify';
import { Ending, type Signal } from '../signal.js';

/** Aborted when the connection ends before its answer was written. */
export function goneSignal({ raw }: FastifyReply): Signal {
  const gone = new Ending();
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort();
  });
  return gone;
}
