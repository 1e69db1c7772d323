/**
 * One value position of a schema, in plain terms. `$ref`, `allOf`, root unions and conditions are folded away, always towards a
 * place that admits more: whatever the schema admits, the place admits, and the gateway goes on to enforce the schema.
 */
import type { Json, JsonObject } from '../../model.js';
import { fromPointer, type Path } from '../pointer.js';
import { isSchemaObject, resolve } from '../schema-subset.js';

/** A schema and where it is written. */
export interface Part {
  readonly schema: Json;
  readonly path: Path;
  /** Of an alternative: names that it does not know are refused by what surrounds it. */
  readonly closed?: boolean;
}

export interface Keyword {
  readonly value: Json;
  readonly path: Path;
}

export interface Place {
  readonly path: Path;
  /** Nothing satisfies it. */
  readonly never: boolean;
  /** A reference back to what it is part of: no more is said than its type. */
  readonly cut: boolean;
  readonly types: readonly string[] | null;
  /** Assertions and annotations of its own; types, members, items and combinations are told apart below. */
  readonly own: ReadonlyMap<string, Keyword>;
  /** A member satisfies at least one of its parts. */
  readonly members: ReadonlyMap<string, readonly Part[]>;
  readonly required: ReadonlySet<string>;
  readonly closed: boolean;
  /** What further members satisfy. */
  readonly rest: Part | null;
  /** An item satisfies at least one of them; null: nothing is said of items. */
  readonly items: readonly Part[] | null;
  /** The value satisfies at least one of them, and nothing else is known of it. */
  readonly union: readonly Part[] | null;
}

export const unclosed = 'that further members are refused is not said';

/** What the fold lost. @param keyword of the schema at `path`. */
export type Lost = (path: Path, keyword: string, why: string) => void;

export interface Reading {
  readonly root: JsonObject;
  /** Targets of references around this place. */
  readonly above: readonly Json[];
  readonly lost: Lost;
}

interface Conjunct {
  readonly schema: JsonObject;
  readonly path: Path;
}

const structural = new Set([
  ...['$ref', '$defs', '$schema', '$comment', 'type', 'allOf', 'anyOf', 'oneOf', 'if', 'then', 'else'],
  ...['properties', 'required', 'additionalProperties', 'unevaluatedProperties', 'items', 'prefixItems'],
]);

export function readPlace(part: Part, reading: Reading): { place: Place; reading: Reading } {
  const above = [...reading.above];
  const all = conjuncts(part, reading, above, new Set());
  if (all === 'never' || all === 'cut') {
    return {
      place: { ...nothing, path: part.path, never: all === 'never', cut: all === 'cut', types: typesOf(target(part, reading)) },
      reading,
    };
  }
  const types = all.map(({ schema }) => typesOf(schema)).reduce(intersection, null);
  const place = {
    ...nothing,
    path: part.path,
    types,
    never: types?.length === 0,
    own: ownKeywords(all, reading),
    items: itemParts(all, reading),
  };
  const inner = { ...reading, above };
  const foldable = types ? types.includes('object') : all.some(({ schema }) => 'properties' in schema);
  return {
    place: { ...place, ...(foldable ? readMembers(all, part, inner) : { union: readUnion(all, types, part, inner) }) },
    reading: inner,
  };
}

const nothing: Omit<Place, 'path' | 'types'> = {
  never: false,
  cut: false,
  own: new Map(),
  members: new Map(),
  required: new Set(),
  closed: false,
  rest: null,
  items: null,
  union: null,
};

function target({ schema }: Part, { root }: Reading): JsonObject {
  const found = isSchemaObject(schema) && schema['$ref'] !== undefined ? resolve(root, schema['$ref']) : schema;
  return isSchemaObject(found) ? found : {};
}

/** All schemas that a value of this place satisfies. @param above grows by the references that are followed. */
function conjuncts(part: Part, reading: Reading, above: Json[], seen: Set<Json>): Conjunct[] | 'never' | 'cut' {
  const { schema, path } = part;
  if (schema === false) return 'never';
  if (!isSchemaObject(schema) || seen.has(schema)) return [];
  seen.add(schema);
  const found: Conjunct[] = [{ schema, path }];
  const below: Part[] = [];
  if (typeof schema['$ref'] === 'string') {
    const referred = resolve(reading.root, schema['$ref']) ?? true;
    if (above.includes(referred) && !seen.has(referred)) {
      reading.lost(path, '$ref', 'the schema is part of itself; what is inside it is not said again');
      return 'cut';
    }
    above.push(referred);
    below.push({ schema: referred, path: fromPointer(schema['$ref'].slice(1)) });
  }
  if (Array.isArray(schema['allOf']))
    schema['allOf'].forEach((each, index) => below.push({ schema: each, path: [...path, 'allOf', index] }));
  for (const each of below) {
    const more = conjuncts(each, reading, above, seen);
    if (typeof more === 'string') return more;
    found.push(...more);
  }
  return found;
}

function typesOf(schema: JsonObject): string[] | null {
  const type = schema['type'];
  if (typeof type === 'string') return [type];
  if (Array.isArray(type)) return type.map(String);
  const values = Array.isArray(schema['enum']) ? schema['enum'] : 'const' in schema ? [schema['const']!] : null;
  const types = values && [...new Set(values.map(typeOf))];
  return types?.includes('number') ? types.filter((each) => each !== 'integer') : types;
}

export function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function intersection(a: string[] | null, b: string[] | null): string[] | null {
  if (a === null || b === null) return a ?? b;
  const both = a.filter((type) => b.includes(type) || (type === 'integer' && b.includes('number')));
  return [...both, ...b.filter((type) => type === 'integer' && a.includes('number') && !both.includes(type))];
}

/** Of several assertions of one kind the first stands: all of them hold. */
function ownKeywords(all: readonly Conjunct[], { lost }: Reading): Map<string, Keyword> {
  const own = new Map<string, Keyword>();
  for (const { schema, path } of all) {
    for (const [keyword, value] of Object.entries(schema)) {
      if (structural.has(keyword)) continue;
      if (!own.has(keyword)) own.set(keyword, { value, path });
      else if (JSON.stringify(own.get(keyword)?.value) !== JSON.stringify(value) && keyword !== 'description')
        lost(path, keyword, 'another schema of this place says it already');
    }
  }
  return own;
}

function itemParts(all: readonly Conjunct[], { lost }: Reading): Part[] | null {
  const saying = all.filter(({ schema }) => 'items' in schema || 'prefixItems' in schema);
  const [first, ...others] = saying;
  if (!first) return null;
  for (const { path } of others) lost(path, 'items', 'another schema of this place says it already');
  const { schema, path } = first;
  const prefix = Array.isArray(schema['prefixItems']) ? schema['prefixItems'] : [];
  if (prefix.length > 0) lost(path, 'prefixItems', 'which item comes where is not said');
  return [
    ...prefix.map((each, index) => ({ schema: each, path: [...path, 'prefixItems', index] })),
    { schema: schema['items'] ?? true, path: [...path, 'items'] },
  ];
}

/** Sets of schemas of which a value of the place satisfies at least one. What a condition names counts as named where it holds. */
function branchSets(all: readonly Conjunct[]): { keyword: string; path: Path; parts: Part[] }[] {
  return all.flatMap(({ schema, path }) => {
    const sets = (['anyOf', 'oneOf'] as const).flatMap((keyword) => {
      const listed = schema[keyword];
      return Array.isArray(listed)
        ? [{ keyword: keyword as string, path, parts: listed.map((each, index) => ({ schema: each, path: [...path, keyword, index] })) }]
        : [];
    });
    if (!('if' in schema)) return sets;
    const parts = ['if', 'then', 'else'].map((keyword) => ({ schema: schema[keyword] ?? true, path: [...path, keyword] }));
    return [...sets, { keyword: 'if', path, parts }];
  });
}

/** Alternatives within an object become one object that has the members of all of them. */
function readMembers(all: readonly Conjunct[], part: Part, reading: Reading): Pick<Place, 'members' | 'required' | 'closed' | 'rest'> {
  const members = new Map<string, Part[]>();
  const required = new Set<string>();
  for (const { schema, path } of all) {
    for (const [name, member] of Object.entries(isSchemaObject(schema['properties']) ? schema['properties'] : {})) {
      const at = [...path, 'properties', name];
      if (!members.has(name)) members.set(name, [{ schema: member, path: at }]);
      else reading.lost(at, 'properties', 'another schema of this place names the member already');
    }
    for (const name of (schema['required'] ?? []) as string[]) required.add(name);
  }
  const own = new Set(members.keys());
  const branches = branchSets(all).map(({ keyword, path, parts }) => {
    reading.lost(path, keyword, 'which members go together is not said');
    return { keyword, alternatives: parts.flatMap((each) => readMembersOf(each, reading) ?? []) };
  });
  const restful = all.find(({ schema }) => isSchemaObject(schema['additionalProperties']));
  const open = restful !== undefined || branches.some(({ alternatives }) => alternatives.some(({ rest }) => rest !== null));
  const closed = all.some(({ schema }) => schema['additionalProperties'] === false) || (!open && isClosedAround(all, part));
  for (const { keyword, alternatives } of branches) {
    for (const alternative of alternatives) {
      for (const [name, parts] of alternative.members) {
        if (own.has(name)) continue;
        // Without closure another branch may admit anything under this name.
        if (closed) members.set(name, [...(members.get(name) ?? []), ...parts]);
        else for (const { path } of parts) reading.lost(path, 'properties', 'a member of one alternative of an open object');
      }
    }
    if (keyword === 'if') continue;
    for (const name of alternatives[0]?.required ?? []) if (alternatives.every((each) => each.required.has(name))) required.add(name);
  }
  if (!closed && isClosedAround(all, part)) reading.lost(part.path, 'additionalProperties', unclosed);
  for (const { schema, path } of all)
    if (refusesOthers(schema, members)) reading.lost(path, 'additionalProperties', 'what another schema of this place names is admitted');
  const rest =
    restful && !closed ? { schema: restful.schema['additionalProperties']!, path: [...restful.path, 'additionalProperties'] } : null;
  return { members, required, closed, rest };
}

/** Of several schemas for one place, one whose `additionalProperties` also speak of members that the others name. */
function refusesOthers(schema: JsonObject, members: ReadonlyMap<string, unknown>): boolean {
  const own = isSchemaObject(schema['properties']) ? schema['properties'] : {};
  return 'additionalProperties' in schema && [...members.keys()].some((name) => !Object.hasOwn(own, name));
}

/** Null where nothing satisfies the alternative. Of one that is cut off anything may be a member. */
function readMembersOf(part: Part, reading: Reading): Pick<Place, 'members' | 'required' | 'rest'> | null {
  const above = [...reading.above];
  const all = conjuncts(part, reading, above, new Set());
  if (all === 'never') return null;
  if (all === 'cut') return { members: new Map(), required: new Set(), rest: part };
  return readMembers(all, { ...part, closed: true }, { ...reading, above });
}

function isClosedAround(all: readonly Conjunct[], { closed }: Part): boolean {
  return closed === true || all.some(({ schema }) => schema['unevaluatedProperties'] === false);
}

/** Of a place of which nothing but alternatives is known. */
function readUnion(all: readonly Conjunct[], types: readonly string[] | null, part: Part, reading: Reading): Part[] | null {
  const [first, ...others] = branchSets(all).sort((a, b) => Number(a.keyword === 'if') - Number(b.keyword === 'if'));
  const usable = first && first.keyword !== 'if' && types === null ? first : undefined;
  for (const { path, keyword } of usable ? others : [first, ...others].filter((each) => each !== undefined))
    reading.lost(path, keyword, 'the type of the value is said instead');
  if (!usable) return null;
  if (usable.keyword === 'oneOf') reading.lost(usable.path, 'oneOf', 'that only one of them may fit is not said');
  const objects = usable.parts.filter((each) => mayBeObject(target(each, reading)));
  // A value that fits two alternatives of `anyOf` may have the members of both, so neither of them can be closed alone.
  const closed = isClosedAround(all, part) && (usable.keyword === 'oneOf' || objects.length < 2);
  if (!closed && isClosedAround(all, part)) reading.lost(part.path, 'additionalProperties', unclosed);
  return usable.parts.map((each) => ({ ...each, closed }));
}

function mayBeObject(schema: JsonObject): boolean {
  const types = typesOf(schema);
  return types === null || types.includes('object');
}
