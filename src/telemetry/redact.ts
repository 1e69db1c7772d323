/**
 * Redaction, once, where something is recorded: receipts, lists, streams, exports, logs. What is a secret is told by the
 * name of a member at any depth, by the contract's annotations, and by the look of a text.
 */
import type { Json } from '../model.js';
import { fingerprintSecret, isMark, plainMark } from './fingerprint.js';
import { isSecretName } from './secret-names.js';
import { replaceSecretShapes } from './secret-shapes.js';

export interface RedactOptions {
  /** Marks become `«redacted:3f9a01c2»`, equal for equal secrets; without a key every mark is `«redacted»`. */
  key?: Buffer | string;
  /**
   * The contract's `redact`: pointers such as `/args/card`. The last name of each is secret at every depth, because the
   * value that stands in the arguments stands again in requests, observations and read-backs.
   */
  annotated?: Iterable<string>;
  /** Values that are secret wherever they stand, also within a text or as part of a name: what the annotations point at in this call. */
  values?: Iterable<string>;
}

/** Far beyond what a call may hold (32); deeper text comes from an upstream and is not worth a stack. */
const maxDepth = 100;

interface Rules { mark(secret: string): string; isSecret(name: string): boolean; clean(text: string): string }

/** A shorter value would be found in what has nothing to do with it. */
const minValueLength = 4;

/** A copy without secrets; everything else is as it was. Redacting twice is redacting once. */
export function redact(value: Json, { key, annotated = [], values = [] }: RedactOptions = {}): Json {
  const names = new Set([...annotated].map(lastName));
  const known = [...values].filter(({ length }) => length >= minValueLength).sort((a, b) => b.length - a.length);
  const mark = (secret: string): string => (isMark(secret) ? secret : key === undefined ? plainMark : fingerprintSecret(key, secret));
  return visit(value, {
    mark,
    isSecret: (name) => names.has(name) || isSecretName(name),
    clean: (text) => replaceSecretShapes(known.reduce((rest, secret) => (rest.includes(secret) ? rest.replaceAll(secret, mark(secret)) : rest), text), mark),
  }, 0);
}

/** Of `/args/cards/0`, `cards`. */
function lastName(pointer: string): string {
  const name = pointer.split('/').findLast((segment) => !/^\d*$/.test(segment)) ?? '';
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}

function visit(value: Json, rules: Rules, depth: number): Json {
  if (typeof value === 'string') return redactText(value, rules, depth);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= maxDepth) return plainMark;
  if (Array.isArray(value)) return value.map((item) => visit(item, rules, depth + 1));
  // fromEntries defines own members, so that `__proto__` stays data
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [
    rules.clean(name),
    rules.isSecret(name) ? hide(member, rules, depth + 1) : visit(member, rules, depth + 1),
  ]));
}

/** Every text and number beneath a secret name; the structure, and yes, no and nothing, tell nothing. */
function hide(value: Json, rules: Rules, depth: number): Json {
  if (typeof value === 'string') return rules.mark(value);
  if (typeof value === 'number') return rules.mark(String(value));
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= maxDepth) return plainMark;
  if (Array.isArray(value)) return value.map((item) => hide(item, rules, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [rules.clean(name), hide(member, rules, depth + 1)]));
}

/** JSON inside a text (models quote their arguments) is read as JSON, so that names count in it too. */
function redactText(text: string, rules: Rules, depth: number): string {
  if (/^\s*[[{]/.test(text)) {
    try {
      const inner = JSON.parse(text) as Json;
      const clean = visit(inner, rules, depth + 1);
      return JSON.stringify(clean) === JSON.stringify(inner) ? text : JSON.stringify(clean);
    } catch {
      // not JSON after all, or cut off: its shapes remain
    }
  }
  return rules.clean(text);
}
