/**
 * What the chain covers of a receipt: a header of all that stays for ever, in which its content stands as a digest. So a payload can be
 * erased and every link still be checked. The link of a receipt is the SHA-256 of its header in canonical form (RFC 8785).
 */
import { digestOf } from '../canonical.js';

/** A type and not an interface, so that it is a JSON object to the compiler too. */
export type Header = {
  /** Of the body, `sha256:` and 64 hexadecimal digits, as all hashes here. */
  digest: string;
  disposition: string;
  id: string;
  intent_id: string;
  kind: string;
  operation_id: string | null;
  outcome: string | null;
  /** The link of the receipt before; `origin` for the first. */
  previous: string;
  principal: string;
  recorded_at: string;
  /** From 1, without gaps, per tenant. */
  sequence: number;
  session_id: string;
  tenant: string;
  tool: string;
};

export type Unlinked = Omit<Header, 'previous' | 'sequence'>;

/** The end of a chain so far. */
export interface Head { sequence: number; link: string }

/** Before the first receipt. */
export const origin: Head = { sequence: 0, link: `sha256:${'0'.repeat(64)}` };

export interface Linked { header: Header; link: string }

export function linkAfter(head: Head, receipt: Unlinked): Linked {
  const header: Header = { previous: head.link, sequence: head.sequence + 1, ...receipt };
  return { header, link: linkOf(header) };
}

export function linkOf(header: Header): string {
  return digestOf(header);
}
