/**
 * Requests from contracts. Paths, queries and headers are templates: text with `{expression}` parts; bodies are values, whose
 * texts are expressions. Each value is encoded for its place, so that no argument can reach another segment, key or header.
 */
import type { Json } from '../model.js';
import { canonicalText } from '../canonical.js';
import type { CompiledExpression } from './expressions.js';
import { EvaluationError, type RenderedRequest, type Scope } from './plan.js';
import { type Path, valueAt } from './pointer.js';

export type TemplatePart = { text: string } | { expression: string; offset: number };
export type CompiledTemplate = readonly (string | CompiledExpression<string>)[];

/** Splits a template; an expression may itself hold braces and texts with braces. @throws SyntaxError with the place. */
export function parseTemplate(template: string): TemplatePart[] {
  const parts: TemplatePart[] = [];
  let text = '';
  for (let at = 0; at < template.length; at++) {
    const char = template[at]!;
    if ((char === '{' || char === '}') && template[at + 1] === char) text += template[at++];
    else if (char === '}') throw new SyntaxError(`a \`}\` without \`{\` at character ${at + 1}`);
    else if (char === '{') {
      const end = closingBrace(template, at);
      if (text !== '') parts.push({ text });
      text = '';
      const expression = template.slice(at + 1, end);
      if (expression.trim() === '') throw new SyntaxError(`an empty \`{}\` at character ${at + 1}`);
      parts.push({ expression, offset: at + 1 });
      at = end;
    } else text += char;
  }
  if (text !== '') parts.push({ text });
  return parts;
}

function closingBrace(template: string, open: number): number {
  let depth = 0;
  let quote = '';
  for (let at = open; at < template.length; at++) {
    const char = template[at]!;
    if (quote !== '') {
      if (char === '\\') at++;
      else if (char === quote) quote = '';
    } else if (char === '"' || char === "'") quote = char;
    else if (char === '{') depth++;
    else if (char === '}' && --depth === 0) return at;
  }
  throw new SyntaxError(`a \`{\` without \`}\` at character ${open + 1}`);
}

/** Why a path cannot be sent as it is written; undefined when it can. Only what no URL parser rewrites is admitted. */
export function pathProblem(parts: readonly TemplatePart[]): string | undefined {
  const literal = parts.map((part) => ('text' in part ? part.text : 'x')).join('');
  if (!/^(\/[A-Za-z0-9\-._~!$&'()*+,;=:@%]*)+$/.test(literal)) return 'it may hold path characters only; a query belongs under `query`';
  if (/%(?![0-9A-Fa-f]{2})/.test(literal)) return 'a `%` must be followed by two hexadecimal digits';
  if (literal.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) return 'it must not hold `.` or `..` segments';
  return undefined;
}

export interface RequestTemplate {
  method: string;
  base: string;
  path: CompiledTemplate;
  query: readonly RequestMember[];
  headers: readonly RequestMember[];
  body: CompiledValue | null;
}

export interface RequestMember {
  name: string;
  value: CompiledTemplate;
  /** The value without which the member is left out; without it, it is always there. */
  optional?: Path | null;
}

/** A name that begins with `?` is that of a member which is left out when the value that it carries is absent. */
export function memberName(written: string): { name: string; optional: boolean } {
  return written.startsWith('?') ? { name: written.slice(1), optional: true } : { name: written, optional: false };
}

/** The path of a bare argument or bound value; null for any other expression, which has no absence of its own. */
export function barePath(expression: string): Path | null {
  return /^(args|bound)(\.[A-Za-z_]\w*)+$/.test(expression) ? expression.split('.') : null;
}

/** @throws EvaluationError when a value is absent or does not fit its place. */
export function renderRequest({ method, base, path, query, headers, body }: RequestTemplate, scope: Scope): RenderedRequest {
  const search = present(query, scope).map(({ name, value }) => `${percentEncode(name)}=${fill(value, scope, percentEncode)}`).join('&');
  return {
    method,
    url: base + fill(path, scope, pathSegment) + (search === '' ? '' : `?${search}`),
    headers: Object.fromEntries(present(headers, scope).map(({ name, value }) => [name, fill(value, scope, headerValue)])),
    body: body === null ? null : canonicalText(body.evaluate(scope)),
  };
}

/** For people: each value as it is. @throws EvaluationError */
export function renderText(template: CompiledTemplate, scope: Scope): string {
  return fill(template, scope, (value) => value);
}

/** Null has no form in a text, so it counts as absent there. */
function present(members: readonly RequestMember[], scope: Scope): readonly RequestMember[] {
  return members.filter(({ optional }) => !optional || (valueAt(scope, optional) ?? null) !== null);
}

function fill(template: CompiledTemplate, scope: Scope, encode: (value: string) => string): string {
  let text = '';
  for (const part of template) text += typeof part === 'string' ? part : encoded(part, scope, encode);
  return text;
}

function encoded(part: CompiledExpression<string>, scope: Scope, encode: (value: string) => string): string {
  const value = part.evaluate(scope);
  try {
    return encode(value);
  } catch (thrown) {
    throw new EvaluationError(part.source, thrown);
  }
}

/** Leaves unreserved characters alone. @throws URIError for a lone surrogate. */
function percentEncode(value: string): string {
  return encodeURIComponent(value).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Dots survive encoding, and `.` or `..` would climb to another resource; an empty value would name the collection. */
function pathSegment(value: string): string {
  if (/^\.{0,2}$/.test(value)) throw new TypeError('an empty value, `.` or `..` cannot be part of a path');
  return percentEncode(value);
}

/** RFC 9110 field values, narrowed to visible ASCII and inner spaces, so that every hop reads the same. */
function headerValue(value: string): string {
  if (!/^[\x21-\x7e]+( +[\x21-\x7e]+)*$/.test(value)) throw new TypeError('a header value must be visible ASCII on one line');
  return value;
}

/** A JSON value whose texts were expressions. */
export interface CompiledValue {
  evaluate(scope: Scope): Json;
}

export function listValue(items: readonly CompiledValue[]): CompiledValue {
  return { evaluate: (scope) => items.map((item) => item.evaluate(scope)) };
}

export interface ObjectMember {
  name: string;
  value: CompiledValue;
  optional?: Path | null;
}

/** An optional member is sent as it was given, null included, or not at all. */
export function objectValue(members: readonly ObjectMember[]): CompiledValue {
  const entry = ({ name, value, optional }: ObjectMember, scope: Scope): [string, Json][] => {
    if (!optional) return [[name, value.evaluate(scope)]];
    const given = valueAt(scope, optional);
    return given === undefined ? [] : [[name, given === null ? null : value.evaluate(scope)]];
  };
  return { evaluate: (scope) => Object.fromEntries(members.flatMap((member) => entry(member, scope))) };
}
