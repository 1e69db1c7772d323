/**
 * Idempotency keys, and what was done under each. A key is bound by the first decision, a refusal too; it answers an equal request again
 * and refuses another one. Kept for as long as the service runs.
 */
import { type Answer, refusal } from './answer.js';

export interface Receipt {
  /** Effects under the key. */
  count: 0 | 1;
  tool: string | null;
  target: string | null;
  response: unknown;
}

interface Kept {
  meaning: string;
  answer: Answer;
  receipt: Receipt;
}

const nothing: Receipt = { count: 0, tool: null, target: null, response: null };

export class Receipts {
  readonly #kept = new Map<string, Kept>();

  /** @param meaning what the request asks for, as text. @param decide acts at once, or refuses and changes nothing. */
  once(key: string, { meaning, tool, target }: { meaning: string; tool: string; target: string }, decide: () => Answer): Answer {
    const known = this.#kept.get(key);
    if (known) return known.meaning === meaning ? known.answer : refusal(422, 'KEY_REUSED');
    const answer = decide();
    const receipt: Receipt = answer.status < 300 ? { count: 1, tool, target, response: answer.body } : nothing;
    this.#kept.set(key, { meaning, answer, receipt });
    return answer;
  }

  under(key: string): Receipt {
    return this.#kept.get(key)?.receipt ?? nothing;
  }

  /** All effects, in their order. */
  effects(): Receipt[] {
    return [...this.#kept.values()].map(({ receipt }) => receipt).filter(({ count }) => count === 1);
  }
}
