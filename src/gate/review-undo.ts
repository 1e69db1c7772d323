/**
 * The undo that a contract names, ordered by the person who looks at a review. It walks the path of any call, as that person, for the
 * subject and the purpose of the effect: the tool has to be on their list, policy has to permit it to them, and where its contract asks for an approval
 * somebody else gives it. Its identity is the effect that it takes back, the same as that of an agent which proposes it: so it is one
 * operation, whoever orders it, in whatever moment, and however often.
 */
import { isRefusal, refuse, type Refusal } from '../errors.js';
import type { Answer, JsonObject, Principal } from '../model.js';
import type { UndoOrder } from '../ports.js';
import { withinLimit } from './answer.js';
import type { Parts } from './parts.js';
import { call } from './pipeline.js';
import type { ReviewCase } from './ports.js';
import { againstUndo, undoDigest, undoIn } from './review-case.js';

export async function orderUndo(parts: Parts, of: ReviewCase, person: Principal, order: UndoOrder): Promise<Answer | Refusal> {
  const undo = orderable(of, order);
  if (isRefusal(undo)) return undo;
  const { operation } = of;
  const callId = `undo-${operation.id}`;
  const answer = await call(parts, {
    principal: { ...person, subject: operation.subject || null, purposes: operation.purpose ? [operation.purpose] : [] },
    turn: { session_id: operation.sessionId, ...(operation.intentId ? { intent_id: operation.intentId } : {}) },
    members: { call_id: callId, tool: undo.tool, arguments: undo.arguments },
    context: { name: callId, sameAs: null, cut: null },
    undoes: { operation: operation.id, principal: operation.principal, subject: operation.subject, effectReceipt: operation.effectReceipt, review: of.id, because: order.reason },
  }, { until: performance.now() + (order.patienceMs ?? parts.settings.patienceMs), respondAsync: false });
  return withinLimit(answer, parts.settings.resultBytes);
}

function orderable(of: ReviewCase, order: UndoOrder): { tool: string; arguments: JsonObject } | Refusal {
  const undo = undoIn(of);
  if (!undo) return refuse('DECISION_NOT_POSSIBLE', 'Its contract names no undo, or the result that the undo needs is not known.');
  const against = againstUndo(of);
  if (against !== null) return refuse('DECISION_NOT_POSSIBLE', against);
  if (order.expected_digest !== undoDigest(of, undo)) return refuse('EVIDENCE_CHANGED', '`expected_digest` is not of the undo as it is now. Nothing was ordered.');
  return undo;
}
