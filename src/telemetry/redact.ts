/**
 * Redaction, once, where something is recorded: receipts, lists, streams, exports, logs. What is a secret is told by the
 * name of a member at any depth, by the contract's annotations, and by the look of a text.
 */
import type { Json, JsonObject } from '../model.js';
import { fingerprintSecret, isMark, plainMark } from './fingerprint.js';
import { isSecretName } from './secret-names.js';
import { isHarmlessName, replaceSecretShapes } from './secret-shapes.js';

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

interface Rules { mark(secret: string): string; isSecret(name: string): boolean; clean(text: string): string; cleanName(name: string): string }

/** A shorter value would be found in what has nothing to do with it. */
const minValueLength = 4;

/** In one value: each is a keyed hash, and tens of thousands of numbers under one secret name would hold up everybody else. */
const fingerprintsAtMost = 2_000;

/** The same value without secrets: what holds none is given back as it is, what holds one is a copy. Redacting twice is redacting once. */
export function redact(value: Json, { key, annotated = [], values = [] }: RedactOptions = {}): Json {
  const names = new Set<string>();
  for (const pointer of annotated) names.add(lastName(pointer));
  const known = [...values].filter(({ length }) => length >= minValueLength).sort((a, b) => b.length - a.length);
  let fingerprints = 0;
  const mark = (secret: string): string => {
    if (isMark(secret)) return secret;
    return key === undefined || ++fingerprints > fingerprintsAtMost ? plainMark : fingerprintSecret(key, secret);
  };
  const withoutKnown = (text: string): string =>
    (known.length === 0 ? text : known.reduce((rest, secret) => (rest.includes(secret) ? rest.replaceAll(secret, mark(secret)) : rest), text));
  const clean = (text: string): string => replaceSecretShapes(withoutKnown(text), mark);
  return visit(value, {
    mark, clean,
    isSecret: (name) => names.has(name) || isSecretName(name),
    cleanName: (name) => (known.length === 0 && isHarmlessName(name) ? name : clean(name)),
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
  return Array.isArray(value) ? visitItems(value, visit, rules, depth) : visitMembers(value, (name) => (rules.isSecret(name) ? hide : visit), rules, depth);
}

/** Every text and number beneath a secret name; the structure, and yes, no and nothing, tell nothing. */
function hide(value: Json, rules: Rules, depth: number): Json {
  if (typeof value === 'string') return rules.mark(value);
  if (typeof value === 'number') return rules.mark(String(value));
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= maxDepth) return plainMark;
  return Array.isArray(value) ? visitItems(value, hide, rules, depth) : visitMembers(value, () => hide, rules, depth);
}

type Visitor = typeof visit;

function visitItems(items: Json[], visitor: Visitor, rules: Rules, depth: number): Json[] {
  let copy: Json[] | undefined;
  for (let n = 0; n < items.length; n++) {
    const item = items[n] as Json;
    const clean = visitor(item, rules, depth + 1);
    if (clean !== item) copy ??= items.slice(0, n);
    copy?.push(clean);
  }
  return copy ?? items;
}

function visitMembers(object: JsonObject, visitorOf: (name: string) => Visitor, rules: Rules, depth: number): JsonObject {
  let copy: [string, Json][] | undefined;
  const names = Object.keys(object);
  for (let n = 0; n < names.length; n++) {
    const name = names[n] as string;
    const member = object[name] as Json;
    const cleanName = rules.cleanName(name);
    const clean = visitorOf(name)(member, rules, depth + 1);
    if (clean !== member || cleanName !== name) copy ??= names.slice(0, n).map((before) => [before, object[before] as Json]);
    copy?.push([cleanName, clean]);
  }
  return copy ? Object.fromEntries(copy) : object; // fromEntries defines own members, so that `__proto__` stays data
}

/** JSON inside a text (models quote their arguments) is read as JSON, so that names count in it too. */
function redactText(text: string, rules: Rules, depth: number): string {
  if (mayBeJson(text)) {
    try {
      const inner = JSON.parse(text) as Json;
      const clean = visit(inner, rules, depth + 1);
      return clean === inner ? text : JSON.stringify(clean);
    } catch {
      // not JSON after all, or cut off: its shapes remain
    }
  }
  return rules.clean(text);
}

/** Most texts tell by their first character that they are none. */
function mayBeJson(text: string): boolean {
  const first = text.charCodeAt(0);
  return first > 0x20 && first < 0x7f ? first === 0x5b || first === 0x7b : /^\s*[[{]/.test(text);
}
