/** What a service told by itself about an operation, read by the contract under which that began. It is evidence like a read-back, and no more. */
import { EvaluationError, type ErrorRule, type Expression, type Scope, type ToolPlan } from '../contract/plan.js';
import type { Json, JsonObject } from '../model.js';
import { settlesItems } from './item-outcomes.js';
import type { CallbackEvent } from './ports.js';
import { type Run, runScope } from './run.js';

export type Told =
  | { proves: 'committed'; result: Json; event: JsonObject }
  | { proves: 'rejected'; rule: ErrorRule; body: Json; event: JsonObject }
  /** `unclear`: it might, but for a value that is not kept any more. */
  | { proves: 'nothing' | 'unclear'; event: JsonObject };

export type Committed = Extract<Told, { proves: 'committed' }>;
export type Rejected = Extract<Told, { proves: 'rejected' }>;

/** @param key the `operation.id` that was sent */
export function read(tool: ToolPlan, callScope: Scope, key: string, event: CallbackEvent): Told {
  const told: JsonObject = { event_id: event.id, received_at: event.receivedAt, body: event.body };
  const { headers, body } = event;
  const plan = tool.async?.callback;
  if (!plan || tool.service !== event.service || orNull(plan.operation, { headers, body }) !== key) return { proves: 'nothing', event: told };
  const scope: Scope = { ...callScope, headers, body };
  try {
    if (plan.committed.evaluate(scope)) return { proves: 'committed', result: resultOf(tool, scope), event: told };
    const rule = plan.rejected.find(({ when }) => when.evaluate(scope));
    return rule ? { proves: 'rejected', rule, body, event: told } : { proves: 'nothing', event: told };
  } catch (error) {
    if (error instanceof EvaluationError) return { proves: 'unclear', event: told };
    throw error;
  }
}

/** Null: the effect is claimed, and there is no answer to give yet. */
function resultOf(tool: ToolPlan, scope: Scope): Json {
  const given = tool.async?.callback?.result ? orNull(tool.async.callback.result, scope) : null;
  const admitted = given === null ? null : tool.admitResult(given);
  if (!admitted || !settlesItems(tool, scope, admitted.result)) return null;
  return admitted.result;
}

export function orNull<T>(expression: Expression<T>, scope: Scope): T | null {
  try {
    return expression.evaluate(scope);
  } catch (error) {
    if (error instanceof EvaluationError) return null;
    throw error;
  }
}

/** All that was told of an operation, in whatever order it came: of several that prove the same the first with an answer. */
export interface Heard { committed: Committed | null; rejected: Rejected | null }

const nothing: Heard = { committed: null, rejected: null };

export async function heard(run: Run): Promise<Heard> {
  const { parts, tool, operation } = run;
  if (!tool.async?.callback) return nothing;
  const scope = runScope(run);
  const told = (await parts.ledger.callbacks.about(operation.upstreamKey)).map((event) => read(tool, scope, operation.upstreamKey, event));
  const committed = told.filter((one) => one.proves === 'committed');
  return { committed: committed.find(({ result }) => result !== null) ?? committed[0] ?? null, rejected: told.find((one) => one.proves === 'rejected') ?? null };
}

/** That the service refused it is about every attempt only where there was one, or none that is in doubt (semantics.md section 4). */
export function settles({ committed, rejected }: Heard, { operation }: Run): boolean {
  return committed !== null || (rejected !== null && !operation.effectSeen && (operation.attempt === 1 || operation.unknownAttempts === 0));
}
