/** Which part of JSON Schema 2020-12 a contract may use, and how it is closed. What cannot be enforced is refused here, with its place. */
import type { Json, JsonObject } from '../model.js';
import type { DiagnosticCode } from './diagnostics.js';
import { patternProblem } from './linear-pattern.js';
import { nearest } from './nearest.js';
import type { Path } from './pointer.js';

export type Use = 'args' | 'result';
export interface SchemaProblem {
  path: Path;
  code: DiagnosticCode;
  message: string;
}

export const annotations = ['$schema', '$comment', 'title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'];
const assertions = [
  'type',
  'enum',
  'const',
  'required',
  'dependentRequired',
  'minProperties',
  'maxProperties',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minContains',
  'maxContains',
  'minLength',
  'maxLength',
  'pattern',
  'format',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
];
/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const single = ['additionalProperties', 'propertyNames', 'items', 'contains', 'not', 'if', 'then', 'else'];
const listed = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const named = ['properties', '$defs'];

export const admittedKeywords: ReadonlySet<string> = new Set([...annotations, ...assertions, ...single, ...listed, ...named, '$ref']);
export const admittedFormats: readonly string[] = ['date-time', 'date', 'time', 'duration', 'email', 'ipv4', 'ipv6', 'uri', 'uuid'];
/** Comparing every item with every other is quadratic; with this bound it stays far under a millisecond. */
export const maxUniqueItems = 1000;

export function isSchemaObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The schemas directly inside this one, with their paths. */
export function subschemas(schema: JsonObject): { path: Path; schema: Json }[] {
  const found: { path: Path; schema: Json }[] = [];
  for (const keyword of single) if (Object.hasOwn(schema, keyword)) found.push({ path: [keyword], schema: schema[keyword]! });
  for (const keyword of listed) {
    const value = schema[keyword];
    if (Array.isArray(value)) value.forEach((item, index) => found.push({ path: [keyword, index], schema: item }));
  }
  for (const keyword of named) {
    const value = schema[keyword];
    if (isSchemaObject(value)) for (const [name, item] of Object.entries(value)) found.push({ path: [keyword, name], schema: item });
  }
  return found;
}

/** Everything about a schema that the contract language does not admit. */
export function schemaProblems(root: JsonObject, use: Use): SchemaProblem[] {
  const problems: SchemaProblem[] = [];
  const places = new Set<Json>([root]);
  if (use === 'args' && root['type'] !== 'object')
    problems.push({ path: ['type'], code: 'CG605', message: 'the arguments of a tool are one object: `type: object` is missing' });
  const walk = (schema: Json, path: Path): void => {
    if (!isSchemaObject(schema)) return;
    problems.push(...[...ownProblems(schema, use), ...idle(schema)].map((problem) => ({ ...problem, path: [...path, ...problem.path] })));
    problems.push(...conditionProblems(root, schema).map((problem) => ({ ...problem, path: [...path, ...problem.path] })));
    for (const below of subschemas(schema)) {
      places.add(below.schema);
      if (use === 'args' && saysNothing(below))
        problems.push({ path: [...path, ...below.path], code: 'CG603', message: `\`${below.path.join('.')}\` admits any value` });
      walk(below.schema, [...path, ...below.path]);
    }
  };
  walk(root, []);
  return [...problems, ...referenceProblems(root, places)];
}

/**
 * What an `if` names counts as named also where the `if` fails (ajv's way of collecting it), so a name that stands nowhere else would let
 * an invented argument through, and `additionalProperties` in it any at all.
 */
function conditionProblems(root: JsonObject, schema: JsonObject): SchemaProblem[] {
  if (schema['if'] === undefined) return [];
  const asked = inPlaceSchemas(root, schema['if']);
  if (asked.some((part) => Object.hasOwn(part, 'additionalProperties'))) {
    return [{ path: ['if'], code: 'CG604', message: '`additionalProperties` in an `if` would count every member as named; say it beside the `if`' }];
  }
  const named = new Set(inPlaceSchemas(root, schema).flatMap(memberNames));
  return asked.flatMap(memberNames).filter((name) => !named.has(name)).map((name) => ({
    path: ['if'], code: 'CG604' as const, message: `\`${name}\` is named in the \`if\` alone; add it to the \`properties\` beside it`,
  }));
}

function memberNames({ properties }: JsonObject): string[] {
  return isSchemaObject(properties) ? Object.keys(properties) : [];
}

/** Generating the check of one takes steps down the stack for each definition that it leads to; some 220 are the end of it. */
const maxDefinitions = 150;
/** That one value is held against: schemas that join others, which join others, multiply. */
const maxChecks = 1000;

/** A reference leads to a schema, and not back to itself before a single value was looked at. */
function referenceProblems(root: JsonObject, places: ReadonlySet<Json>): SchemaProblem[] {
  const references: { schema: JsonObject; path: Path; target: Json | undefined }[] = [];
  const walk = (schema: Json, path: Path): void => {
    if (!isSchemaObject(schema)) return;
    if (schema['$ref'] !== undefined) references.push({ schema, path, target: resolve(root, schema['$ref']) });
    for (const below of subschemas(schema)) walk(below.schema, [...path, ...below.path]);
  };
  walk(root, []);
  const definitions = new Set(references.map(({ target }) => target)).size;
  if (definitions > maxDefinitions)
    return [{ path: [], code: 'CG605', message: `the schema refers to ${definitions} definitions, and ${maxDefinitions} are the most` }];
  const groups = circles(root, references.map(({ schema }) => schema));
  const back = ({ schema, target }: (typeof references)[number]): boolean => isSchemaObject(target) && groups.get(target) === groups.get(schema);
  const checks = new Map<JsonObject, number>();
  const costly = references.some(back) ? undefined : references.find(({ schema }) => checksOf(root, schema, checks) > maxChecks);
  if (costly) return [{ path: [...costly.path, '$ref'], code: 'CG605', message: `a value here would be held against more than ${maxChecks} schemas` }];
  return references.flatMap((reference) => {
    const { schema, path, target } = reference;
    const leads = target !== undefined && (typeof target === 'boolean' || places.has(target));
    const wrong = !leads ? 'leads nowhere in this schema' : back(reference) ? 'leads back to itself' : undefined;
    return wrong ? [{ path: [...path, '$ref'], code: 'CG605', message: `\`${String(schema['$ref'])}\` ${wrong}` }] : [];
  });
}

/** Schemas that check one value by one another in a circle have the same number, all others numbers of their own (Tarjan's components). */
function circles(root: JsonObject, schemas: readonly JsonObject[]): ReadonlyMap<JsonObject, number> {
  const groups = new Map<JsonObject, number>();
  const reached = new Map<JsonObject, number>();
  const open: JsonObject[] = [];
  const visit = (schema: JsonObject): number => {
    if (groups.has(schema)) return Number.POSITIVE_INFINITY;
    const known = reached.get(schema);
    if (known !== undefined) return known;
    const own = reached.size;
    reached.set(schema, own);
    open.push(schema);
    const earliest = Math.min(own, ...together(root, schema).map(visit));
    if (earliest === own) for (const member of open.splice(open.lastIndexOf(schema))) groups.set(member, own);
    else reached.set(schema, earliest);
    return earliest === own ? Number.POSITIVE_INFINITY : earliest;
  };
  schemas.forEach(visit);
  return groups;
}

/** Of a schema without circles: against how many one value is held, alternatives and repetitions counted. */
function checksOf(root: JsonObject, schema: JsonObject, known: Map<JsonObject, number>): number {
  const found = known.get(schema) ?? together(root, schema).reduce((sum, each) => sum + checksOf(root, each, known), 1);
  known.set(schema, found);
  return found;
}

/** What the value that a schema is held against is held against as well. */
function together(root: JsonObject, schema: JsonObject): JsonObject[] {
  const beside = subschemas(schema).flatMap(({ path, schema: below }) => (samePlace.has(String(path[0])) ? [below] : []));
  return [...beside, resolve(root, schema['$ref'] ?? null)].filter(isSchemaObject);
}

const samePlace = new Set(['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else']);

/** Keywords that say nothing where they stand. Whoever wrote them thinks that they hold. */
function idle(schema: JsonObject): SchemaProblem[] {
  const has = (keyword: string): boolean => Object.hasOwn(schema, keyword);
  const found: [boolean, string, string][] = [
    [has('if') && !has('then') && !has('else'), 'if', '`if` without `then` and `else` says nothing'],
    [has('then') && !has('if'), 'then', '`then` without `if` says nothing'],
    [has('else') && !has('if'), 'else', '`else` without `if` says nothing'],
    [has('minContains') && !has('contains'), 'minContains', '`minContains` without `contains` says nothing'],
    [has('maxContains') && !has('contains'), 'maxContains', '`maxContains` without `contains` says nothing'],
    [schema['minContains'] === 0 && !has('maxContains'), 'minContains', '`minContains: 0` without `maxContains` makes `contains` say nothing'],
    [Number(schema['minContains'] ?? 1) > Number(schema['maxContains'] ?? Infinity), 'maxContains', 'no list satisfies both `minContains` and `maxContains`'],
    [Array.isArray(schema['enum']) && schema['enum'].length === 0, 'enum', 'no value satisfies an empty `enum`'],
  ];
  const { properties, required, additionalProperties } = schema;
  const undeclared = isSchemaObject(properties) && Array.isArray(required) && !isSchemaObject(additionalProperties)
    ? required.filter((name) => typeof name === 'string' && !Object.hasOwn(properties, name) && !combined.some(has)) as string[]
    : [];
  return [
    ...found.flatMap(([wrong, keyword, message]) => (wrong ? [{ path: [keyword], code: 'CG605' as const, message }] : [])),
    ...undeclared.map((name) => ({ path: ['required'], code: 'CG605' as const, message: `\`${name}\` is required, and \`properties\` does not have it${meantBy(name, Object.keys(properties as JsonObject))}` })),
  ];
}

/** Beside these, the names may be declared elsewhere. */
const combined = ['$ref', 'allOf', 'anyOf', 'oneOf', 'then', 'else'];

function meantBy(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return meant ? `; did you mean \`${meant}\`?` : '';
}

function ownProblems(schema: JsonObject, use: Use): SchemaProblem[] {
  const problems: SchemaProblem[] = [];
  const report = (keyword: string, code: DiagnosticCode, message: string): void => {
    problems.push({ path: [keyword], code, message });
  };
  for (const keyword of Object.keys(schema)) if (!admittedKeywords.has(keyword)) report(keyword, 'CG604', unknownKeyword(keyword));
  if (schema['additionalProperties'] === true)
    report('additionalProperties', 'CG603', '`additionalProperties: true` lets through members that nobody checked');
  const { pattern, format, properties } = schema;
  const unfit = typeof pattern === 'string' ? patternProblem(pattern) : undefined;
  if (unfit !== undefined) report('pattern', 'CG606', `the pattern cannot run in linear time: ${unfit}`);
  if (typeof format === 'string' && !admittedFormats.includes(format))
    report('format', 'CG604', `the format \`${format}\` is not checked; known are ${admittedFormats.join(', ')}`);
  if (schema['uniqueItems'] === true && !(Number(schema['maxItems']) <= maxUniqueItems))
    report(
      'uniqueItems',
      'CG604',
      `\`uniqueItems\` needs \`maxItems\` of at most ${maxUniqueItems}, or comparing the items could stall the gateway`,
    );
  if (isSchemaObject(properties) && Object.hasOwn(properties, '__proto__'))
    report('properties', 'CG604', 'a member cannot be named `__proto__`');
  if (use === 'args' && Array.isArray(schema['type']) && schema['type'].includes('object') && schema['type'].includes('string')) {
    report('type', 'CG604', 'a value that may be text or an object is ambiguous for a model that sends JSON as text');
  }
  return problems;
}

function unknownKeyword(keyword: string): string {
  const known = nearest(keyword, admittedKeywords);
  return `the keyword \`${keyword}\` is not part of the contract language${known ? `; did you mean \`${known}\`?` : ''}`;
}

const describing = ['type', 'enum', 'const', 'properties', 'items', '$ref', 'allOf', 'anyOf', 'oneOf'];

/** True for a value position (not for a condition) whose schema admits anything at all, open objects included. */
function saysNothing({ path, schema }: { path: Path; schema: Json }): boolean {
  if (!['properties', 'items', 'prefixItems', '$defs', 'additionalProperties'].includes(String(path[0])) || schema === false) return false;
  if (path[0] === 'additionalProperties' && schema === true) return false;
  return schema === true || (isSchemaObject(schema) && !describing.some((keyword) => Object.hasOwn(schema, keyword)));
}

/** What a local reference (`#`, `#/$defs/x`) leads to. */
export function resolve(root: JsonObject, ref: Json): Json | undefined {
  if (typeof ref !== 'string' || !/^#(\/.*)?$/.test(ref)) return undefined;
  let value: Json | undefined = root;
  for (const token of ref.split('/').slice(1)) {
    const name = decodeURIComponent(token).replaceAll('~1', '/').replaceAll('~0', '~');
    value = typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as JsonObject)[name] : undefined;
  }
  return value;
}

const applicators = ['$ref', 'allOf', 'anyOf', 'oneOf', 'if', 'then', 'else'];
const conditions = new Set(['not', 'if', 'contains', 'propertyNames']);
const inPlace = new Set(['allOf', 'anyOf', 'oneOf', 'then', 'else', '$defs']);

/**
 * A copy that refuses unnamed members at every level. Where members are named by several schemas for one place (`allOf`,
 * `$ref`, …) only their union can be closed, by `unevaluatedProperties` at that place; conditions are left as they are.
 */
export function close(schema: Json, where: 'place' | 'part' = 'place'): Json {
  if (!isSchemaObject(schema)) return schema;
  const copy: JsonObject = { ...schema };
  for (const { path, schema: below } of subschemas(schema)) {
    const [keyword, index] = path as [string, (string | number)?];
    const closed = conditions.has(keyword) ? below : close(below, inPlace.has(keyword) ? 'part' : 'place');
    if (index === undefined) copy[keyword] = closed;
    else {
      if (copy[keyword] === schema[keyword])
        copy[keyword] = Array.isArray(schema[keyword]) ? [...schema[keyword]] : { ...(schema[keyword] as JsonObject) };
      (copy[keyword] as Record<string | number, Json>)[index] = closed;
    }
  }
  if (where === 'part' || Object.hasOwn(schema, 'additionalProperties')) return copy;
  if (applicators.some((keyword) => Object.hasOwn(schema, keyword))) copy['unevaluatedProperties'] = false;
  else if (describesObject(schema)) copy['additionalProperties'] = false;
  return copy;
}

function describesObject(schema: JsonObject): boolean {
  const type = schema['type'];
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || Object.hasOwn(schema, 'properties');
}

/** All schemas that describe one place: the schema itself and, through references and combinations, those that apply with it. */
export function inPlaceSchemas(root: JsonObject, schema: Json | undefined, seen = new Set<JsonObject>()): JsonObject[] {
  if (!isSchemaObject(schema) || seen.has(schema)) return [];
  seen.add(schema);
  const parts: (Json | undefined)[] = [schema['then'], schema['else']];
  for (const keyword of ['allOf', 'anyOf', 'oneOf']) if (Array.isArray(schema[keyword])) parts.push(...schema[keyword]);
  if (schema['$ref'] !== undefined) parts.push(resolve(root, schema['$ref']));
  return [schema, ...parts.flatMap((part) => inPlaceSchemas(root, part, seen))];
}
