/** An operation out of the ledger, in the hands of this process: as recovery and the people who decide go on with it. */
import type { Json } from '../model.js';
import type { Parts } from './parts.js';
import type { Dossier, Operation } from './ports.js';
import type { Told } from './answer.js';
import type { Run } from './run.js';

/**
 * What is left of a request that was sealed: it is wiped when its operation ends. Where policy saw a resource its arguments are kept with the
 * answer, and of a call that ended without an effect what that effect would change here. Nothing is sent or read by it.
 */
export function leftOf({ answer }: Operation): Dossier {
  const told = answer as unknown as Pick<Told, 'decided' | 'left'> | null;
  return {
    request: null, args: told?.decided?.args ?? {}, bound: {}, observed: {}, resource: told?.decided?.resource ?? null,
    ...(told?.left ?? { baseline: { entity: null, state: null, never: {} } }),
  };
}

/** Why an attempt has no result: whoever made it is gone. */
export const processLost = 'process_lost';

/**
 * Null: its contract is not at hand, or its sealed request does not open.
 * @param dossier what is known of the request
 */
export async function openRun(parts: Parts, operation: Operation, dossier = operation.dossier): Promise<Run | null> {
  const catalogue = await parts.catalogueOf(operation.catalogueDigest);
  const tool = catalogue?.tools.get(operation.tool);
  if (!tool || !dossier) return null;
  const now = performance.now();
  const { clock } = operation;
  return {
    parts, tool, operation, dossier,
    absentFrom: clock.untilAbsent === null ? null : now + clock.untilAbsent,
    firstSentAt: now - (clock.sinceFirstSent ?? clock.sinceCreated),
    reconcileBy: now + (clock.untilReconcileBy ?? parts.settings.reconcileDeadlineMs),
    takenOver: operation.state === 'sending' || operation.attempts.some(({ reason }) => reason === processLost),
    witnessed: false,
    known: (operation.answer?.['known'] ?? null) as Json,
    legalActions: () => [],
  };
}
