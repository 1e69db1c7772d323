/** What is written down of a decision and of an effect (semantics.md section 8). Redacted here, once, before anything is stored. */
import { sha256 } from '../canonical.js';
import type { ToolPlan } from '../contract/plan.js';
import { fromPointer, valueAt } from '../contract/pointer.js';
import type { Refusal } from '../errors.js';
import type { Disposition, Json, JsonObject, Outcome, Principal } from '../model.js';
import { newReceiptId } from '../receipt-id.js';
import { executionUse } from './budgets.js';
import type { AdmittedCall, AuthorizedCall, ObservedCall, OrderedUndo, ParsedCall, PermittedCall, ShapedCall } from './calls.js';
import type { Denial } from './authorize.js';
import type { ItemOutcomes } from './item-outcomes.js';
import type { Parts } from './parts.js';
import type { AttemptRecord, Operation, Receipt } from './ports.js';
import type { Progress } from './progress.js';
import { dictionaryFor } from './receipt-dictionary.js';

/** A call at whatever step it has come to. */
export type CallSoFar = ParsedCall & Partial<Omit<ShapedCall & PermittedCall & ObservedCall & AuthorizedCall & AdmittedCall, keyof ParsedCall | symbol>>;

/** Why a command was admitted or refused. */
export function decisionReceipt(
  parts: Parts, progress: Progress, tenant: string, call: CallSoFar | null, decided: { disposition: Disposition; operationId: string | null; refusal?: Refusal | Denial; approval?: JsonObject },
): Receipt {
  const { refusal } = decided;
  const denied = refusal && 'denied' in refusal ? refusal.denied : null;
  const body: JsonObject = {
    call_id: progress.callId,
    contract: progress.tool ? { version: progress.tool.version, digest: progress.tool.digest } : null,
    actor: call ? { principal: call.principal.id, roles: [...call.principal.roles], subject: call.envelope.subject } : { principal: progress.principal },
    purpose: call?.envelope.purpose ?? '',
    proposal_digest: call?.identity ? `sha256:${call.identity.fingerprint.toString('hex')}` : null,
    arguments: call ? (call.args ?? call.given) : null,
    repaired: progress.repaired,
    policy: {
      version: (call?.served ?? parts.served()).policy.version,
      determining: [...new Set([...(call?.toolPolicies ?? []), ...(call?.resourcePolicies ?? []), ...(denied?.determining ?? [])])],
      errors: denied?.errors ?? [],
      denied: denied ? { question: denied.question, by: denied.determining } : null,
    },
    observations: (call?.observations ?? []).map(({ name, tool, version, at, ms }) => ({
      name, source: tool, version, age_ms: Math.round(performance.now() - at), ms,
    })),
    transition: call?.identity?.entity ? { entity: call.identity.entity.key, state: call.entityState ?? null, action: call.tool.name, next: call.nextState ?? null } : null,
    generation: call?.generation ?? null,
    session_untrusted: call?.untrusted ?? null,
    approval: decided.approval ?? null,
    budget: budgetOf(parts, call, refusal),
    refusal: refusal ? { stage: progress.trace.findLast(({ verdict }) => verdict === 'refuse')?.stage ?? null, code: refusal.code ?? refusal.refused, problem: refusal.refused, detail: refusal.detail, errors: (refusal.errors ?? []) as unknown as Json } : null,
    ...(call?.identity?.undoes ? { compensates: call.identity.undoes } : {}),
    ...(call?.envelope?.undoes ? { ordered: orderOf(call.envelope.undoes) } : {}),
  };
  return {
    id: newReceiptId(), kind: 'decision', tenant, operationId: decided.operationId, sessionId: progress.sessionId, intentId: progress.intentId,
    principal: progress.principal, tool: progress.toolName ?? '', disposition: decided.disposition, outcome: null,
    body: redacted(parts, body, progress.tool?.redact ?? [], call?.args ?? call?.given ?? {}),
    dictionary: progress.tool ? dictionaryFor(progress.tool, (call?.served ?? parts.served()).policy) : null,
  };
}

function orderOf({ review, because, effectReceipt }: OrderedUndo): JsonObject {
  return { review, because, effect: effectReceipt };
}

/** Which budget refused it, exactly as it stood; or for a write what it draws on, as that stood when the call was looked up. */
function budgetOf(parts: Parts, call: CallSoFar | null, refusal: Refusal | undefined): Json {
  if (refusal?.budget) return { ...refusal.budget };
  return call && call.tool.effect !== 'none' ? { ...executionUse(call.session ?? null, parts.settings) } : null;
}

export interface Evidence {
  disposition: Disposition;
  outcome: Outcome;
  verified: boolean;
  attempts: AttemptRecord[];
  result: Json;
  /** What a read-back or an observation after the effect showed. */
  readback?: JsonObject;
  /** What the service told by itself. */
  callback?: JsonObject;
  states?: JsonObject;
  reason?: string | null;
  corrects?: string | null;
  /** The review in which a person decided it. */
  decidedIn?: string;
  /** What of the upstream's error the contract lets be told. */
  upstream?: JsonObject;
  partial?: ItemOutcomes;
}

/** What was observed of an effect, or of its absence. */
export function effectReceipt(parts: Parts, operation: Operation, call: { tool: ToolPlan | null; args: JsonObject }, evidence: Evidence): Receipt {
  const body: JsonObject = {
    call_id: operation.callId,
    contract: { version: operation.contractVersion, digest: operation.contractDigest },
    decision: operation.decisionReceipt,
    effect: operation.effect,
    idempotency_key: operation.upstreamKey,
    generation: operation.generation,
    attempts: evidence.attempts as unknown as Json,
    verified: evidence.verified,
    result: bounded(parts, evidence.result),
    readback: bounded(parts, evidence.readback ?? null),
    states: evidence.states ?? {},
    reason: evidence.reason ?? null,
    corrects: evidence.corrects ?? null,
    ...(operation.compensates ? { compensates: operation.compensates } : {}),
    ...(evidence.callback ? { callback: bounded(parts, evidence.callback) } : {}),
    ...(evidence.decidedIn === undefined ? {} : { review: evidence.decidedIn }),
    ...(evidence.upstream ? { upstream: evidence.upstream } : {}),
    ...(evidence.partial ? { partial: { ...evidence.partial.counts, items: bounded(parts, evidence.partial.items as unknown as Json) } } : {}),
  };
  return {
    id: newReceiptId(), kind: 'effect', tenant: operation.tenant, operationId: operation.id, sessionId: operation.sessionId, intentId: operation.intentId,
    principal: operation.principal, tool: operation.tool, disposition: evidence.disposition, outcome: evidence.outcome,
    body: redacted(parts, body, call.tool?.redact ?? [], call.args),
    dictionary: call.tool ? dictionaryFor(call.tool, parts.served().policy) : null,
  };
}

/** What a person decided about an operation. `about` has what was decided on, and why. */
export function personReceipt(
  parts: Parts, operation: Operation, person: Principal, call: { tool: ToolPlan | null; args: JsonObject },
  decided: { disposition: Disposition; outcome: Outcome | null; about: JsonObject },
): Receipt {
  const body: JsonObject = {
    call_id: operation.callId,
    contract: { version: operation.contractVersion, digest: operation.contractDigest },
    actor: { principal: person.id, roles: [...person.roles] },
    proposer: { principal: operation.principal, subject: operation.subject },
    generation: operation.generation,
    ...decided.about,
  };
  return {
    id: newReceiptId(), kind: 'decision', tenant: operation.tenant, operationId: operation.id, sessionId: operation.sessionId, intentId: operation.intentId,
    principal: operation.principal, tool: operation.tool, disposition: decided.disposition, outcome: decided.outcome,
    body: redacted(parts, body, call.tool?.redact ?? [], call.args),
  };
}

/** A text that a person will read, without what the contract keeps secret. */
export function redactedText(parts: Parts, text: string, annotated: readonly string[], args: JsonObject): string {
  return String(redacted(parts, { text }, annotated, args)['text']);
}

/** An annotated argument is secret wherever it turns up again: as the entity of a state, in a read-back under another name. */
export function redacted(parts: Parts, body: JsonObject, annotated: readonly string[], args: JsonObject): JsonObject {
  const values = annotated.length === 0 ? [] : annotated.flatMap((pointer) => textsIn(valueAt({ args }, fromPointer(pointer))));
  return parts.redact(body, annotated, values) as JsonObject;
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** What is too large to be kept in a receipt is told by its size and digest; the answer has it whole. */
function bounded(parts: Parts, value: Json): Json {
  if (value === null || typeof value !== 'object') return value;
  const text = JSON.stringify(value);
  if (text.length <= parts.settings.resultBytes) return value;
  return { omitted: true, bytes: Buffer.byteLength(text), digest: `sha256:${sha256(text).toString('hex')}` };
}
