/** What may be asked after which answer. Only here it is decided whether a request is made again. */
import { type Answer, isAnswer } from './answer.js';
import { type Ids, noIds } from './callgate-error.js';
import type { Ask } from './exchange.js';
import type { Question, Step } from './settle.js';

/** `unavailable` is about one request: an earlier one may have been taken in. */
const speaksOfTheCall = (answer: Answer): boolean => answer.disposition !== 'unavailable';

export function proposing(path: string, body: string, answers: Ask['answers']): Ask {
  return { method: 'POST', path, body, waits: true, answers };
}

export function operationPath(operationId: string): string {
  return `/v1/operations/${encodeURIComponent(operationId)}`;
}

function lookingAt(operationId: string): Ask {
  return { method: 'GET', path: operationPath(operationId), waits: true, answers: isAnswer };
}

/** An operation that is named is followed; one that cannot be seen, or is another's, is waited for by proposing the same call again. */
export function callQuestion(propose: Ask, ids: Ids): Question {
  let unseen = false;
  const again: Step = { ask: propose, look: false };
  return {
    first: propose,
    ids,
    concerns: (document, asked) => isAnswer(document) && (asked === propose ? speaksOfTheCall(document) : document.operation_id !== null),
    next(document, asked, resend) {
      const { next_action: next, operation_id: operation } = document as Answer;
      if (asked !== propose && operation === null) {
        if (next === 'retry') return { ask: asked, look: false };
        unseen = true;
        return again;
      }
      if (next === 'wait' && operation !== null && !unseen) return { ask: lookingAt(operation), look: true };
      return resend && (next === 'wait' || next === 'retry') ? again : null;
    },
  };
}

/**
 * A turn is proposed again while something in it waits or may be tried again, and only if all the rest of it is done: a call that
 * was refused would be decided anew, which counts against its budget and may end otherwise than the first time.
 */
export function turnQuestion(propose: Ask, ids: Ids): Question {
  const again: Step = { ask: propose, look: false };
  const later = (next: string): boolean => next === 'wait' || next === 'retry';
  const done = (next: string): boolean => next === 'continue' || next === 'verify';
  return {
    first: propose,
    ids,
    concerns: (document) => !isAnswer(document) || speaksOfTheCall(document),
    next(document, _, resend) {
      if (!resend) return null;
      if (isAnswer(document)) return later(document.next_action) ? again : null;
      const { results } = document as { results: Answer[] };
      const open = results.filter(({ next_action: next }) => later(next));
      if (open.length === 0 || !results.every((result) => open.includes(result) || done(result.next_action))) return null;
      return { ...again, pauseMs: Math.max(...open.map(({ retry_after_ms: pauseMs }) => pauseMs ?? 0)) };
    },
  };
}

const withPeople: ReadonlySet<string> = new Set(['approval_required', 'review']);

/** Followed until it is settled, by evidence or by a person. */
export function operationQuestion(operationId: string): Question {
  const look = lookingAt(operationId);
  return {
    first: look,
    ids: noIds,
    concerns: (document) => (document as Answer).operation_id !== null,
    next(document, asked, resend) {
      const { next_action: next, operation_id: operation, disposition } = document as Answer;
      if (operation === null) return resend && next === 'retry' ? { ask: asked, look: false } : null;
      return next === 'wait' || withPeople.has(disposition) ? { ask: look, look: true } : null;
    },
  };
}

/** Answered at once, or not yet because the gateway is busy with itself. */
export function plainQuestion(ask: Ask, ids = noIds): Question {
  return {
    first: ask,
    ids,
    concerns: (document) => !isAnswer(document) || speaksOfTheCall(document),
    next: (document, asked, resend) => (isAnswer(document) && resend && document.next_action === 'retry' ? { ask: asked, look: false } : null),
  };
}
