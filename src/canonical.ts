/** Canonical JSON (RFC 8785) and the digests over it: equal values, equal bytes, on every machine. A leaf. */
import * as crypto from 'node:crypto';
import type { Json, JsonObject } from './model.js';

/** @throws TypeError for what RFC 8785 excludes: a number that is not finite, a lone surrogate, a value that is not JSON. */
export function canonicalText(value: Json): string {
  switch (typeof value) {
    case 'string': return quoted(value);
    case 'boolean': return value ? 'true' : 'false';
    case 'number':
      if (Number.isFinite(value)) return `${value}`;
      break;
    case 'object':
      if (value === null) return 'null';
      return Array.isArray(value) ? items(value) : members(value);
  }
  throw noForm(typeof value === 'number' ? `${value} is not a finite number` : `a value of type ${typeof value} is not JSON`);
}

/**
 * Of one object with the members of both; a name that both have is the head's. The object itself is not made: as one of so many names it would
 * cost more than its text.
 */
export function canonicalTextOfBoth(head: JsonObject, body: JsonObject): string {
  return canonicalTexts(head, body).text;
}

/** The same, and of the body alone without what the head has and without the names `apart`: one pass for both. */
export function canonicalTexts(head: JsonObject, body: JsonObject, apart?: ReadonlySet<string>): { text: string; rest: string } {
  const names = Object.keys(head);
  for (const name of Object.keys(body)) if (!Object.hasOwn(head, name)) names.push(name);
  let text = '';
  let rest = '';
  for (const name of sorted(names)) {
    const ofHead = Object.hasOwn(head, name);
    const member = `${quoted(name)}:${canonicalText((ofHead ? head[name] : body[name]) as Json)}`;
    text += text === '' ? member : `,${member}`;
    if (!ofHead && !apart?.has(name)) rest += rest === '' ? member : `,${member}`;
  }
  return { text: `{${text}}`, rest: `{${rest}}` };
}

function items(value: readonly Json[]): string {
  let text = '';
  for (let n = 0; n < value.length; n++) text += n === 0 ? canonicalText(value[n] as Json) : `,${canonicalText(value[n] as Json)}`;
  return `[${text}]`;
}

function members(value: JsonObject): string {
  let text = '';
  for (const name of sorted(Object.keys(value))) text += `${text === '' ? '' : ','}${quoted(name)}:${canonicalText(value[name] as Json)}`;
  return `{${text}}`;
}

const few = 32;

/**
 * In place, in the order of UTF-16 code units, as the RFC has it: that of `<`, and of Array.prototype.sort without a comparator, which for a few
 * names costs more in copies than in comparing.
 */
function sorted(names: string[]): string[] {
  if (names.length > few) return names.sort();
  for (let n = 1; n < names.length; n++) {
    const name = names[n] as string;
    let at = n;
    for (; at > 0 && (names[at - 1] as string) > name; at--) names[at] = names[at - 1] as string;
    names[at] = name;
  }
  return names;
}

/** Printable ASCII without a quotation mark or a backslash: nothing in it is escaped. */
const asItIs = /^[ !#-[\]-~]*$/;

function quoted(text: string): string {
  if (asItIs.test(text)) return `"${text}"`;
  if (!text.isWellFormed()) throw noForm('a text holds half of a surrogate pair');
  return JSON.stringify(text);
}

function noForm(why: string): TypeError {
  return new TypeError(`No canonical form (RFC 8785): ${why}. Refuse such values where they enter.`);
}

/** 32 bytes; text is hashed as UTF-8. */
export const sha256: (data: string | Buffer) => Buffer = typeof crypto.hash === 'function'
  ? (data) => crypto.hash('sha256', data, 'buffer')
  : (data) => crypto.createHash('sha256').update(data).digest();

/** `sha256:` and 64 hexadecimal digits, over the canonical form. @throws TypeError as `canonicalText` does. */
export const digestOf = (value: Json): string => digestOfText(canonicalText(value));

/** The same of a text that is in canonical form already. */
export const digestOfText = (text: string): string => `sha256:${sha256(text).toString('hex')}`;
