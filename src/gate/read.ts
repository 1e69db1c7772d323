/** One read of an upstream: an observation, a read-back, or a read tool's own work. It changes nothing, so it may be tried again. */
import { randomUUID } from 'node:crypto';
import { type ErrorRule, EvaluationError, type Scope, type ToolPlan } from '../contract/plan.js';
import type { Json, JsonObject } from '../model.js';
import type { Exchange } from '../upstream/exchange.js';
import type { Parts } from './parts.js';
import type { AttemptRecord } from './ports.js';

export type ReadOutcome =
  | { kind: 'read'; result: Json; status: number; headers: Record<string, string> }
  | { kind: 'not_found' }
  | { kind: 'refused'; rule: ErrorRule | null; status: number; body: Json }
  | { kind: 'rate_limited'; retryAfterMs: number }
  | { kind: 'failed' };

export interface Read { outcome: ReadOutcome; attempts: AttemptRecord[]; startedAt: number }

const firstDelayMs = 50;
const defaultPauseMs = 1000;

/** @param until on the clock of `performance.now()`: no further attempt begins after it. */
export async function readUpstream(parts: Parts, tool: ToolPlan, scope: Scope, until: number): Promise<Read> {
  const request = tool.render(scope);
  const attempts: AttemptRecord[] = [];
  const limit = tool.retry.attempts;
  for (let n = 1; ; n++) {
    const startedAt = performance.now();
    const paused = parts.upstreamGate.pausedForMs(tool.service);
    if (paused > 0) return { outcome: { kind: 'rate_limited', retryAfterMs: paused }, attempts, startedAt };
    const exchange = await parts.upstream.send(request, { upstream: tool.upstream, attempt: randomUUID(), deadlineMs: tool.upstream.deadlineMs });
    const outcome = judgeRead(parts, tool, scope, exchange);
    parts.metrics.exchange(tool.service, outcome.kind);
    attempts.push(attemptOf(n, exchange, outcome));
    const delay = Math.random() * firstDelayMs * 2 ** n;
    if (outcome.kind !== 'failed' || n >= limit || performance.now() + delay > until) return { outcome, attempts, startedAt };
    await new Promise((resolve) => setTimeout(resolve, delay));
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
    const retryAfterMs = parts.retryAfterMs(headers['retry-after']) ?? defaultPauseMs;
    parts.upstreamGate.pause(tool.service, retryAfterMs);
    return { kind: 'rate_limited', retryAfterMs };
  }
  if (rule?.outcome === 'rejected') return { kind: 'refused', rule, status, body };
  if (status >= 200 && status < 300) {
    const admitted = 'json' in exchange.body ? tool.admitResult(exchange.body.json) : null;
    return admitted ? { kind: 'read', result: admitted.result, status, headers } : { kind: 'failed' };
  }
  const lasting = status >= 400 && status < 500 && ![408, 409, 425].includes(status);
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
