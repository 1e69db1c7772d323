/** What is announced to whoever waits, in this process and over replicas. */
import type { Parts } from './parts.js';
import type { Operation } from './ports.js';
import { guardTopic } from './turn.js';

/** Something is due for recovery now, before its next look. */
export const dueTopic = 'due';

/** Something is asked to be cancelled that may wait in another replica. */
export const cancelTopic = 'cancel';

/** How an operation stands has changed, and with it perhaps its entity. */
export function announceSettled({ locks }: Parts, { id, tenant, dossier }: Operation): void {
  locks.announce(id);
  if (dossier?.baseline.entity) locks.announce(guardTopic(tenant, dossier.baseline.entity));
}
