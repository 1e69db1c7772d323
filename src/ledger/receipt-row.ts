/**
 * A receipt as it is stored: the digest of its canonical text, so that a later chain covers the exact bytes, and that text, or what is left of it
 * once a dictionary and the columns say the rest.
 */
import { canonicalTexts, sha256 } from '../canonical.js';
import type { Receipt } from '../gate/ports.js';
import type { Json, JsonObject } from '../model.js';
import { randomPiece } from '../random.js';
import { timeOfId } from '../receipt-id.js';
import type { Indexed } from './deflate.js';
import { hex } from './operation-row.js';
import { apartOf, type Head, pack, saltBytes } from './packed.js';

/** A dictionary that the ledger has, its digest as `digest` of a row is. */
export interface KeptDictionary { readonly digest: string; readonly index: Indexed }

/** Either `body` or `packed` and `dictionary` are set. */
export interface ReceiptRow extends Head { digest: string; body: string | null; packed: string | null; dictionary: string | null }

export function receiptRow(receipt: Receipt, over: KeptDictionary | null = null): ReceiptRow {
  const head: Head = {
    id: receipt.id, kind: receipt.kind, tenant: receipt.tenant, operation_id: receipt.operationId, session_id: receipt.sessionId, intent_id: receipt.intentId,
    principal: receipt.principal, tool: receipt.tool, disposition: receipt.disposition, outcome: receipt.outcome, recorded_at: timeOfId(receipt.id).toISOString(),
  };
  // Goes with the content when that is erased: what is left, its digest, cannot be tried against guesses.
  const salt = randomPiece(saltBytes);
  const parted = apartOf(receipt.body);
  const { text, rest } = storable({ ...head, salt: salt.toString('base64url') }, receipt.body, parted.names);
  const packed = over && pack({ head, salt, parted, rest }, over.index);
  const smaller = packed && packed.length < text.length;
  return {
    tenant: head.tenant, id: head.id, kind: head.kind, operation_id: head.operation_id, session_id: head.session_id, intent_id: head.intent_id, principal: head.principal,
    tool: head.tool, disposition: head.disposition, outcome: head.outcome, recorded_at: head.recorded_at, digest: hex(sha256(text)),
    body: smaller ? null : text, packed: smaller ? hex(packed) : null, dictionary: smaller ? over.digest : null,
  };
}

/**
 * Text that an upstream sent and Postgres or canonical JSON cannot hold (lone surrogates; NUL is escaped by JSON and harmless)
 * becomes U+FFFD: a problem of storing a result must never change the outcome of a call. The head stands for itself, whatever the body says.
 */
function storable(head: JsonObject, body: JsonObject, apart: ReadonlySet<string>): { text: string; rest: string } {
  try {
    return canonicalTexts(head, body, apart);
  } catch {
    return canonicalTexts(wellFormed(head) as JsonObject, wellFormed(body) as JsonObject, apart);
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
