/** From the durable intent to the answer: send, reconcile, route, in that order. Nothing in here may become an error of the caller's. */
import type { Answer } from '../model.js';
import { operationAnswer } from './answer.js';
import { type Reserved, send } from './execute.js';
import type { Parts } from './parts.js';
import type { Progress } from './progress.js';
import { reconcile } from './reconcile.js';
import { route } from './route.js';

export async function finish(parts: Parts, reserved: Reserved, until: number, progress: Progress): Promise<Answer> {
  const { run } = reserved;
  try {
    const exchange = await send(reserved);
    progress.pass('execute', 'exchange');
    const finding = await reconcile(run, exchange, until);
    progress.pass('reconcile', 'reconcile', run.operation.state === 'unknown' ? 'unknown' : 'pass');
    const standing = await route(run, finding);
    if (standing === 'lost') run.operation = (await parts.ledger.get(run.operation.tenant, run.operation.id)) ?? run.operation;
  } catch (error) {
    // The lease runs out and recovery reconciles; until then the honest answer is that it is not known.
    parts.log.error({ err: error, operation: run.operation.id }, 'the outcome of a sent call could not be recorded yet');
    run.operation = { ...run.operation, state: 'unknown', outcome: 'unknown', answer: null };
  } finally {
    reserved.release();
    parts.locks.announce(run.operation.id);
    for (const topic of reserved.topics) parts.locks.announce(topic);
  }
  progress.pass('route', 'route');
  return operationAnswer(run.operation, { progress, as: 'proposer' });
}

/** For an answer that is just being written down when the patience ends. */
const graceMs = 50;

/** A caller's patience ends its wait, never the work. Undefined: it ended first. */
export async function within<T>(work: Promise<T>, until: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), Math.max(0, until - performance.now()) + graceMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
