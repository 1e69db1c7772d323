/**
 * What one exchange proves about a write (semantics.md section 4): the table, and nothing else. Pure.
 *
 * | observation                                         | verdict                                        |
 * | no request byte left                                | not_committed, not sent                        |
 * | 2xx that matches the result schema                  | committed                                      |
 * | 2xx unreadable, truncated or off-schema             | committed is claimed: read back                |
 * | 2xx about items whose outcomes are not all told     | unknown                                        |
 * | 202, or accepted as the contract says               | accepted                                       |
 * | an error that the contract maps, `not_found` too    | as mapped; without effect                      |
 * | 429                                                 | not_committed, rate limited                    |
 * | 408, 425, 3xx, unmapped 5xx, reset, deadline        | unknown                                        |
 * | other unmapped 4xx                                  | rejected                                       |
 *
 * While an earlier attempt is unknown, only positive evidence counts; that rule comes before the contract's mapping.
 */
import { type ErrorRule, EvaluationError, type Expression, type Scope, type ToolPlan } from '../contract/plan.js';
import type { Json } from '../model.js';
import type { Exchange } from '../upstream/exchange.js';
import { itemOutcomes, settlesItems } from './item-outcomes.js';

export type Verdict =
  | { outcome: 'committed'; result: Json }
  /** The effect is claimed, but there is no answer to give yet. */
  | { outcome: 'claimed' }
  | { outcome: 'accepted' }
  /** `notFound`: as the contract says, so that it shares the one answer with what is out of sight. */
  | { outcome: 'rejected'; rule: ErrorRule | null; status: number; notFound: boolean; /** Of a mapped error. */ body?: Json }
  | { outcome: 'not_committed'; sent: boolean; rateLimited: boolean; rule: ErrorRule | null; body?: Json }
  /** `result`: an answer by which some items are done, and of others it is not known. */
  | { outcome: 'unknown'; why: string; result?: Json };

export interface AttemptContext {
  /** Attempts of the same operation before this one whose outcome is not known. */
  unknownBefore: number;
  scope: Scope;
}

export function classify(tool: ToolPlan, exchange: Exchange, context: AttemptContext): Verdict {
  const verdict = classifyAlone(tool, exchange, context.scope);
  const positive = verdict.outcome === 'committed' || verdict.outcome === 'claimed' || verdict.outcome === 'accepted';
  if (context.unknownBefore > 0 && !positive) return { outcome: 'unknown', why: `${verdict.outcome} after an unknown attempt` };
  return verdict;
}

function classifyAlone(tool: ToolPlan, exchange: Exchange, callScope: Scope): Verdict {
  if (exchange.kind === 'failure') {
    if (exchange.sent) return { outcome: 'unknown', why: exchange.reason };
    return { outcome: 'not_committed', sent: false, rateLimited: false, rule: null };
  }
  const { status, headers } = exchange;
  const body = 'json' in exchange.body ? exchange.body.json : null;
  const scope: Scope = { ...callScope, status, headers, body };
  const mapped = mappedBy(tool, scope);
  if (mapped === 'unclear') return { outcome: 'unknown', why: 'a rule of the contract could not be evaluated' };
  if (mapped) return asMapped(mapped, status, body);
  if (holds(tool.notFound, scope)) return { outcome: 'rejected', rule: null, status, notFound: true };
  if (status === 202 || (tool.async && holds(tool.async.accepted, scope))) return { outcome: 'accepted' };
  if (status >= 200 && status < 300) {
    const admitted = 'json' in exchange.body ? tool.admitResult(exchange.body.json) : null;
    if (tool.partial && (!admitted || !settlesItems(tool, callScope, admitted.result))) return itemsInDoubt(tool, callScope, admitted);
    return admitted ? { outcome: 'committed', result: admitted.result } : { outcome: 'claimed' };
  }
  if (status === 429) return { outcome: 'not_committed', sent: true, rateLimited: true, rule: null };
  if (status >= 400 && status < 500 && status !== 408 && status !== 425) return { outcome: 'rejected', rule: null, status, notFound: false };
  return { outcome: 'unknown', why: `status ${status}` };
}

function itemsInDoubt(tool: ToolPlan, scope: Scope, admitted: { result: Json } | null): Verdict {
  const found = admitted && itemOutcomes(tool, scope, admitted.result);
  if (!admitted || found === 'unreadable') return { outcome: 'unknown', why: 'what became of the items cannot be read' };
  return { outcome: 'unknown', why: 'what became of some items is not known yet', result: admitted.result };
}

/** The first rule that matches. A rule that cannot be evaluated proves nothing, and neither do those after it. */
function mappedBy(tool: ToolPlan, scope: Scope): ErrorRule | 'unclear' | undefined {
  try {
    return tool.errors.find(({ when }) => when.evaluate(scope));
  } catch (error) {
    if (error instanceof EvaluationError) return 'unclear';
    throw error;
  }
}

function holds(expression: Expression<boolean> | null, scope: Scope): boolean {
  try {
    return expression?.evaluate(scope) ?? false;
  } catch (error) {
    if (error instanceof EvaluationError) return false;
    throw error;
  }
}

function asMapped(rule: ErrorRule, status: number, body: Json): Verdict {
  switch (rule.outcome) {
    case 'committed': return { outcome: 'claimed' };
    case 'accepted': return { outcome: 'accepted' };
    case 'unknown': return { outcome: 'unknown', why: `status ${status}, as the contract says` };
    case 'rejected': return { outcome: 'rejected', rule, status, notFound: rule.class === 'not_found', body };
    case 'not_committed': return { outcome: 'not_committed', sent: true, rateLimited: rule.class === 'rate_limited', rule, body };
  }
}
