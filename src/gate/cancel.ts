/** What has not been sent can be taken back by whoever proposed it (semantics.md section 3); everything else is too late. */
import { randomUUID } from 'node:crypto';
import type { Parts } from './parts.js';
import type { Operation } from './ports.js';
import { announceSettled } from './topics.js';
import { unsentEnding } from './unsent.js';

export function isUnsent({ state, clock }: Operation): boolean {
  return state === 'parked' || (state === 'approved' && clock.sinceFirstSent === null);
}

/** False: it was moved in this moment; look again. */
export async function cancelUnsent(parts: Parts, operation: Operation): Promise<boolean> {
  const from = operation.state === 'approved' ? 'approved' : 'parked';
  const moved = await parts.ledger.transition({
    tenant: operation.tenant, operationId: operation.id, writeId: randomUUID(), fence: operation.fence,
    ...unsentEnding(parts, operation, { kind: 'unsent', from, code: 'CANCELLED', detail: 'It was cancelled before it was sent.' }),
  });
  if (moved) announceSettled(parts, operation);
  return moved;
}
