/** A receipt as it is stored: its canonical text and the digest of that, so that a later chain covers the exact bytes. */
import { canonicalText, sha256 } from '../canonical.js';
import type { Receipt } from '../gate/ports.js';
import type { Json, JsonObject } from '../model.js';
import { randomPiece } from '../random.js';
import { timeOfId } from '../receipt-id.js';
import { hex } from './operation-row.js';

/** Goes with the content when that is erased: what is left, its digest, cannot be tried against guesses. */
const saltBytes = 12;

export interface ReceiptRow {
  tenant: string; id: string; kind: string; operation_id: string | null; session_id: string; intent_id: string; principal: string; tool: string;
  disposition: string; outcome: string | null; recorded_at: string; digest: string; body: string;
}

export function receiptRow(receipt: Receipt): ReceiptRow {
  const recordedAt = timeOfId(receipt.id).toISOString();
  const body = storableText(headed(receipt.body, {
    salt: randomPiece(saltBytes).toString('base64url'),
    id: receipt.id, kind: receipt.kind, tenant: receipt.tenant, operation_id: receipt.operationId, session_id: receipt.sessionId,
    intent_id: receipt.intentId, principal: receipt.principal, tool: receipt.tool, disposition: receipt.disposition,
    outcome: receipt.outcome, recorded_at: recordedAt,
  }));
  return {
    tenant: receipt.tenant, id: receipt.id, kind: receipt.kind, operation_id: receipt.operationId, session_id: receipt.sessionId,
    intent_id: receipt.intentId, principal: receipt.principal, tool: receipt.tool, disposition: receipt.disposition, outcome: receipt.outcome,
    recorded_at: recordedAt, digest: hex(sha256(body)), body,
  };
}

/** The head stands for itself, whatever the body says. A head that is spread last costs V8 a table for each receipt (17 KB a write), so it is only where they collide. */
function headed(body: JsonObject, head: JsonObject): JsonObject {
  return Object.keys(head).some((name) => Object.hasOwn(body, name)) ? { ...body, ...head } : { ...head, ...body };
}

/**
 * Text that an upstream sent and Postgres or canonical JSON cannot hold (lone surrogates; NUL is escaped by JSON and harmless)
 * becomes U+FFFD: a problem of storing a result must never change the outcome of a call.
 */
function storableText(content: JsonObject): string {
  try {
    return canonicalText(content);
  } catch {
    return canonicalText(wellFormed(content));
  }
}

function wellFormed(value: Json): Json {
  if (typeof value === 'string') return value.isWellFormed() ? value : value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), wellFormed(member)]));
  }
  return value;
}
