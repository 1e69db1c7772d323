/**
 * The compact form of a receipt's content. What its columns say is not in it; the rest is deflated over a dictionary that is made of the contract
 * (src/gate/receipt-dictionary.ts), so that hardly more than what only this receipt says is left.
 *
 * | bytes | |
 * |---|---|
 * | 1 | form: 1 |
 * | 1 | which of the following are there: 1 the digest of the proposal, 2 the receipt of the decision |
 * | 12 | salt |
 * | 32 | `proposal_digest` |
 * | 16 | `decision` |
 * | the rest | raw deflate (RFC 1951) of the canonical JSON of all other members, over the dictionary followed by `contextOf` the columns |
 *
 * A member that is named as one apart and is not of its form (a read has no decision, arguments without sense no digest) is among the others.
 *
 * Whoever has row and dictionary has the content for ever: nothing of this may change but under another number of the form.
 */
import { inflateRawSync } from 'node:zlib';
import { canonicalTextOfBoth } from '../canonical.js';
import type { JsonObject } from '../model.js';
import { bytesOfId, idBytes, idOfBytes } from '../receipt-id.js';
import { deflate, type Indexed } from './deflate.js';

const form = 1;
export const saltBytes = 12;
/** Of members that no dictionary makes shorter, and that are twice as long as what they stand for. */
const apart = [
  { name: 'proposal_digest', bit: 1, bytes: 32, to: digestBytes, from: (bytes: Buffer) => `sha256:${bytes.toString('hex')}` },
  { name: 'decision', bit: 2, bytes: idBytes, to: bytesOfId, from: idOfBytes },
] as const;

/** Damaged, or over another dictionary. */
const longestContent = 64 * 1024 * 1024;

interface Apart { present: number; parts: Buffer[]; names: ReadonlySet<string> }

/** What of a body is kept apart. */
export function apartOf(body: JsonObject): Apart {
  let present = 0;
  const parts: Buffer[] = [];
  const names = new Set<string>();
  for (const { name, bit, to } of apart) {
    const bytes = Object.hasOwn(body, name) ? to(body[name]) : null;
    if (!bytes) continue;
    present |= bit;
    parts.push(bytes);
    names.add(name);
  }
  return { present, parts, names };
}

/** What the columns of a receipt say: its content says the same. */
export interface Head extends JsonObject {
  id: string; kind: string; tenant: string; operation_id: string | null; session_id: string; intent_id: string; principal: string; tool: string; disposition: string;
  outcome: string | null; recorded_at: string;
}

/** @param rest the members that are neither the head's nor apart, in canonical form */
export function pack({ head, salt, parted, rest }: { head: Head; salt: Buffer; parted: Apart; rest: string }, dictionary: Indexed): Buffer {
  return Buffer.concat([Buffer.of(form, parted.present), salt, ...parted.parts, deflate(rest, contextOf(head), dictionary)]);
}

/** @returns the canonical text. @throws Error for bytes that are no such form, or that were made over another dictionary or head */
export function unpack(packed: Buffer, head: Head, dictionary: Buffer): string {
  if (packed[0] !== form) throw new Error('this receipt was written by another version of Callgate');
  const present = packed[1] as number;
  let at = 2;
  const next = (bytes: number): Buffer => {
    at += bytes;
    return packed.subarray(at - bytes, at);
  };
  const own: JsonObject = { ...head, salt: next(saltBytes).toString('base64url') };
  for (const { name, bit, bytes, from } of apart) if (present & bit) own[name] = from(next(bytes));
  const known = Buffer.concat([dictionary, Buffer.from(contextOf(head))]);
  const rest = inflateRawSync(packed.subarray(at), { dictionary: known, maxOutputLength: longestContent }).toString('utf8');
  return canonicalTextOfBoth(own, JSON.parse(rest) as JsonObject);
}

/** What the rest may repeat of the columns: an inflate knows it beforehand, as it knows the dictionary. */
function contextOf({ tenant, intent_id, session_id, principal, tool, operation_id }: Head): string {
  return `"${tenant}","${intent_id}","${session_id}","${tool}","${principal}","${operation_id}"`;
}

function digestBytes(value: unknown): Buffer | null {
  return typeof value === 'string' && /^sha256:[0-9a-f]{64}$/.test(value) ? Buffer.from(value.slice('sha256:'.length), 'hex') : null;
}
