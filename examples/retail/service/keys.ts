/**
 * Idempotency keys, honoured as the service promises: one decision per key. 24 hours are promised; the example keeps
 * them for as long as it runs. Decided refusals are kept too, as real services do, so a refused request that is mended
 * needs a new key. What never reached a decision (a malformed request, 429, 503 NOT_STARTED) leaves its key free.
 */
import { refusal, type Answer } from './answer.js';

export class IdempotencyKeys {
  readonly #entries = new Map<string, { fingerprint: string; answer: Promise<Answer> }>();

  /**
   * Runs `decide` for the first request with this key. A later one, also while the first still runs, gets the first
   * one's answer with `Idempotent-Replay: true`, or 422 `KEY_REUSED` when it means something else.
   */
  async once(key: string, fingerprint: string, decide: () => Promise<Answer>): Promise<Answer> {
    const known = this.#entries.get(key);
    if (known === undefined) {
      const answer = decide();
      this.#entries.set(key, { fingerprint, answer });
      return answer;
    }
    if (known.fingerprint !== fingerprint) return refusal(422, 'KEY_REUSED');
    const answer = await known.answer;
    return { ...answer, headers: { ...answer.headers, 'idempotent-replay': 'true' } };
  }
}
