/**
 * The same read, again (semantics.md section 5): two are made; from the third on the last answer is told, as long as nothing was written in
 * the session since. Equal is not the call id, which is new each time, but caller, session, tool under one contract, and arguments.
 *
 * The answer before is no answer while a write of the session may still take effect, nor to a caller whom a refusal over the state of the
 * world has sent to look again: it would be refused for ever on what it is told. Refusals have a budget, so no loop is let through.
 */
import { canonicalText, sha256 } from '../canonical.js';
import type { FreshCall, PermittedCall } from './calls.js';
import type { Parts } from './parts.js';
import type { Found, Operation, Repetition } from './ports.js';

const readsMade = 2;

export function readKey({ principal, envelope, tool, identity }: PermittedCall): Buffer {
  return sha256(canonicalText(['read', principal.tenant, principal.id, envelope.subject, envelope.sessionId, tool.digest, identity.fingerprint.toString('hex')]));
}

export function repetition(call: FreshCall): Repetition {
  return { tenant: call.principal.tenant, key: readKey(call), since: call.unchangedSince };
}

/** The read whose answer is to be told; null: make it. */
export async function repeatedRead(parts: Parts, tenant: string, { reading }: Found): Promise<Operation | null> {
  if (!reading || reading.times < readsMade || reading.last === null) return null;
  const last = await parts.ledger.get(tenant, reading.last);
  return last?.answer ? last : null; // one whose answer is not kept any more is made again
}
