import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';

/** The RFC 8785 text of a JSON value. @throws Error for what JSON cannot hold (NaN, lone surrogates, undefined). */
export function canonicalText(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError('only a JSON value has a canonical form');
  return text;
}

/** `sha256:` and 64 hexadecimal digits over the canonical form. */
export function digestOf(value: unknown): string {
  return digestOfText(canonicalText(value));
}

/** @param text in canonical form */
export function digestOfText(text: string): string {
  return `sha256:${createHash('sha256').update(text, 'utf8').digest('hex')}`;
}
