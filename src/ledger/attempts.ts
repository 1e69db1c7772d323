/** Finished attempts of an operation that has ended, in brief: values without their names, in a third of the bytes. */
import type { AttemptRecord } from '../gate/ports.js';

type Brief = [number: number, sent: boolean, status: number | null, reason: string | null, outcome: AttemptRecord['outcome'], ms: number];

/** For the column `attempts_brief`. The order of the values is that of every row ever written: a further one comes last. */
export function briefly(attempts: readonly AttemptRecord[]): string {
  return JSON.stringify(attempts.map(({ number, sent, status, reason, outcome, ms }): Brief => [number, sent, status, reason, outcome, ms]));
}

/** The version before knows the long form alone: where that is not empty it is the newer one. */
export function attemptsOf(long: AttemptRecord[], brief: string | null): AttemptRecord[] {
  if (long.length > 0 || brief === null) return long;
  return (JSON.parse(brief) as Brief[]).map(([number, sent, status, reason, outcome, ms]) => ({ number, sent, status, reason, outcome, ms }));
}
