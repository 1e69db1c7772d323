/**
 * The result of an operation as text: canonical JSON in UTF-8, so that pages of it are the same on every replica and at every time, cut
 * only between characters.
 */
import { canonicalText } from '../canonical.js';
import { refuse, type Refusal } from '../errors.js';
import type { Json, OperationState, ResultPage } from '../model.js';
import type { Operation } from './ports.js';

const withoutResultYet: readonly OperationState[] = ['parked', 'approved', 'sending', 'accepted', 'unknown'];

/** @param offset in bytes, where a character begins @param limitBytes at least 4, so that every page gets on */
export function resultPage(operation: Operation, offset: number, limitBytes: number): ResultPage | Refusal {
  const { state, answer } = operation;
  if (withoutResultYet.includes(state) || (state === 'review' && answer === null)) return refuse('IN_PROGRESS', 'The operation has not settled yet, so it has no result.');
  if (answer === null) return refuse('RESULT_EXPIRED', 'The result has passed its retention. How the operation ended is still told.');
  const whole = resultBytes((answer['result'] ?? null) as Json);
  return pageOf(whole, offset, limitBytes) ?? refuse('INVALID_ENVELOPE', `\`offset\` is not where a character of the ${whole.length} bytes begins.`, {
    errors: [{ pointer: '/offset', code: 'INVALID_PARAMETER', message: 'Take `next_offset` of the page before as it is.' }],
  });
}

export function resultBytes(result: Json): Buffer {
  return Buffer.from(resultText(result));
}

/** A service may answer with half of a surrogate pair, which has no canonical form; JSON writes it as an escape. */
function resultText(result: Json): string {
  try {
    return canonicalText(result);
  } catch (error) {
    if (error instanceof TypeError) return JSON.stringify(result);
    throw error;
  }
}

/** Null: no character begins at `offset`, or it lies behind the end. */
export function pageOf(whole: Buffer, offset: number, limitBytes: number): ResultPage | null {
  if (offset > whole.length || !beginsCharacter(whole, offset)) return null;
  let end = Math.min(whole.length, offset + limitBytes);
  while (!beginsCharacter(whole, end)) end--;
  return { text: whole.toString('utf8', offset, end), offset, bytes: whole.length, next_offset: end < whole.length ? end : null };
}

/** Continuation bytes of UTF-8 are 10xxxxxx; the end counts as a beginning. */
function beginsCharacter(whole: Buffer, at: number): boolean {
  return at === whole.length || ((whole[at] as number) & 0xc0) !== 0x80;
}
