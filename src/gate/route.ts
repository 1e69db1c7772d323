/**
 * Stage 6, route: the single write that commits the effect receipt with the new state, and what everybody will be told from then on.
 * Also the ways to put an operation down without an outcome: for later, or for a person.
 */
import type { ErrorRule } from '../contract/plan.js';
import type { ProblemCode } from '../errors.js';
import { problems } from '../errors.js';
import type { Json, JsonObject, OperationState } from '../model.js';
import type { Told } from './answer.js';
import type { SeenEntity, StoredAnswer } from './ports.js';
import type { Aftermath } from './read-back.js';
import { effectReceipt } from './receipts.js';
import { move, type Run } from './run.js';

export interface CommitEvidence {
  result: Json;
  verified: boolean;
  readback?: JsonObject;
  aftermath?: Aftermath | null;
  /** A read-back is still owed: keep looking, and tell the caller how it can look itself. */
  owed?: boolean;
}

const firstLookMs = 500;

export async function settleCommitted(run: Run, evidence: CommitEvidence): Promise<boolean> {
  const { operation, tool, parts } = run;
  const states = evidence.aftermath?.states ?? {};
  const told: Told = {
    result: evidence.result, states, legal_actions: Object.values(states).flatMap((state) => run.legalActions(state)),
    ...(evidence.owed ? verifyWith(run) : {}),
    resource: run.dossier.resource,
  };
  const receipt = effectReceipt(parts, operation, tool.redact, {
    disposition: 'executed', outcome: 'committed', verified: evidence.verified, attempts: operation.attempts, result: evidence.result, states,
    ...(evidence.readback ? { readback: evidence.readback } : {}),
  });
  return move(run, {
    from: ['sending', 'accepted', 'unknown', 'committed'], to: 'committed', outcome: 'committed', verified: evidence.verified, effectSeen: true, reason: null,
    attempts: operation.attempts, answer: told as unknown as StoredAnswer, settle: true, dueInMs: evidence.owed ? firstLookMs : null, release: true,
    receipt, effectReceipt: receipt.id, seen: seenAfter(run, evidence.aftermath),
  });
}

function verifyWith(run: Run): Pick<Told, 'verifyWith'> {
  const { readback } = run.tool;
  return readback ? { verifyWith: { tool: readback.tool.name, arguments: {} } } : {};
}

/** Its own write moved the version, and the answer reports the state: the session's next proposal rests on that. */
function seenAfter({ operation, dossier }: Run, aftermath: Aftermath | null | undefined): SeenEntity[] {
  const entity = dossier.baseline.entity;
  if (!entity) return [];
  return [{
    tenant: operation.tenant, principal: operation.principal, subject: operation.subject, sessionId: operation.sessionId, entity,
    version: aftermath?.version ?? null, state: aftermath?.states[entity] ?? null,
  }];
}

export interface Ending {
  state: Extract<OperationState, 'rejected' | 'failed' | 'rate_limited'>;
  outcome: 'rejected' | 'not_committed';
  code: ProblemCode;
  detail: string;
  rule?: ErrorRule | null;
  retryAfterMs?: number;
  /** Not one byte of any attempt left. */
  neverSent?: boolean;
  readback?: JsonObject;
}

/** Ended without an effect, which frees the identity: the next equal proposal is a new generation. */
export async function settleEnded(run: Run, ending: Ending): Promise<boolean> {
  const { operation, tool, parts } = run;
  const told: Told = {
    result: null, states: {}, legal_actions: [],
    problem: {
      code: ending.code, detail: ending.rule?.message ?? ending.detail,
      ...(ending.rule?.code ? { contractCode: ending.rule.code } : {}),
      ...(ending.rule ? { next: ending.rule.next } : {}),
    },
    ...(ending.retryAfterMs === undefined ? {} : { retryAfterMs: ending.retryAfterMs }),
  };
  const receipt = effectReceipt(parts, operation, tool.redact, {
    disposition: problems[ending.code].disposition, outcome: ending.outcome, verified: false, attempts: operation.attempts, result: null,
    reason: ending.rule?.code ?? ending.code, ...(ending.readback ? { readback: ending.readback } : {}),
  });
  return move(run, {
    from: ['sending', 'accepted', 'unknown'], to: ending.state, outcome: ending.outcome, reason: ending.rule?.code ?? ending.code, attempts: operation.attempts,
    unknownAttempts: 0, answer: told as unknown as StoredAnswer, settle: true, refund: ending.neverSent ?? false, receipt, effectReceipt: receipt.id,
  });
}

export type ReviewReason =
  | 'MISMATCH' | 'DIVERGENCE' | 'CONTRADICTED' | 'OUTCOME_UNPROVABLE' | 'KEY_WINDOW_PASSED' | 'MISSING_AFTER_COMMIT' | 'DEADLINE_PASSED' | 'RESEND_NEEDS_A_PERSON';

/** Into a person's hands. The guard keys and the sealed request stay: nothing else may touch the entity until it is decided. */
export async function toReview(run: Run, reason: ReviewReason, seen: { readback?: JsonObject; result?: Json; states?: JsonObject } = {}): Promise<boolean> {
  const { operation, tool, parts } = run;
  const outcome = operation.effectSeen || reason === 'DIVERGENCE' ? 'committed' : 'unknown';
  const receipt = effectReceipt(parts, operation, tool.redact, {
    disposition: 'review', outcome, verified: false, attempts: operation.attempts, result: seen.result ?? null, reason,
    ...(seen.readback ? { readback: seen.readback } : {}), ...(seen.states ? { states: seen.states } : {}),
    ...(reason === 'CONTRADICTED' ? { corrects: operation.effectReceipt } : {}),
  });
  parts.log.warn({ operation: operation.id, tool: operation.tool, reason }, 'an operation went to review');
  return move(run, {
    from: ['sending', 'accepted', 'unknown', 'committed', 'rejected', 'failed', 'rate_limited', 'cancelled', 'abandoned'],
    to: 'review', outcome, reason, attempts: operation.attempts, dueInMs: null, release: true, receipt, effectReceipt: receipt.id,
    ...(seen.result === undefined ? {} : { answer: { result: seen.result, states: {}, legal_actions: [], resource: run.dossier.resource as Json } }),
  });
}

/** Put down for recovery on any replica. */
export async function putDown(run: Run, dueInMs: number): Promise<boolean> {
  return move(run, { from: [run.operation.state], to: run.operation.state, release: true, dueInMs: Math.max(0, Math.round(dueInMs)) });
}
