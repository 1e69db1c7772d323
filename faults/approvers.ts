/**
 * People who look, when everything is quiet, at what still waits for them (`GET /v1/approvals`): the call of somebody who has gone. They say no.
 * Whatever waits for any other reason is left waiting, for the checker to find.
 */
import { type History, isRefusedByPerson, isUnheard, type Told } from './history.js';
import type { House } from './house.js';
import { insist } from './evidence.js';
import { toldOf } from './story.js';
import { ask } from './wire.js';

export interface Waiting {
  id: string; operation_id: string; approved_by: string[]; digest: string; summary: string; tool: string; subject: string; arguments: Record<string, unknown>;
}

/**
 * Nobody comes back to it, and nobody could know better: another one like it was refused by a person, so it is not proposed any more; or its caller gives
 * up, and was never told that it waits, or somebody whom that caller asked for an approval was not heard. What was heard must have been kept.
 */
export function isLeftBehind(told: Told, { id, operation_id: operation, approved_by: kept }: Pick<Waiting, 'id' | 'operation_id' | 'approved_by'>): boolean {
  const verdicts = told.verdicts.filter(({ approval }) => approval === id);
  if (verdicts.some(({ http, decision, by }) => http === 200 && (decision === 'reject' || !kept.includes(by)))) return false;
  if (isRefusedByPerson(told)) return true;
  const knew = told.said.some(({ disposition, operationId }) => disposition === 'approval_required' && operationId === operation);
  return told.step.givesUp && (!knew || verdicts.some(isUnheard));
}

export async function answerLeftBehind(house: House, history: History): Promise<void> {
  for (const tenant of ['acme', 'globex'] as const) {
    // Whoever has approved a call may refuse it too, but this one has seen none.
    const [, , key] = house.keys.people[tenant].reviewers;
    const { items } = await insist(house, '/v1/approvals?limit=500', key) as { items: { id: string }[] };
    for (const { id } of items) {
      const waiting = await insist(house, `/v1/approvals/${id}`, key) as unknown as Waiting;
      const told = toldOf({ tool: waiting.tool, args: waiting.arguments, subject: waiting.subject }, history);
      if (told && isLeftBehind(told, waiting)) await refuse(house, key, told, waiting);
    }
  }
}

async function refuse(house: House, key: string, told: Told, { id, digest, summary }: Waiting): Promise<void> {
  const heard = await ask(`${house.fleet.any(0).controlUrl}/v1/approvals/${id}/decision`, key, { decision: 'reject', reason: 'whoever asked has gone', expected_digest: digest });
  told.verdicts.push({ approval: id, decision: 'reject', by: 'reviewer-3', http: heard?.http ?? 0, summary, digest });
}
