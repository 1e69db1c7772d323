/** An operation out of the ledger, in the hands of this process: as recovery and the people who decide go on with it. */
import type { Json } from '../model.js';
import type { Parts } from './parts.js';
import type { Operation } from './ports.js';
import type { Run } from './run.js';

/** Why an attempt has no result: whoever made it is gone. */
export const processLost = 'process_lost';

/** Null: its contract is not at hand, or its sealed request does not open. */
export async function openRun(parts: Parts, operation: Operation): Promise<Run | null> {
  const catalogue = await parts.catalogueOf(operation.catalogueDigest);
  const tool = catalogue?.tools.get(operation.tool);
  if (!tool || !operation.dossier) return null;
  const now = performance.now();
  const { clock } = operation;
  return {
    parts, tool, operation, dossier: operation.dossier,
    absentFrom: clock.untilAbsent === null ? null : now + clock.untilAbsent,
    firstSentAt: now - (clock.sinceFirstSent ?? clock.sinceCreated),
    reconcileBy: now + (clock.untilReconcileBy ?? parts.settings.reconcileDeadlineMs),
    takenOver: operation.state === 'sending' || operation.attempts.some(({ reason }) => reason === processLost),
    witnessed: false,
    known: (operation.answer?.['known'] ?? null) as Json,
    legalActions: () => [],
  };
}
