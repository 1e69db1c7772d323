/** Columns of receipts, links and checkpoints as the chain has them: hashes with their prefix, times to the millisecond. */
import type { Unlinked } from '../chain/link.js';
import type { SignedCheckpoint } from '../chain/sealer.js';
import { hex } from './operation-row.js';
import { instant } from './pages.js';

/** Of a receipt `r`: everything that stays when its content is erased. */
export const headerColumns = `r.tenant, r.id, r.kind, r.operation_id, r.session_id, r.intent_id, r.principal, r.tool, r.disposition, r.outcome,
  ${instant('r.recorded_at')} as recorded_at, r.digest`;

export type HeaderRow = Omit<Unlinked, 'digest'> & { digest: Buffer };

export function toUnlinked(row: HeaderRow): Unlinked {
  return {
    digest: digest(row.digest), disposition: row.disposition, id: row.id, intent_id: row.intent_id, kind: row.kind, operation_id: row.operation_id, outcome: row.outcome,
    principal: row.principal, recorded_at: toMilliseconds(row.recorded_at), session_id: row.session_id, tenant: row.tenant, tool: row.tool,
  };
}

/** Of a checkpoint `k`. */
export const checkpointColumns = `k.sequence::text as signed_sequence, k.link as signed_link, k.key_id, ${instant('k.signed_at')} as signed_at, k.signature`;

export type CheckpointRow = { signed_sequence: string; signed_link: Buffer; key_id: string; signed_at: string; signature: Buffer };

export function toCheckpoint(tenant: string, row: CheckpointRow): SignedCheckpoint {
  return {
    key: row.key_id, link: digest(row.signed_link), sequence: Number(row.signed_sequence), signed_at: toMilliseconds(row.signed_at), tenant,
    signature: row.signature.toString('base64'),
  };
}

export function digest(bytes: Buffer): string {
  return `sha256:${bytes.toString('hex')}`;
}

/** As json_to_recordset takes a bytea. */
export function hexOfDigest(text: string): string {
  return hex(Buffer.from(text.slice('sha256:'.length), 'hex'));
}

/** A time that was edited by less than a millisecond keeps its microseconds, and so has another hash. */
export function toMilliseconds(text: string): string {
  return text.replace(/(\.\d{3})000Z$/, '$1Z');
}
