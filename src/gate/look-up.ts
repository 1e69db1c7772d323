/** What the ledger knows of a call before anything is observed for it. */
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { PermittedCall } from './calls.js';
import { type Earlier, earlierAnswer, type FoundEarlier, keptOf } from './earlier.js';
import type { Parts } from './parts.js';

const neverSeen: FoundEarlier = { call: null, current: null, seenVersion: null, untrusted: false, guardEpochs: [], guarded: false, kept: [], readBefore: null };

export async function lookUp(parts: Parts, permitted: PermittedCall): Promise<Earlier | Refusal> {
  const { identity, principal, envelope, tool } = permitted;
  const { tenant } = principal;
  const { tracksTrust } = permitted.served.catalogue;
  if (tool.effect === 'none' && envelope.callIdMinted && !tracksTrust) return earlierAnswer(permitted, neverSeen); // an id minted just now has no past
  const [found, read] = await Promise.all([
    parts.ledger.find({
      tenant, callKey: identity.callKey ?? identity.operation, identity: identity.operation,
      seen: identity.entity && tool.effect !== 'none'
        ? { principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId, entity: identity.entity.key }
        : null,
      guardKeys: identity.guardKeys,
      trust: tracksTrust ? { principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId } : null,
      kept: tool.effect === 'none' ? [] : keptOf(identity.entities).map(({ plan, key }) => ({ service: plan.service, entity: key })),
    }),
    identity.callKey && !envelope.callIdMinted ? parts.ledger.find({ tenant, callKey: null, identity: identity.callKey, seen: null, guardKeys: [] }) : null,
  ]);
  const earlier = earlierAnswer(permitted, { ...found, readBefore: read?.current ?? null });
  const before = identity.previousOccurrence;
  if (before === null || isRefusal(earlier) || earlier.kind !== 'fresh') return earlier;
  const { current } = await parts.ledger.find({ tenant, callKey: null, identity: before, seen: null, guardKeys: [] });
  if (current?.state === 'committed') return earlier;
  return refuse('OCCURRENCE_NOT_ALLOWED', `Occurrence ${envelope.occurrence - 1} of this call has not committed.`);
}
