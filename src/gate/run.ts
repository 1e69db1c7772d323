/** An open operation in the hands of this process: what its stages after the intent commit share, inline and in recovery alike. */
import { randomUUID } from 'node:crypto';
import type { Scope, ToolPlan } from '../contract/plan.js';
import type { Json } from '../model.js';
import type { Parts } from './parts.js';
import type { Dossier, Operation, Transition } from './ports.js';
import { scopeOf } from './scope.js';

export interface Run {
  parts: Parts;
  tool: ToolPlan;
  /** As the ledger has it after our last transition. */
  operation: Operation;
  dossier: Dossier;
  /** On the clock of `performance.now()`. A read-back that begins earlier proves no absence; null until an attempt is unknown. */
  absentFrom: number | null;
  firstSentAt: number;
  reconcileBy: number;
  /** Another process began it: what that one had sent cannot be asked any more. */
  takenOver: boolean;
  /** An answer of the destination to one of our own attempts says that it happened, or will. */
  witnessed: boolean;
  /** Of a call about a list: an earlier answer, by which some of its items are done. */
  known: Json;
  legalActions(state: string): string[];
}

/** Names for expressions over an operation; the caller's roles are not kept and none of these expressions may decide by them. */
export function runScope({ operation, dossier }: Run): Scope {
  const { principal: id, tenant } = operation;
  const scope = scopeOf({
    args: dossier.args, bound: dossier.bound, principal: { id, tenant, subject: operation.subject || null, roles: [] },
    session: { id: operation.sessionId, untrusted: dossier.untrusted ?? false }, operation: { id: operation.upstreamKey },
  });
  for (const name of Object.keys(dossier.observed)) if (!Object.hasOwn(scope, name)) scope[name] = dossier.observed[name];
  return scope;
}

type Change = Omit<Transition, 'tenant' | 'operationId' | 'writeId' | 'fence'>;

/**
 * Moves the operation and keeps our copy in step. False: somebody else moved it, and this process no longer has a say.
 * @throws LedgerUnavailable when it is not known to be durable; the lease then runs out and recovery goes on.
 */
export async function move(run: Run, change: Change): Promise<boolean> {
  const { operation } = run;
  const moved = await run.parts.ledger.transition({
    tenant: operation.tenant, operationId: operation.id, writeId: randomUUID(), fence: operation.fence, ...change,
  });
  if (!moved) return false;
  operation.state = change.to;
  if (change.outcome !== undefined) operation.outcome = change.outcome;
  if (change.reason !== undefined) operation.reason = change.reason;
  if (change.verified !== undefined) operation.verified = change.verified;
  if (change.attempts) operation.attempts = change.attempts;
  if (change.unknownAttempts !== undefined) operation.unknownAttempts = change.unknownAttempts;
  if (change.effectSeen) operation.effectSeen = true;
  if (change.send) operation.attempt = change.send.attempt;
  if (change.answer) operation.answer = change.answer;
  if (change.review) operation.reviewId = change.review.id;
  if (change.effectReceipt) operation.effectReceipt = change.effectReceipt;
  if (change.absentInMs !== undefined) run.absentFrom = change.absentInMs === null ? null : performance.now() + change.absentInMs;
  return true;
}

