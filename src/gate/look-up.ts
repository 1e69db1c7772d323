/**
 * What the ledger knows of a call before anything is observed for it: how it was answered before, what is left of its budgets, and for a
 * read whether the session has read the same already. One statement; beside it, once in a turn, the one that draws the turn.
 */
import { isRefusal, refuse, type Refusal } from '../errors.js';
import { dailyPurse, noProposalsLeft, sessionScope } from './budgets.js';
import type { PermittedCall } from './calls.js';
import { drawTurn } from './draw-turn.js';
import { type Earlier, earlierAnswer, isFinal, keptOf, replayed } from './earlier.js';
import { alreadyDone } from './items.js';
import type { Parts } from './parts.js';
import type { Found } from './ports.js';
import { bindUndo } from './undo.js';
import { readKey, repeatedRead } from './repetition.js';

export async function lookUp(parts: Parts, permitted: PermittedCall): Promise<Earlier | Refusal> {
  const { identity, principal, envelope, tool } = permitted;
  const { tenant } = principal;
  await bindUndo(parts, permitted);
  const known = envelope.callIdMinted ? undefined : parts.replays.recall(identity);
  if (known) return replayed(permitted, known);
  const askedAt = performance.now();
  const { tracksTrust } = permitted.served.catalogue;
  const isRead = tool.effect === 'none';
  const minted = isRead && envelope.callIdMinted; // an id minted just now has no past
  const [found, noTurn] = await Promise.all([
    parts.ledger.find({
      tenant, callKey: minted ? null : (identity.callKey ?? identity.operation), identity: minted ? null : identity.operation,
      readIdentity: envelope.callIdMinted ? null : identity.callKey,
      seen: identity.entity && !isRead
        ? { principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId, entity: identity.entity.key }
        : null,
      guardKeys: identity.guardKeys,
      trust: tracksTrust ? { principal: principal.id, subject: envelope.subject, sessionId: envelope.sessionId } : null,
      kept: isRead ? [] : keptOf(identity.entities).map(({ plan, key }) => ({ service: plan.service, entity: key })),
      session: { purse: dailyPurse(principal), tool: tool.name, ...sessionScope(permitted) },
      ...(isRead ? { readKey: readKey(permitted) } : {}),
    }),
    drawTurn(parts, permitted),
  ]);
  const earlier = earlierAnswer(permitted, { repeated: await repeatedRead(parts, tenant, found), ...found });
  if (isRefusal(earlier)) return earlier;
  if (earlier.kind !== 'fresh') {
    if (isFinal(permitted, earlier)) parts.replays.keep(identity, earlier.operation, askedAt);
    return earlier;
  }
  return noTurn ?? noProposalLeft(parts, permitted, found) ?? (await previousMissing(parts, permitted)) ?? (await alreadyDone(parts, permitted)) ?? earlier;
}

function noProposalLeft(parts: Parts, { tool, envelope }: PermittedCall, { session }: Found): Refusal | undefined {
  const limit = session?.proposals.limit ?? parts.settings.proposals;
  const used = session?.proposals.used ?? 0;
  return used >= limit ? noProposalsLeft(tool.name, envelope, { limit, used }) : undefined;
}

async function previousMissing(parts: Parts, { identity, principal, envelope }: PermittedCall): Promise<Refusal | undefined> {
  if (identity.previousOccurrence === null) return undefined;
  const { current } = await parts.ledger.find({ tenant: principal.tenant, callKey: null, identity: identity.previousOccurrence, seen: null, guardKeys: [] });
  if (current?.state === 'committed') return undefined;
  return refuse('OCCURRENCE_NOT_ALLOWED', `Occurrence ${envelope.occurrence - 1} of this call has not committed.`);
}
