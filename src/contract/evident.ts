/**
 * What a schema evidently admits, by going through it. To generate a validator for the one or two examples of a tool takes a hundred times as
 * long, and most tools of a catalogue that is only checked are never called.
 */
import type { Json, JsonObject } from '../model.js';
import { linearPattern } from './linear-pattern.js';
import { annotations, isSchemaObject } from './schema-subset.js';

/** True only where the generated validator holds too. Of keywords that are not here, which combine schemas or refer to others, nothing is evident. */
export function evidentlyAdmits(schema: Json | undefined, value: Json): boolean {
  if (!isSchemaObject(schema)) return schema === true;
  return Object.keys(schema).every((keyword) => {
    const rule = Object.hasOwn(rules, keyword) ? rules[keyword] : undefined;
    return rule ? rule(schema[keyword] as never, value, schema) : silent.has(keyword);
  });
}

const silent: ReadonlySet<string> = new Set([...annotations, '$defs']);

type Rule = (wanted: never, value: Json, schema: JsonObject) => boolean;
const ofText = (holds: (wanted: never, text: string) => boolean): Rule => (wanted, value) => typeof value !== 'string' || holds(wanted, value);
const ofNumber = (holds: (wanted: never, number: number) => boolean): Rule => (wanted, value) => typeof value !== 'number' || holds(wanted, value);
const ofList = (holds: (wanted: never, items: Json[]) => boolean): Rule => (wanted, value) => !Array.isArray(value) || holds(wanted, value);
const ofObject =
  (holds: (wanted: never, members: JsonObject, schema: JsonObject) => boolean): Rule =>
  (wanted, value, schema) => !isSchemaObject(value) || holds(wanted, value, schema);

const rules: Record<string, Rule> = {
  type: (wanted: string | string[], value) => [wanted].flat().some((type) => isOf(type, value)),
  enum: (wanted: Json[], value) => wanted.includes(value),
  const: (wanted: Json, value) => wanted === value,
  minimum: ofNumber((least: number, number) => number >= least),
  maximum: ofNumber((most: number, number) => number <= most),
  exclusiveMinimum: ofNumber((below: number, number) => number > below),
  exclusiveMaximum: ofNumber((above: number, number) => number < above),
  minLength: ofText((least: number, text) => characters(text) >= least),
  maxLength: ofText((most: number, text) => characters(text) <= most),
  pattern: ofText((pattern: string, text) => linearPattern(pattern).test(text)),
  minItems: ofList((least: number, items) => items.length >= least),
  maxItems: ofList((most: number, items) => items.length <= most),
  items: ofList((schema: Json, items) => items.every((item) => evidentlyAdmits(schema, item))),
  required: ofObject((names: string[], members) => names.every((name) => Object.hasOwn(members, name))),
  properties: ofObject((schemas: JsonObject, members) =>
    Object.keys(schemas).every((name) => !Object.hasOwn(members, name) || evidentlyAdmits(schemas[name], members[name]!))),
  additionalProperties: ofObject((others: Json, members, { properties = {} }) =>
    Object.keys(members).every((name) => Object.hasOwn(properties as JsonObject, name) || evidentlyAdmits(others, members[name]!))),
};

function isOf(type: string, value: Json): boolean {
  switch (type) {
    case 'null': return value === null;
    case 'array': return Array.isArray(value);
    case 'object': return isSchemaObject(value);
    // Beyond that, a number may silently be another one.
    case 'integer': return Number.isSafeInteger(value);
    case 'number': return typeof value === 'number' && (Number.isSafeInteger(value) || !Number.isInteger(value));
    default: return typeof value === type;
  }
}

function characters(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}
