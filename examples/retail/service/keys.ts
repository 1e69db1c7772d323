/**
 * Idempotency keys, honoured as the service promises: one decision per key. 24 hours are promised; the example keeps
 * them for as long as its world lasts. Decided refusals are kept too, as real services do, so a refused request that is mended
 * needs a new key. What never reached a decision (a malformed request, 429, 503 NOT_STARTED) leaves its key free.
 */
import { refusal, type Answer } from './answer.js';

export class IdempotencyKeys {
  readonly #entries = new Map<string, { fingerprint: string; answer: Promise<Answer> }>();

  /**
   * Runs `decide` for the first request with this key. A later one, also while the first still runs, gets the first
   * one's answer with `Idempotent-Replay: true`, or 422 `KEY_REUSED` when it means something else. When `decide` throws
   * before it returns a promise, so does this, and the key stays free.
   */
  once(key: string, fingerprint: string, decide: () => Promise<Answer>): Promise<Answer> {
    const known = this.#entries.get(key);
    if (known === undefined) {
      const answer = decide();
      this.#entries.set(key, { fingerprint, answer });
      return answer;
    }
    return known.fingerprint === fingerprint ? replayed(known.answer) : Promise.resolve(refusal(422, 'KEY_REUSED'));
  }
}

async function replayed(first: Promise<Answer>): Promise<Answer> {
  const answer = await first;
  return { ...answer, headers: { ...answer.headers, 'idempotent-replay': 'true' } };
}
