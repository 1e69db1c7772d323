/**
 * CEL types from JSON Schemas, and values decoded by them. Every described object becomes a class of its own, because a plain
 * object in a `map` passes the type check and fails at run time; integers become BigInt, because JS numbers are not CEL's `int`.
 */
import type { Json, JsonObject } from '../model.js';
import { Decimal, decimalFromText, scales } from './cel-decimal.js';
import { inPlaceSchemas, isSchemaObject, resolve } from './schema-subset.js';

export interface CelType {
  /** As the checker writes it: `int`, `list<string>`, a class name. */
  readonly name: string;
  /** @returns undefined for what cannot be read here. @throws TypeError when the value is not of this type. Objects are decoded once: a value in a scope must not be changed. */
  decode(value: unknown): unknown;
  /** Of a class: its members; an absent or null one cannot be read, only asked for with `has`. */
  readonly fields?: ReadonlyMap<string, CelType>;
  readonly ctor?: new () => object;
  /** The types of what it holds. A class may hold itself, at any depth. */
  readonly parts: readonly CelType[];
  /** Of a list or map: the most elements that its schema admits; absent where the schema does not say. */
  readonly maxItems?: number;
  /** Of a text: all that its schema admits, where it lists them. */
  readonly values?: ReadonlySet<string>;
}

/** What a list or map may hold whose schema does not say, so that the cost of an expression over it is bounded all the same. */
export const maxUndeclaredItems = 10_000;

/** On a decoded object, the JSON that it came from, to hand it back as it was. */
const origin = Symbol('origin');

function expected(type: string, value: unknown): TypeError {
  return new TypeError(
    `a value of type ${type} was expected, and it is ${value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value}`,
  );
}

function primitive(name: string, accepts: (value: unknown) => boolean, convert: (value: never) => unknown = (value) => value): CelType {
  const decode = (value: unknown): unknown => {
    if (!accepts(value)) throw expected(name, value);
    return convert(value as never);
  };
  return { name, decode, parts: [] };
}

export const celString = primitive('string', (value) => typeof value === 'string');
export const celBool = primitive('bool', (value) => typeof value === 'boolean');
export const celInt = primitive('int', Number.isSafeInteger, (value: number) => BigInt(value));
export const celDouble = primitive('double', Number.isFinite);
export const celDecimals = scales.map((scale) => primitive(`decimal${scale}`, (value) => typeof value === 'string', (text: string) => decimalFromText(text, scale)));
export const celTimestamp = primitive('google.protobuf.Timestamp', (value) => value instanceof Date);
/** Of what did not compile and was reported: expressions over it are not reported as well. */
export const celUnknown: CelType = { name: 'dyn', decode: decodeAny, parts: [] };
export const celDyn: CelType = { name: 'dyn', decode: decodeAny, parts: [] };

function decodeAny(value: unknown): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return within(maxUndeclaredItems, value, value.length).map(decodeAny);
  return typeof value === 'object' && value !== null && !(value instanceof Date) ? decodeMap(value) : value;
}

/** A Map and not the object itself: a member named `constructor` would change what the evaluator takes the object for. */
const decodeMap = oncePerObject((value) => new Map(Object.entries(value).map(([name, member]) => [name, decodeAny(member)])));

interface Decoded {
  [origin]?: Json;
}

function oncePerObject(decode: (value: object) => object): (value: object) => object {
  const decoded = new WeakMap<object, object>();
  return (value) => {
    const known = decoded.get(value);
    if (known) return known;
    const fresh = decode(value) as Decoded;
    fresh[origin] = value as Json;
    decoded.set(value, fresh);
    return fresh;
  };
}

function within<T>(most: number, value: T, size: number): T {
  if (size > most) throw new RangeError(`it has ${size} elements, and ${most} are the most`);
  return value;
}

export function celList(item: CelType, maxItems?: number): CelType {
  const name = `list<${item.name}>`;
  const decode = oncePerObject((value) => (value as unknown[]).map((one) => item.decode(one)));
  return {
    name,
    parts: [item],
    ...(maxItems === undefined ? {} : { maxItems }),
    decode: (value) => {
      if (!Array.isArray(value)) throw expected(name, value);
      return decode(within(maxItems ?? maxUndeclaredItems, value, value.length));
    },
  };
}

/** @param key of what type the names are when an expression reads them; JSON writes them as text in any case. */
export function celMap(member: CelType, { key = 'string', maxItems }: { key?: 'string' | 'int'; maxItems?: number | undefined } = {}): CelType {
  const name = `map<${key}, ${member.name}>`;
  const named = key === 'int' ? BigInt : String;
  const decode = oncePerObject((value) => new Map(Object.entries(value).map(([text, one]) => [named(text), member.decode(one)])));
  return {
    name,
    parts: [member],
    ...(maxItems === undefined ? {} : { maxItems }),
    decode: (value) => {
      if (!isPlain(value)) throw expected(name, value);
      return decode(within(maxItems ?? maxUndeclaredItems, value, Object.keys(value).length));
    },
  };
}

let classes = 0;

/**
 * @param label for messages; the class's own name is made unique, since two paths can spell the same label.
 * @param fields read when the first value is decoded, so that they can be of a type that holds this one
 */
export function celClass(label: string, fields: ReadonlyMap<string, CelType>): CelType {
  const name = `${label}_${++classes}`;
  const ctor = class {};
  let members: [string, CelType][] | undefined;
  const decode = oncePerObject((value) => {
    const instance = new ctor() as Record<string, unknown>;
    members ??= [...fields];
    for (const [field, type] of members) {
      const member = Object.hasOwn(value, field) ? (value as Record<string, unknown>)[field] : undefined;
      if (member !== undefined && (member !== null || type === celDyn)) instance[field] = type.decode(member);
    }
    return instance;
  });
  return {
    name,
    fields,
    ctor,
    get parts() {
      return [...fields.values()];
    },
    decode: (value) => {
      if (!isPlain(value)) throw expected('object', value);
      return decode(value);
    },
  };
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

type Kind = 'string' | 'boolean' | 'integer' | 'number' | 'object' | 'array';

/** Of one root: what each of its schemas describes, so that a definition which is used in many places is one type, and may hold itself. */
const described = new WeakMap<JsonObject, Map<JsonObject, CelType>>();

/**
 * The type of what a schema describes. A null that it admits counts as absent; what has no single type is `dyn`.
 * @param open lists and maps around this place, up to the nearest object: one that holds itself with no object between is `dyn`
 */
export function celTypeOf(root: JsonObject, schema: Json | undefined, name: string, open: ReadonlySet<JsonObject> = new Set()): CelType {
  if (!isSchemaObject(schema)) return celDyn;
  const own = definitionOf(root, schema);
  const types = described.get(root) ?? new Map<JsonObject, CelType>();
  described.set(root, types);
  const known = types.get(own);
  if (known) return known;
  if (open.has(own)) return celDyn;
  const type = describe(root, own, name, new Set([...open, own]), (begun) => types.set(own, begun));
  if (open.size === 0) types.set(own, type); // nothing around it was left out, so it is the same wherever it stands
  return type;
}

const annotations = new Set(['title', 'description', '$comment']);

/** What a reference that says nothing else leads to. */
function definitionOf(root: JsonObject, schema: JsonObject): JsonObject {
  const passed = new Set<JsonObject>();
  let own = schema;
  while (own['$ref'] !== undefined && !passed.has(own) && Object.keys(own).every((keyword) => keyword === '$ref' || annotations.has(keyword))) {
    passed.add(own);
    const target = resolve(root, own['$ref']);
    if (!isSchemaObject(target)) break;
    own = target;
  }
  return own;
}

/** @param begun told of a class before its members are looked at: they may be of its own type */
function describe(root: JsonObject, schema: JsonObject, name: string, open: ReadonlySet<JsonObject>, begun: (type: CelType) => void): CelType {
  const places = inPlaceSchemas(root, schema);
  const kinds = kindsOf(places);
  switch (kinds.size === 1 ? [...kinds][0] : undefined) {
    case 'string': {
      const values = valuesOf(root, schema);
      return values ? { ...celString, values } : celString;
    }
    case 'boolean':
      return celBool;
    case 'integer':
      return celInt;
    case 'number':
      return celDouble;
    case 'array': {
      const items = places.flatMap((place) => (place['items'] === undefined || place['prefixItems'] !== undefined ? [] : [place['items']]));
      return celList(items.length === 1 ? elementType(root, items[0]!, `${name}_item`, open) : celDyn, mostOf(root, schema, 'maxItems'));
    }
    case 'object':
      return objectType(root, places, name, open, begun);
    default:
      return celDyn;
  }
}

/** Null cannot be absent from a list, so elements that may be null are `dyn`. */
function elementType(root: JsonObject, schema: Json, name: string, open: ReadonlySet<JsonObject>): CelType {
  return inPlaceSchemas(root, schema).some((place) => typesOf(place).includes('null')) ? celDyn : celTypeOf(root, schema, name, open);
}

function objectType(
  root: JsonObject,
  places: readonly JsonObject[],
  name: string,
  open: ReadonlySet<JsonObject>,
  begun: (type: CelType) => void,
): CelType {
  const named = places.flatMap(({ properties }) => (isSchemaObject(properties) ? Object.entries(properties) : []));
  const others = places.map((place) => place['additionalProperties']).filter(isSchemaObject);
  if (named.length === 0 && others.length === 1) {
    return celMap(elementType(root, others[0]!, `${name}_member`, open), { maxItems: mostOf(root, places[0], 'maxProperties') });
  }
  const fields = new Map<string, CelType>();
  const type = celClass(name, fields);
  begun(type);
  for (const [field, schema] of named) {
    const member = celTypeOf(root, schema, `${name}_${field.replace(/\W/g, '_')}`);
    const known = fields.get(field);
    fields.set(field, !known ? member : known.name === member.name ? unbounded(member) : celDyn);
  }
  return type;
}

/** What several alternatives say of one member is bounded by none of them alone. */
function unbounded(type: CelType): CelType {
  if (type.values) return celString;
  if (type.maxItems === undefined) return type;
  return type.name.startsWith('list<') ? celList(type.parts[0]!) : celMap(type.parts[0]!);
}

/** The schemas that a value must satisfy all at once: alternatives are none of them. */
function together(root: JsonObject, schema: Json | undefined, seen = new Set<JsonObject>()): JsonObject[] {
  if (!isSchemaObject(schema) || seen.has(schema)) return [];
  seen.add(schema);
  const { allOf, $ref: ref } = schema;
  const parts = [...(Array.isArray(allOf) ? allOf : []), ...(ref === undefined ? [] : [resolve(root, ref)])];
  return [schema, ...parts.flatMap((part) => together(root, part, seen))];
}

function mostOf(root: JsonObject, schema: Json | undefined, keyword: 'maxItems' | 'maxProperties'): number | undefined {
  const bounds = together(root, schema).flatMap((part) => (typeof part[keyword] === 'number' ? [part[keyword]] : []));
  return bounds.length === 0 ? undefined : Math.min(...bounds);
}

function valuesOf(root: JsonObject, schema: Json | undefined): ReadonlySet<string> | undefined {
  const [first, ...others] = together(root, schema).flatMap((part) =>
    Object.hasOwn(part, 'const') ? [new Set([part['const']])] : Array.isArray(part['enum']) ? [new Set(part['enum'])] : [],
  );
  return first && new Set([...first].filter((value) => typeof value === 'string' && others.every((other) => other.has(value))) as string[]);
}

function kindsOf(places: readonly JsonObject[]): Set<Kind> {
  const kinds = new Set(places.flatMap(typesOf).filter((type) => type !== 'null')) as Set<Kind>;
  if (kinds.has('number')) kinds.delete('integer');
  return kinds;
}

function typesOf(place: JsonObject): string[] {
  const { type } = place;
  if (typeof type === 'string') return [type];
  if (Array.isArray(type)) return type as string[];
  const values = Object.hasOwn(place, 'const') ? [place['const']!] : Array.isArray(place['enum']) ? place['enum'] : null;
  if (values) return values.map(jsonType);
  return isSchemaObject(place['properties']) ? ['object'] : place['items'] === undefined ? [] : ['array'];
}

function jsonType(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value === 'number' ? (Number.isInteger(value) ? 'integer' : 'number') : typeof value;
}

/** What an expression gave, as JSON. @throws TypeError for an integer that JSON cannot carry exactly, and for times and types. */
export function encode(value: unknown): Json {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      if (Number.isFinite(value)) return value;
      break;
    case 'bigint':
      if (Number.isSafeInteger(Number(value))) return Number(value);
      break;
    case 'object': {
      if (value === null) return null;
      if (value instanceof Decimal) return value.toString();
      const { [origin]: given } = value as Decoded;
      if (given !== undefined) return given;
      if (Array.isArray(value)) return value.map(encode);
      if (value instanceof Map) return Object.fromEntries([...value].map(([name, member]) => [String(name), encode(member)]));
      if (Object.getPrototypeOf(value) === Object.prototype)
        return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, encode(member)]));
    }
  }
  throw new TypeError('the value has no exact form in JSON');
}
