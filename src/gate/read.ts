/** One read of an upstream: an observation, a read-back, or a read tool's own work. It changes nothing, so it may be tried again, within the same budgets as a write. */
import { randomUUID } from 'node:crypto';
import { type ErrorRule, EvaluationError, type Scope, type ToolPlan } from '../contract/plan.js';
import type { Json, JsonObject } from '../model.js';
import type { Exchange } from '../upstream/exchange.js';
import type { Parts } from './parts.js';
import { askedPause, defaultPauseMs } from './pause.js';
import { holding } from './place.js';
import type { AttemptRecord, Closed } from './ports.js';

export type ReadOutcome =
  | { kind: 'read'; result: Json; status: number; headers: Record<string, string> }
  | { kind: 'not_found' }
  | { kind: 'refused'; rule: ErrorRule | null; status: number; body: Json }
  /** A pause that the service asked for, by this answer or before; or nothing was sent. */
  | { kind: 'closed'; because: Closed }
  /** `rule`: the contract says that it may pass. */
  | { kind: 'failed'; rule?: ErrorRule };

/** `startedAt`: when its last attempt was handed over. */
export interface Read { outcome: ReadOutcome; attempts: AttemptRecord[]; startedAt: number }

const firstDelayMs = 50;

/**
 * @param until on the clock of `performance.now()`: no further attempt begins after it.
 * @param traffic `read_back`: it settles an open operation, and is let through where others wait for the service to come back.
 */
export async function readUpstream(parts: Parts, tool: ToolPlan, scope: Scope, until: number, traffic: 'read' | 'read_back' = 'read'): Promise<Read> {
  const request = tool.render(scope);
  const attempts: AttemptRecord[] = [];
  const lastBegin = Math.min(until, performance.now() + tool.retry.elapsedMs);
  let startedAt = performance.now();
  for (let n = 1; ; n++) {
    const place = await parts.upstreamGate.enter(tool.upstream, { traffic, as: n > 1 ? 'retry' : traffic === 'read' ? 'first' : 'neither', until });
    if ('closed' in place) {
      const failedBefore = n > 1 && place.closed !== 'paused';
      return { outcome: failedBefore ? { kind: 'failed' } : { kind: 'closed', because: place }, attempts, startedAt };
    }
    startedAt = performance.now();
    const exchange = await holding(place, parts.upstream.send(request, { upstream: tool.upstream, attempt: randomUUID(), deadlineMs: tool.upstream.deadlineMs }));
    const outcome = judgeRead(parts, tool, scope, exchange);
    parts.metrics.exchange(tool.service, outcome.kind === 'closed' ? 'rate_limited' : outcome.kind);
    attempts.push(attemptOf(n, exchange, outcome));
    if (outcome.kind !== 'failed') return { outcome, attempts, startedAt };
    const pauseMs = askedPause(parts, tool.service, exchange);
    const delayMs = pauseMs + Math.random() * firstDelayMs * 2 ** n;
    if (n >= tool.retry.attempts || performance.now() + delayMs > lastBegin) {
      return { outcome: pauseMs > 0 ? { kind: 'closed', because: { closed: 'paused', forMs: pauseMs } } : outcome, attempts, startedAt };
    }
    await new Promise((resolve) => setTimeout(resolve, delayMs));
  }
}

function judgeRead(parts: Parts, tool: ToolPlan, scope: Scope, exchange: Exchange): ReadOutcome {
  if (exchange.kind === 'failure') return { kind: 'failed' };
  const { status, headers } = exchange;
  const body = 'json' in exchange.body ? exchange.body.json : null;
  const seen: Scope = { ...scope, status, headers, body };
  if (tool.notFound && holds(tool.notFound, seen)) return { kind: 'not_found' };
  const rule = tool.errors.find(({ when }) => holds(when, seen));
  if (rule?.class === 'not_found') return { kind: 'not_found' };
  if (status === 429 || rule?.class === 'rate_limited') {
    return { kind: 'closed', because: { closed: 'paused', forMs: askedPause(parts, tool.service, exchange, defaultPauseMs) } };
  }
  if (rule?.outcome === 'rejected') return { kind: 'refused', rule, status, body };
  if (rule?.outcome === 'not_committed' || rule?.outcome === 'unknown') return { kind: 'failed', rule };
  if (status >= 200 && status < 300) {
    const admitted = 'json' in exchange.body ? tool.admitResult(exchange.body.json) : null;
    return admitted ? { kind: 'read', result: admitted.result, status, headers } : { kind: 'failed' };
  }
  const lasting = status >= 400 && status < 500 && status !== 408 && status !== 425;
  return lasting ? { kind: 'refused', rule: null, status, body: null } : { kind: 'failed' };
}

/** For a read, a rule that cannot be evaluated does not match: the worst that follows is a failed read. */
function holds(expression: { evaluate(scope: Scope): boolean }, scope: Scope): boolean {
  try {
    return expression.evaluate(scope);
  } catch (error) {
    if (error instanceof EvaluationError) return false;
    throw error;
  }
}

export function attemptOf(number: number, exchange: Exchange, outcome: ReadOutcome): AttemptRecord {
  return {
    number, sent: exchange.sent, status: exchange.kind === 'response' ? exchange.status : null,
    reason: exchange.kind === 'failure' ? exchange.reason : 'unreadable' in exchange.body ? exchange.body.unreadable : null,
    outcome: outcome.kind === 'read' ? 'committed' : outcome.kind === 'failed' ? 'unknown' : 'rejected', ms: Math.round(exchange.ms * 10) / 10,
  };
}

export function asObject(value: Json): JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : { value };
}
