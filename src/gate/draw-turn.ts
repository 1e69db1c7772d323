/** The first call of a model's turn draws one from its session's budget; calls that name no turn draw none. */
import type { Refusal } from '../errors.js';
import { noTurnsLeft, sessionScope } from './budgets.js';
import type { ParsedCall } from './calls.js';
import type { Parts } from './parts.js';

export async function drawTurn(parts: Parts, call: Pick<ParsedCall, 'principal' | 'envelope'>): Promise<Refusal | undefined> {
  const { turnId } = call.envelope;
  if (turnId === '') return undefined;
  const spent = await parts.ledger.drawTurn({ tenant: call.principal.tenant, session: sessionScope(call), turnId, limit: parts.settings.turns });
  return spent ? noTurnsLeft(spent) : undefined;
}
