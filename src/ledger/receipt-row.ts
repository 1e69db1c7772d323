/** A receipt as it is stored: its canonical text and the digest of that, so that a later chain covers the exact bytes. */
import { canonicalTextOfBoth, sha256 } from '../canonical.js';
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
  const body = storableText({
    salt: randomPiece(saltBytes).toString('base64url'),
    id: receipt.id, kind: receipt.kind, tenant: receipt.tenant, operation_id: receipt.operationId, session_id: receipt.sessionId,
    intent_id: receipt.intentId, principal: receipt.principal, tool: receipt.tool, disposition: receipt.disposition,
    outcome: receipt.outcome, recorded_at: recordedAt,
  }, receipt.body);
  return {
    tenant: receipt.tenant, id: receipt.id, kind: receipt.kind, operation_id: receipt.operationId, session_id: receipt.sessionId,
    intent_id: receipt.intentId, principal: receipt.principal, tool: receipt.tool, disposition: receipt.disposition, outcome: receipt.outcome,
    recorded_at: recordedAt, digest: hex(sha256(body)), body,
  };
}

/**
 * Text that an upstream sent and Postgres or canonical JSON cannot hold (lone surrogates; NUL is escaped by JSON and harmless)
 * becomes U+FFFD: a problem of storing a result must never change the outcome of a call. The head stands for itself, whatever the body says.
 */
function storableText(head: JsonObject, body: JsonObject): string {
  try {
    return canonicalTextOfBoth(head, body);
  } catch {
    return canonicalTextOfBoth(wellFormed(head) as JsonObject, wellFormed(body) as JsonObject);
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
