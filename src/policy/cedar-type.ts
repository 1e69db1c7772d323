/**
 * The Cedar type of what a JSON Schema describes, or why there is none. Sound rather than complete: a value that the schema admits always
 * has the form that cedar-values.ts gives it by this type, so that a policy that is valid against it cannot fail when it is asked.
 *
 *   integer                     Long
 *   number                      decimal          with more than four decimal places there is no exact form, and the call is denied
 *   string                      String
 *   boolean                     Bool
 *   array of one such type      Set              order and repeats are lost, nulls are left out
 *   object with named members   Record           what may be absent or null is optional; members that are not named are left out
 *
 * Without a Cedar type: several types at once, members under any name, a list whose items are not described, a schema within itself, and
 * members that only an alternative (`anyOf`, `oneOf`, `then`, `else`) declares.
 */
import { inPlaceSchemas, isSchemaObject, resolve } from '../contract/schema-subset.js';
import type { Json, JsonObject } from '../model.js';

export type CedarType =
  | { readonly kind: 'Long' | 'decimal' | 'String' | 'Bool' }
  | { readonly kind: 'Set'; readonly element: CedarType }
  | RecordType;

export interface RecordType {
  readonly kind: 'Record';
  readonly members: ReadonlyMap<string, { readonly type: CedarType; readonly required: boolean }>;
  /** What was left out at this place, with the reason. */
  readonly leftOut: ReadonlyMap<string, string>;
}

export const cedarString: CedarType = { kind: 'String' };
export const cedarBool: CedarType = { kind: 'Bool' };
export const cedarStrings: CedarType = { kind: 'Set', element: cedarString };

export function record(members: Record<string, CedarType>, leftOut: ReadonlyMap<string, string> = new Map()): RecordType {
  return { kind: 'Record', members: new Map(Object.entries(members).map(([name, type]) => [name, { type, required: true }])), leftOut };
}

/** Of an object: the arguments of a tool, or a result. Null where the schema admits anything but an object. */
export function recordOf(schema: JsonObject): RecordType | null {
  const types = possible(schema, schema);
  return types.size === 1 && types.has('object') ? memberTypes(schema, schema, outermost()) : null;
}

/** What is around a place, and how many places may still be looked at: definitions that are used in one another multiply. */
interface Around { readonly schemas: ReadonlySet<Json>; readonly left: { places: number } }

const mostPlaces = 5_000;
const outermost = (): Around => ({ schemas: new Set(), left: { places: mostPlaces } });

/** Of a value at any place; a text says why it has none. */
function cedarTypeOf(root: JsonObject, schema: Json | undefined, open: Around = outermost()): CedarType | string {
  if (!isSchemaObject(schema)) return 'its schema describes nothing';
  if (open.schemas.has(schema)) return 'its schema contains itself';
  if (--open.left.places < 0) return `its schema describes more than ${mostPlaces} places`;
  const types = possible(root, schema);
  types.delete('null');
  if (types.has('number')) types.delete('integer');
  const [only] = types;
  if (types.size !== 1 || only === undefined) return types.size === 0 ? 'no value satisfies its schema' : `it may be ${[...types].sort().join(' or ')}`;
  const inner: Around = { schemas: new Set([...open.schemas, schema]), left: open.left };
  switch (only) {
    case 'integer': return { kind: 'Long' };
    case 'number': return { kind: 'decimal' };
    case 'string': return cedarString;
    case 'boolean': return cedarBool;
    case 'array': return setOf(root, schema, inner);
    default: return objectOf(root, schema, inner);
  }
}

function setOf(root: JsonObject, schema: JsonObject, open: Around): CedarType | string {
  const places = together(root, schema);
  if (places.some((place) => place['prefixItems'] !== undefined)) return 'its items are described by their position';
  const items = places.find((place) => isSchemaObject(place['items']))?.['items'];
  if (items === undefined) return 'its items are not described';
  const element = cedarTypeOf(root, items, open);
  return typeof element === 'string' ? `of its items ${element}` : { kind: 'Set', element };
}

function objectOf(root: JsonObject, schema: JsonObject, open: Around): CedarType | string {
  const found = memberTypes(root, schema, open);
  return found.members.size === 0 && found.leftOut.size === 0 ? 'its members are not named' : found;
}

function memberTypes(root: JsonObject, schema: JsonObject, open: Around): RecordType {
  const always = together(root, schema);
  const required = new Set(always.flatMap((place) => (Array.isArray(place['required']) ? (place['required'] as string[]) : [])));
  const members = new Map<string, { type: CedarType; required: boolean }>();
  const leftOut = new Map<string, string>();
  for (const place of always) {
    for (const [name, member] of propertiesOf(place)) {
      if (members.has(name)) continue;
      const type = reserved.test(name) ? 'Cedar reserves its name' : cedarTypeOf(root, member, open);
      if (typeof type === 'string') leftOut.set(name, type);
      else members.set(name, { type, required: required.has(name) && !possible(root, member).has('null') });
    }
  }
  for (const place of inPlaceSchemas(root, schema)) {
    for (const [name] of propertiesOf(place)) if (!members.has(name) && !leftOut.has(name)) leftOut.set(name, 'only an alternative of the schema declares it');
  }
  for (const name of members.keys()) leftOut.delete(name);
  return { kind: 'Record', members, leftOut };
}

/** Cedar's JSON form gives members of these names a meaning of their own. */
export const reserved = /^__(entity|extn|expr|cedar)/;

function propertiesOf({ properties }: JsonObject): [string, Json][] {
  return isSchemaObject(properties) ? Object.entries(properties) : [];
}

/** The schemas that a value must satisfy all at once. */
function together(root: JsonObject, schema: Json | undefined, seen = new Set<Json>()): JsonObject[] {
  if (!isSchemaObject(schema) || seen.has(schema)) return [];
  seen.add(schema);
  const { allOf, $ref: ref } = schema;
  const parts = [...(Array.isArray(allOf) ? allOf : []), ...(ref === undefined ? [] : [resolve(root, ref)])];
  return [schema, ...parts.flatMap((part) => together(root, part, seen))];
}

const every = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'] as const;
type Kind = (typeof every)[number];

/** Every type that a value of this schema can have, and perhaps more. */
function possible(root: JsonObject, schema: Json | undefined, open: ReadonlySet<Json> = new Set()): Set<Kind> {
  if (schema === false) return new Set();
  if (!isSchemaObject(schema) || open.has(schema)) return new Set(every);
  const inner = new Set([...open, schema]);
  const of = (part: Json | undefined): Set<Kind> => possible(root, part, inner);
  let types = ownTypes(schema);
  const keep = (others: Set<Kind>): void => {
    types = new Set([...types].filter((type) => others.has(type)));
  };
  if (schema['$ref'] !== undefined) keep(of(resolve(root, schema['$ref'])));
  if (Array.isArray(schema['allOf'])) for (const part of schema['allOf']) keep(of(part));
  for (const keyword of ['anyOf', 'oneOf']) if (Array.isArray(schema[keyword])) keep(new Set(schema[keyword].flatMap((part) => [...of(part)])));
  return types;
}

function ownTypes(schema: JsonObject): Set<Kind> {
  const { type } = schema;
  const declared = type === undefined ? [...every] : ([] as Json[]).concat(type);
  const admitted = new Set((declared.includes('number') ? [...declared, 'integer'] : declared) as Kind[]);
  const values = Object.hasOwn(schema, 'const') ? [schema['const']!] : Array.isArray(schema['enum']) ? schema['enum'] : null;
  return values ? new Set(values.map(kindOf).filter((kind) => admitted.has(kind))) : admitted;
}

function kindOf(value: Json): Kind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value as Kind;
}
