/** Reading a document that may be anything: members, local references, texts that may stand in a contract. */
import type { Json, JsonObject } from '../../../model.js';
import { canonicalText } from '../../../canonical.js';
import { isGap } from '../../gaps.js';
import { isSchemaObject, resolve } from '../../schema-subset.js';
import { mentionsEnvironment } from '../../upstream.js';

export type Anything = Json | undefined;

export function objectOf(value: Anything): JsonObject {
  return isSchemaObject(value) ? value : {};
}

export function listOf(value: Anything): Json[] {
  return Array.isArray(value) ? value : [];
}

export function own(object: Anything, name: string): Anything {
  return isSchemaObject(object) && Object.hasOwn(object, name) ? object[name] : undefined;
}

export function textOf(value: Anything): string {
  return typeof value === 'string' ? value : '';
}

const maxReferences = 50;

export type Resolved = { value: Json } | { problem: string };

/** What a chain of `$ref` ends at; the value itself where there is none. Nothing outside of the document is read. */
export function dereference(root: JsonObject, value: Json): Resolved {
  let current = value;
  for (let hops = 0; hops < maxReferences; hops++) {
    const ref = own(current, '$ref');
    if (ref === undefined) return { value: current };
    if (typeof ref !== 'string') return { problem: 'a reference is no text' };
    const found = target(root, ref);
    if ('problem' in found) return found;
    current = found.value;
  }
  return { problem: 'its references lead in a circle' };
}

export function target(root: JsonObject, ref: string): Resolved {
  const shown = clean(ref).slice(0, 100);
  if (!ref.startsWith('#')) return { problem: `\`${shown}\` is outside of the document; bundle it into one` };
  try {
    const value = resolve(root, ref);
    return value === undefined ? { problem: `\`${shown}\` leads nowhere` } : { value };
  } catch {
    return { problem: `\`${shown}\` is not a reference` };
  }
}

export function dereferenced(root: JsonObject, value: Anything): JsonObject {
  const found = value === undefined ? { problem: '' } : dereference(root, value);
  return 'value' in found ? objectOf(found.value) : {};
}

/** One line for people and models: no tags and links, no control characters, and nothing that a contract would read the environment for. */
export function clean(text: string): string {
  return text
    .slice(0, 20_000)
    .replace(/<[^<>]{0,200}>/g, ' ')
    .replace(/\[([^[\]]{1,200})\]\([^()\s]{0,300}\)/g, '$1')
    .replace(/[\p{Cc}\p{Surrogate}\u2028\u2029\ufeff]+/gu, ' ')
    .replace(/\s+/g, ' ')
    .replaceAll('${', '$ {')
    .trim()
    .replace(/^GAP\b/, 'Gap');
}

/** Cut at the end of a sentence where there is one. */
export function shortened(text: string, most: number): string {
  const whole = clean(text);
  if (whole.length <= most) return whole;
  const cut = whole.slice(0, most - 1).toWellFormed();
  const sentence = cut.lastIndexOf('. ');
  return sentence > most / 2 ? cut.slice(0, sentence + 1) : `${cut.trimEnd()}…`;
}

/** Whether a value may stand in a contract as it is: exact numbers, well-formed texts, no environment, bounded. */
export function isPlainValue(value: Json, budget = { left: 2000 }, depth = 0): boolean {
  if (--budget.left < 0 || depth > 16) return false;
  if (typeof value === 'number') return Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
  if (typeof value === 'string') return isPlainText(value);
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([name, member]) => isPlainText(name) && name !== '__proto__' && isPlainValue(member, budget, depth + 1));
}

export function isPlainText(text: string): boolean {
  return text.length <= 5000 && !/[\p{Cc}\p{Surrogate}\u2028\u2029\ufeff]/u.test(text) && !mentionsEnvironment(text) && !isGap(text);
}

/** In the order of the text, each once. */
export function distinct(values: readonly Json[]): Json[] {
  return [...new Map(values.map((value) => [canonicalText(value), value])).values()];
}
