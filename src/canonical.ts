/** Canonical JSON (RFC 8785) and the digests over it: equal values, equal bytes, on every machine. A leaf. */
import canonicalize from 'canonicalize';
import { createHash } from 'node:crypto';
import type { Json } from './model.js';

/** @throws TypeError for what RFC 8785 excludes: a number that is not finite, a lone surrogate, a value that is not JSON. */
export function canonicalText(value: Json): string {
  let text: string | undefined;
  let cause: unknown;
  try {
    text = canonicalize(value);
  } catch (thrown) {
    cause = thrown;
  }
  if (text !== undefined) return text;
  const why = cause instanceof Error ? cause.message : `a value of type ${typeof value} is not JSON`;
  throw new TypeError(`No canonical form (RFC 8785): ${why}. Refuse such values where they enter.`, { cause });
}

/** 32 bytes; text is hashed as UTF-8. */
export const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest();

/** `sha256:` and 64 hexadecimal digits, over the canonical form. @throws TypeError as `canonicalText` does. */
export const digestOf = (value: Json): string => `sha256:${sha256(canonicalText(value)).toString('hex')}`;
