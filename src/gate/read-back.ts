/** Asking the destination what really happened, and what the entity looks like afterwards. Reads only. */
import { canonicalText } from '../canonical.js';
import { EvaluationError } from '../contract/plan.js';
import type { Json, JsonObject } from '../model.js';
import { settlesItems } from './item-outcomes.js';
import { asObject, readUpstream } from './read.js';
import { type Run, runScope } from './run.js';
import { evaluateAll, readScope } from './scope.js';

export type ReadBack =
  | { found: 'committed'; result: Json | null; evidence: JsonObject }
  /** `began` on the clock of `performance.now()`: absence counts only when the read began after the window. */
  | { found: 'absent'; began: number; evidence: JsonObject }
  /** Neither committed nor absent: another amount, two effects. */
  | { found: 'mismatch'; evidence: JsonObject }
  | { found: 'nothing' };

export async function readBack(run: Run, until: number): Promise<ReadBack> {
  const plan = run.tool.readback;
  if (!plan) return { found: 'nothing' };
  const scope = runScope(run);
  try {
    const args = evaluateAll(plan.args, scope);
    const { outcome, startedAt } = await readUpstream(run.parts, plan.tool, readScope(scope, plan.tool, args), until, 'read_back');
    if (outcome.kind !== 'read') return { found: 'nothing' };
    const seen = { ...scope, result: outcome.result, status: outcome.status, headers: outcome.headers };
    const evidence: JsonObject = { tool: plan.tool.name, arguments: args, result: outcome.result };
    if (plan.committed.evaluate(seen)) {
      const given = plan.result ? run.tool.admitResult(plan.result.evaluate(seen)) : null;
      if (run.tool.partial && (!given || !settlesItems(run.tool, scope, given.result))) return { found: 'nothing' };
      return { found: 'committed', result: given?.result ?? null, evidence };
    }
    return plan.absent.evaluate(seen) ? { found: 'absent', began: startedAt, evidence } : { found: 'mismatch', evidence };
  } catch (error) {
    if (error instanceof EvaluationError) return { found: 'nothing' };
    throw error;
  }
}

/** Only a read that began after the window. */
export function provesAbsence({ absentFrom }: Run, seen: ReadBack): boolean {
  return seen.found === 'absent' && absentFrom !== null && seen.began >= absentFrom;
}

export interface Aftermath {
  states: Record<string, string>;
  version: string | null;
  /** Not null: what was observed is not what the contract declares. */
  divergence: JsonObject | null;
}

/** The entity after a commit, held against the declared next state and `effects.never` (semantics.md section 7). Null: not asked, or not readable. */
export async function observeAftermath(run: Run, until: number): Promise<Aftermath | null> {
  const { tool, dossier } = run;
  const { entity } = tool;
  const observation = entity?.observation;
  if (!entity || !observation || !dossier.baseline.entity) return null;
  const scope = runScope(run);
  try {
    const args = evaluateAll(observation.args, scope);
    const { outcome } = await readUpstream(run.parts, observation.tool, readScope(scope, observation.tool, args), until, 'read_back');
    if (outcome.kind !== 'read') return null;
    const version = observation.version?.evaluate({ ...scope, args, status: outcome.status, headers: outcome.headers, result: outcome.result }) ?? null;
    const kept = entity.kept ? { state: declaredState(run) ?? null } : {};
    const after = { ...scope, [entity.name]: { ...asObject(outcome.result), ...(version === null ? {} : { version }), ...kept } };
    const state = entity.kept ? (declaredState(run) ?? null) : (entity.state?.evaluate(after) ?? null);
    return {
      states: state === null ? {} : { [dossier.baseline.entity]: state },
      version,
      divergence: divergence(run, state, after),
    };
  } catch (error) {
    if (error instanceof EvaluationError) return null;
    throw error;
  }
}

function declaredState({ tool, dossier: { baseline } }: Run): string | undefined {
  return baseline.state === null ? undefined : tool.entity?.transitions[baseline.state]?.[tool.name];
}

function divergence(run: Run, state: string | null, after: Parameters<Run['tool']['render']>[0]): JsonObject | null {
  const { tool, dossier: { baseline } } = run;
  const declared = declaredState(run);
  if (declared !== undefined && state !== declared && !(state !== null && tool.entity?.external.includes(state))) {
    return { declared_state: declared, observed_state: state };
  }
  const stateSource = tool.entity?.kept ? `${tool.entity.name}.state` : tool.entity?.state?.source;
  for (const expression of tool.never) {
    if (declared !== undefined && expression.source === stateSource) continue; // judged above, external states included
    const before = baseline.never[expression.source];
    const now = expression.evaluate(after);
    if (before !== undefined && canonicalText(before) !== canonicalText(now)) return { changed: expression.source, before, after: now };
  }
  return null;
}
