/**
 * Taking back: the contract names the tool and where each argument comes from, the answer offers that call, and whoever proposes exactly it
 * takes that effect back, once. Its identity is what it takes back, so a new intent, key, session or occurrence makes no second one.
 */
import { EvaluationError } from '../contract/plan.js';
import type { Json, JsonObject } from '../model.js';
import type { CallIdentities, ShapedCall } from './calls.js';
import { undoIdentity, undoKey } from './identity.js';
import type { Parts } from './parts.js';
import type { Transition } from './ports.js';
import { type Run, runScope } from './run.js';
import { evaluateAll } from './scope.js';

export interface Undo { tool: string; arguments: JsonObject }

/** From what was sent and what came of it, never from a model. Undefined where the contract names none, or the result that it needs is not known. */
export function undoOf(run: Run, result: Json): Undo | undefined {
  const plan = run.tool.compensate;
  if (!plan || result === null) return undefined;
  try {
    return { tool: plan.tool, arguments: evaluateAll(plan.args, { ...runScope(run), result }) };
  } catch (error) {
    if (error instanceof EvaluationError) return undefined;
    throw error;
  }
}

export function undoKeyOf({ operation }: Run, undo: Undo | undefined): Pick<Transition, 'undoKey'> {
  return undo ? { undoKey: undoKey(operation, undo.tool, undo.arguments) } : {};
}

/** Before it is looked up: a call that was offered as an undo is that undo, and so is one that a person ordered, in whose name whatever. */
export async function bindUndo(parts: Parts, call: ShapedCall): Promise<void> {
  const { tool, principal, envelope, args, identity } = call;
  if (identity.undoes) return;
  if (envelope.undoes) return takesBack(identity, { tenant: principal.tenant, ...envelope.undoes }, envelope.undoes.operation);
  if (!tool.undoes) return;
  const who = { tenant: principal.tenant, principal: principal.id, subject: envelope.subject };
  const original = await parts.ledger.offeredUndo(who.tenant, undoKey(who, tool.name, args));
  if (original === null) return;
  takesBack(identity, who, original);
}

/** @param of whose effect it is */
function takesBack(identity: CallIdentities, of: { tenant: string; principal: string; subject: string }, original: string): void {
  Object.assign(identity, { operation: undoIdentity(of, original), previousOccurrence: null, ownKey: false, undoes: original });
}
