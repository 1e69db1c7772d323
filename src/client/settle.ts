/**
 * From one question to its last honest answer. A request is made again byte by byte the same, so whatever became of the ones before
 * it, the gateway takes it for the same call; and what may have happened is asked about, never proposed again under another id.
 */
import { isAnswer } from './answer.js';
import { CallgateError, type Ids } from './callgate-error.js';
import { aborted, type Ask, exchange, type Link } from './exchange.js';
import type { Heard } from './heard.js';
import { type Limits, Patience, sleep } from './patience.js';

/** A `look` only asks how an operation stands; every other request counts as an attempt. */
export interface Step {
  ask: Ask;
  look: boolean;
  /** A pause that is asked for inside of the document. */
  pauseMs?: number;
}

export interface Question {
  first: Ask;
  ids: Ids;
  /** What to ask after a document; null: it is the answer. @param resend false: the same request must not be made again. */
  next(document: object, asked: Ask, resend: boolean): Step | null;
  /** Whether a document is about the matter, and not only about the request: `unavailable` says nothing of the requests before it. */
  concerns(document: object, asked: Ask): boolean;
}

export interface Waiting { waitMs: number; signal: AbortSignal | undefined }

export async function settle(link: Link, limits: Limits, question: Question, { waitMs, signal }: Waiting): Promise<object> {
  const patience = new Patience(waitMs, limits);
  const course = new Course(link, question, patience);
  for (let step: Step = { ask: question.first, look: false }; ; ) {
    const heard = await exchange(link, step.ask, patience.wait(), signal);
    course.note(heard, step.ask);
    if (heard.kind === 'failed') return course.ended(heard);
    const answered = heard.kind === 'document';
    if (!answered || !step.look) patience.spend();
    const next = answered ? question.next(heard.document, step.ask, heard.resend) : step;
    if (!next) return course.tell(heard);

    const looks = answered && next.look;
    const askedMs = answered && next.pauseMs !== undefined ? Math.max(next.pauseMs, heard.pauseMs ?? 0) : heard.pauseMs;
    const pauseMs = looks ? patience.look(askedMs) : patience.pause(askedMs);
    if (!patience.allows(pauseMs, { told: course.tellable !== null, costs: !looks })) return course.tell(heard);
    if (!(await sleep(pauseMs, signal))) return course.ended(aborted(signal as AbortSignal, false));
    step = next;
  }
}

/** What has been heard so far, and what can honestly be said of it. */
class Course {
  /** The last document about the matter. */
  private honest: object | null = null;
  private last: object | null = null;
  /** A proposal may have been taken in although its answer is not here. */
  private lost = false;

  constructor(private readonly link: Link, private readonly question: Question, private readonly patience: Patience) {}

  note(heard: Heard, asked: Ask): void {
    if (heard.kind === 'document') {
      this.last = heard.document;
      if (this.question.concerns(heard.document, asked)) this.honest = heard.document;
    } else {
      this.lost ||= heard.taken && asked.method === 'POST';
      if (heard.kind === 'failed') this.last ??= heard.document ?? null;
    }
  }

  /** What the caller can be told already. That nothing was sent is true of a proposal only if no other request for it was lost on the way. */
  get tellable(): object | null {
    return this.honest ?? (this.lost ? null : this.last);
  }

  /** Asking again is of no use. An answer that was heard before still stands; a caller who has left wants none. */
  ended(failed: Heard & { kind: 'failed' }): object {
    if (this.honest && failed.code !== 'ABORTED') return this.honest;
    throw this.error(failed.code, failed.why, failed.cause);
  }

  /** There is nothing more to ask, or no time for it. */
  tell(heard: Heard): object {
    if (this.tellable) return this.tellable;
    throw this.error('NO_ANSWER', heard.kind === 'lost' ? heard.why : 'it could not record the call, and an answer before that was lost');
  }

  private error(code: CallgateError['code'], why: string, cause?: unknown): CallgateError {
    const { ids } = this.question;
    const told = this.honest ?? this.last;
    const answer = told && isAnswer(told) ? told : null;
    const mayHaveHappened = this.lost || this.honest !== null;
    const requests = `${this.patience.attempts} request${this.patience.attempts === 1 ? '' : 's'} in ${Math.round(this.patience.elapsedMs / 1000)} s`;
    const opening = code === 'NO_ANSWER' ? `No answer from ${this.link.url} after ${requests}` : `${this.link.url} cannot be used`;
    return new CallgateError(code, `${code === 'ABORTED' ? 'Aborted' : opening}: ${why}. ${whatNow(ids, mayHaveHappened)}`, {
      cause, ids, answer, mayHaveHappened, operationId: answer?.operation_id ?? null,
    });
  }
}

function whatNow({ call_ids: callIds }: Ids, mayHaveHappened: boolean): string {
  if (!mayHaveHappened) return 'Nothing was done.';
  const [only] = callIds;
  const same = only !== undefined && callIds.length === 1 ? `with call_id \`${only}\`` : 'with the same ids';
  return `It may have been done: send it again ${same}, which cannot do it twice, and under no other.`;
}
