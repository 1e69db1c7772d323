/** A person who looks into the service's books before deciding, as one is told to. */
import { setTimeout as delay } from 'node:timers/promises';
import type { House } from './house.js';
import type { Random } from './random.js';
import { ask } from './wire.js';

export interface Reviewers { decided(): { key: string; reason: string }[]; stop(): Promise<void> }

interface Review { digest: string; reason: string; operation: { idempotency_key: string } }

const everyMs = 1_000;

export function startReviewers(house: House, random: Random): Reviewers {
  let stopped = false;
  const decided: { key: string; reason: string }[] = [];
  const round = async (): Promise<void> => {
    for (const tenant of ['acme', 'globex'] as const) {
      // Whoever approved a call may not decide what became of it.
      const [, , key] = house.keys.people[tenant].reviewers;
      const heard = await ask(`${house.fleet.any(random.below(1_000)).controlUrl}/v1/reviews?limit=100`, key);
      if (heard?.http !== 200) continue;
      for (const { id } of heard.body['items'] as { id: string }[]) {
        const review = await ask(`${house.fleet.any(random.below(1_000)).controlUrl}/v1/reviews/${id}`, key);
        if (review?.http !== 200) continue;
        const { digest, reason, operation } = review.body as unknown as Review;
        const { credits, voids, cancellations } = await house.shop.books();
        const entry = [...credits, ...voids, ...cancellations].find((one) => one.key === operation.idempotency_key);
        const verdict = entry ? { decision: 'committed', evidence: entry } : random.chance(0.5) ? { decision: 'resend' } : { decision: 'not_committed', evidence: 'it is not in the books' };
        const said = await ask(`${house.fleet.any(random.below(1_000)).controlUrl}/v1/reviews/${id}/decision`, key, { ...verdict, reason: 'looked into the books', expected_digest: digest });
        if (said?.http === 200) decided.push({ key: operation.idempotency_key, reason });
      }
    }
  };
  const running = (async () => {
    while (!stopped) {
      await round();
      await delay(everyMs);
    }
  })();
  return {
    decided: () => decided,
    async stop() {
      stopped = true;
      await running;
    },
  };
}
