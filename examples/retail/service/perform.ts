/** Carries out one well-formed request under the fault that is due, if any. */
import type { ServerResponse } from 'node:http';
import { refusal, type Answer } from './answer.js';
import type { Fault } from './faults.js';
import { drop, send, sendBadJson, sendCut } from './reply.js';

export interface Manner {
  /** How often an admitted effect happens. */
  effects?: number;
  /** When it is decided, in milliseconds since 1970: a time that a restart does not change. Absent or past: at once. */
  due?: number;
}

/** Decides, applies and answers; behind an idempotency key, at most once. */
export type Execute = (manner?: Manner) => Promise<Answer>;

/**
 * @param tell hands on what is decided when nobody waits for it any more
 * @throws AbortError when `wait` or a delayed decision is ended by a reset.
 */
export async function perform(
  execute: Execute, fault: Fault | null, res: ServerResponse, wait: (ms: number) => Promise<void>, tell: (deciding: Promise<Answer>) => void,
): Promise<void> {
  if (fault === null) return send(res, await execute());
  const { kind, ms, retryAfterSeconds } = fault;
  switch (kind) {
    case 'drop_before_commit':
      return drop(res);
    case '503_not_started':
      return send(res, refusal(503, 'NOT_STARTED'));
    case '429':
      return send(res, { ...refusal(429, 'RATE_LIMITED'), headers: { 'retry-after': String(retryAfterSeconds) } });
    case 'commit_then_drop':
      await execute();
      return drop(res);
    case 'commit_then_500':
      await execute();
      return send(res, refusal(500, 'INTERNAL'));
    case 'delay_commit':
      return send(res, await execute({ due: Date.now() + ms }));
    case 'slow_reply': {
      const answer = await execute();
      await wait(ms);
      return send(res, answer);
    }
    case 'truncate_body':
      return sendCut(res, await execute());
    case 'bad_json':
      return sendBadJson(res, await execute());
    case 'accept_202':
      // Nobody waits for it any more. A reset ends it for good; the end of the process, or a full disk, until the next start.
      tell(execute({ due: Date.now() + ms }));
      return send(res, { status: 202, body: { accepted: true } });
    case 'double_effect':
      return send(res, await execute({ effects: 2 }));
  }
}
