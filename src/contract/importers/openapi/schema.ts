/**
 * JSON Schemas of OpenAPI 3.0 and 3.1 to the part of JSON Schema that a contract admits. What cannot be said in it and does not
 * narrow what is valid is left away; where nothing sensible is left, an open question stands. Each `$ref` becomes a definition,
 * so that circles stay circles and the size stays that of the document; one that is used once is written out again.
 */
import type { Json, JsonObject } from '../../../model.js';
import { gap } from '../../gaps.js';
import { patternProblem } from '../../linear-pattern.js';
import { admittedFormats, isSchemaObject, type Use } from '../../schema-subset.js';
import { type Anything, clean, distinct, isPlainText, isPlainValue, listOf, objectOf, own, shortened, target } from './source.js';

export interface Budget {
  left: number;
}

const maxDepth = 32;
/** Of one arguments or result schema. */
const maxSchemas = 5000;
/** Of members, alternatives and the like of one schema. */
const maxMembers = 1000;
/** Of a schema with every reference written out: expressions are typed by that. */
const maxUnfolded = 50_000;
/** Definitions inside one another. */
const maxHops = 100;
const tooLarge = 'the schema is too large to be imported; describe what is needed of it';
const maxDescription = { args: 300, result: 100 };
const maxUniqueItems = 1000;
const types = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];

export class SchemaImport {
  private readonly names = new Map<string, string>();
  private readonly definitions = new Map<string, Json>();
  private readonly taken = new Set<string>();
  private readonly waiting: { name: string; schema: Json }[] = [];
  private left = maxSchemas;

  /** @param whole of schemas that may still be converted of this document: a document may be small and mean something very large. */
  constructor(
    private readonly root: JsonObject,
    private readonly use: Use,
    private readonly whole: Budget,
  ) {}

  /** @returns a schema, or an open question in place of one. */
  convert(schema: Anything): Json {
    return this.place(schema, 0, 'place');
  }

  /** Puts what was referred to beside what was converted. */
  withDefinitions(schema: JsonObject): JsonObject {
    // The list grows while it is walked.
    for (const { name, schema: waiting } of this.waiting) this.definitions.set(name, this.place(waiting, 0, 'place'));
    if (unfolded(schema, this.definitions) > maxUnfolded) return { type: 'object', properties: { all: gap(tooLarge) } };
    return withSingleUsesInlined(schema, this.definitions, this.use);
  }

  private place(schema: Anything, depth: number, where: 'place' | 'part'): Json {
    if (--this.left < 0 || --this.whole.left < 0 || depth > maxDepth || isWide(schema)) return gap(tooLarge);
    if (schema === false) return { not: {} };
    if (schema === undefined || schema === true || !isSchemaObject(schema)) return this.anything();
    const ref = own(schema, '$ref');
    if (ref !== undefined) return this.reference(ref, schema);
    return nullable(schema, this.described(schema, depth, where));
  }

  /** A result may hold anything; an argument has to be described. */
  private anything(): Json {
    return this.use === 'result' ? {} : gap('the document admits anything here; describe it, or remove the member');
  }

  private reference(ref: Json, schema: JsonObject): Json {
    const found = typeof ref === 'string' ? target(this.root, ref) : { problem: 'a reference is no text' };
    if ('problem' in found) return gap(found.problem);
    const name = this.names.get(ref as string) ?? this.define(ref as string, found.value);
    return { $ref: `#/$defs/${name}`, ...description(schema, this.use) };
  }

  private define(ref: string, schema: Json): string {
    const wanted = (ref.split('/').at(-1) ?? '').replace(/[^A-Za-z0-9_.-]+/g, '_').slice(0, 60) || 'root';
    let name = wanted;
    while (this.taken.has(name)) name = `${wanted}_${this.names.size + 1}${name === wanted ? '' : name.slice(wanted.length)}`;
    this.names.set(ref, name);
    this.taken.add(name);
    this.waiting.push({ name, schema });
    return name;
  }

  private described(schema: JsonObject, depth: number, where: 'place' | 'part'): Json {
    const converted: JsonObject = {
      ...description(schema, this.use),
      ...(schema['deprecated'] === true ? { deprecated: true } : {}),
      ...values(schema),
      ...numbers(schema),
      ...texts(schema),
      ...this.lists(schema, depth),
      ...this.objects(schema, depth, where),
      ...this.combinations(schema, depth),
    };
    const found = typesOf(schema);
    // A part may say no more than what is required of the whole.
    if (found.length === 0) return where === 'part' || saysSomething(converted) ? converted : this.anything();
    // An object or a list that may also be text is told apart by alternatives, not by one list of types.
    if (found.length > 1 && found.includes('string') && (found.includes('object') || found.includes('array')))
      return { anyOf: found.map((type) => this.typed(schema, { ...converted }, [type])) };
    return this.typed(schema, converted, found);
  }

  private typed(source: JsonObject, converted: JsonObject, found: string[]): JsonObject {
    const schema: JsonObject = { type: found.length === 1 ? found[0]! : found, ...converted };
    if (found.includes('array') && schema['items'] === undefined && schema['prefixItems'] === undefined) schema['items'] = this.anything();
    const open = found.includes('object') && !['properties', 'additionalProperties', 'allOf', 'anyOf', 'oneOf'].some((keyword) => keyword in schema);
    if (open && source['additionalProperties'] !== false) schema['additionalProperties'] = this.anything();
    return schema;
  }

  private lists(schema: JsonObject, depth: number): JsonObject {
    const found = counts(schema, ['minItems', 'maxItems']);
    if (isSchemaObject(schema['items']) || schema['items'] === true) found['items'] = this.place(schema['items'], depth + 1, 'place');
    const prefix = listOf(schema['prefixItems']);
    if (prefix.length > 0) found['prefixItems'] = prefix.map((item) => this.place(item, depth + 1, 'place'));
    if (schema['uniqueItems'] === true && Number(found['maxItems']) <= maxUniqueItems) found['uniqueItems'] = true;
    return found;
  }

  private objects(schema: JsonObject, depth: number, where: 'place' | 'part'): JsonObject {
    const found = counts(schema, ['minProperties', 'maxProperties']);
    const hidden = this.use === 'args' ? 'readOnly' : 'writeOnly';
    const all = Object.entries(objectOf(schema['properties']));
    const kept = all.filter(([name, member]) => isPlainName(name) && own(member, hidden) !== true);
    if (kept.length > 0) found['properties'] = Object.fromEntries(kept.map(([name, member]) => [name, this.place(member, depth + 1, 'place')]));
    const names = new Set(kept.map(([name]) => name));
    const dropped = new Set(all.map(([name]) => name).filter((name) => !names.has(name)));
    const required = listOf(schema['required']).filter(
      (name) => typeof name === 'string' && isPlainName(name) && (where === 'part' || combined(schema) ? !dropped.has(name) : names.has(name)),
    );
    if (required.length > 0) found['required'] = distinct(required);
    const others = schema['additionalProperties'];
    if (isSchemaObject(others) && Object.keys(others).length > 0) found['additionalProperties'] = this.place(others, depth + 1, 'place');
    else if (this.use === 'result' && kept.length === 0 && (others === true || isSchemaObject(others))) found['additionalProperties'] = {};
    return found;
  }

  private combinations(schema: JsonObject, depth: number): JsonObject {
    const found: JsonObject = {};
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const parts = listOf(schema[keyword]);
      if (parts.length > 0) found[keyword] = parts.map((part) => this.place(part, depth + 1, 'part'));
    }
    return found;
  }
}

function isWide(schema: Anything): boolean {
  return ['properties', 'allOf', 'anyOf', 'oneOf', 'prefixItems'].some((keyword) => Object.keys(own(schema, keyword) ?? {}).length > maxMembers);
}

/** How many schemas it is with every reference written out, those to what encloses them left alone. */
function unfolded(schema: Json, definitions: ReadonlyMap<string, Json>): number {
  const known = new Map<string, number>();
  const size = (value: Json, hops: number): number => {
    if (typeof value !== 'object' || value === null) return 0;
    const name = isSchemaObject(value) ? definitionName(value) : null;
    if (name === null) return 1 + Object.values(value).reduce<number>((sum, member) => sum + size(member, hops), 0);
    if (hops > maxHops) return Infinity;
    if (!known.has(name)) {
      known.set(name, 1);
      known.set(name, size(definitions.get(name) ?? null, hops + 1));
    }
    return known.get(name)!;
  };
  return size(schema, 0);
}

const combined = (schema: JsonObject): boolean => ['allOf', 'anyOf', 'oneOf'].some((keyword) => listOf(schema[keyword]).length > 0);

function saysSomething(schema: JsonObject): boolean {
  return ['enum', 'const', 'properties', 'items', 'prefixItems', 'additionalProperties', 'allOf', 'anyOf', 'oneOf'].some((keyword) => keyword in schema);
}

function typesOf(schema: JsonObject): string[] {
  const declared = (Array.isArray(schema['type']) ? schema['type'] : [schema['type']]).filter((type) => typeof type === 'string' && types.includes(type));
  return distinct(declared as Json[]) as string[];
}

/** `nullable` of OpenAPI 3.0, which 3.1 says as a type. */
function nullable(schema: JsonObject, converted: Json): Json {
  if (schema['nullable'] !== true || !isSchemaObject(converted)) return converted;
  const type = converted['type'];
  if (type === undefined || converted['const'] !== undefined || combined(converted)) return { anyOf: [converted, { type: 'null' }] };
  const found = Array.isArray(type) ? type : [type];
  const withNull: JsonObject = { ...converted, type: found.includes('null') ? found : [...found, 'null'] };
  if (Array.isArray(converted['enum'])) withNull['enum'] = distinct([...converted['enum'], null]);
  return withNull;
}

function description(schema: JsonObject, use: Use): JsonObject {
  const told = typeof schema['description'] === 'string' ? schema['description'] : typeof schema['title'] === 'string' && schema['$ref'] === undefined ? schema['title'] : '';
  // The gateway fills nothing in, so a default is a fact about the service.
  const fallback = schema['default'];
  const implied = ['string', 'number', 'boolean'].includes(typeof fallback) && isPlainValue(fallback!) ? ` The service's default: ${JSON.stringify(fallback)}.` : '';
  const text = clean(`${shortened(told, maxDescription[use])}${implied}`);
  return text === '' ? {} : { description: text };
}

function values(schema: JsonObject): JsonObject {
  const found: JsonObject = {};
  const list = listOf(schema['enum']);
  if (list.length > 0 && isPlainValue(list)) found['enum'] = distinct(list);
  if (schema['const'] !== undefined && isPlainValue(schema['const'])) found['const'] = schema['const'];
  return found;
}

function numbers(schema: JsonObject): JsonObject {
  const found: JsonObject = {};
  for (const [keyword, strict] of [['minimum', 'exclusiveMinimum'], ['maximum', 'exclusiveMaximum']] as const) {
    // OpenAPI 3.0 says that a bound is exclusive, 3.1 which one.
    if (isBound(schema[keyword])) found[schema[strict] === true ? strict : keyword] = schema[keyword]!;
    if (isBound(schema[strict])) found[strict] = schema[strict]!;
  }
  if (isBound(schema['multipleOf']) && Number(schema['multipleOf']) > 0) found['multipleOf'] = schema['multipleOf']!;
  return found;
}

function isBound(value: Anything): boolean {
  return typeof value === 'number' && isPlainValue(value);
}

function counts(schema: JsonObject, keywords: readonly string[]): JsonObject {
  const found: JsonObject = {};
  for (const keyword of keywords) {
    const value = schema[keyword];
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) found[keyword] = value;
  }
  return found;
}

/** A pattern that cannot run in linear time is left to the service. */
function texts(schema: JsonObject): JsonObject {
  const found = counts(schema, ['minLength', 'maxLength']);
  const { pattern, format } = schema;
  if (typeof pattern === 'string' && pattern.length <= 1000 && isPlainText(pattern) && patternProblem(pattern) === undefined) found['pattern'] = pattern;
  if (typeof format === 'string' && admittedFormats.includes(format)) found['format'] = format;
  return found;
}

export function isPlainName(name: string): boolean {
  return name !== '' && name.length <= 200 && name !== '__proto__' && isPlainText(name);
}

const maxInlining = 20;

/** A definition that is used once is written where it is used; one that contains itself is used at least twice. */
function withSingleUsesInlined(schema: JsonObject, definitions: Map<string, Json>, use: Use): JsonObject {
  const uses = new Map<string, number>();
  for (const each of [schema, ...definitions.values()]) for (const name of referred(each)) uses.set(name, (uses.get(name) ?? 0) + 1);
  const kept = new Map<string, Json>();
  const inline = (value: Json, depth: number): Json => {
    if (Array.isArray(value)) return value.map((item) => inline(item, depth));
    if (!isSchemaObject(value)) return value;
    const name = definitionName(value);
    if (name === null) return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, inline(member, depth)]));
    if (uses.get(name) === 1 && depth < maxInlining) {
      const definition = inline(definitions.get(name)!, depth + 1);
      return isSchemaObject(definition) ? { ...definition, ...description(value, use) } : definition;
    }
    if (!kept.has(name)) {
      kept.set(name, {});
      queue.push(name);
    }
    return value;
  };
  const queue: string[] = [];
  const written = inline(schema, 0) as JsonObject;
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) kept.set(name, inline(definitions.get(name)!, 0));
  return kept.size === 0 ? written : { ...written, $defs: Object.fromEntries(kept) };
}

function definitionName(schema: JsonObject): string | null {
  const ref = schema['$ref'];
  return typeof ref === 'string' && ref.startsWith('#/$defs/') ? ref.slice('#/$defs/'.length) : null;
}

function referred(value: Json): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const name = isSchemaObject(value) ? definitionName(value) : null;
  return [...(name === null ? [] : [name]), ...Object.values(value).flatMap(referred)];
}
