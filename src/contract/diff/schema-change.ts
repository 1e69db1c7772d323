/**
 * Whether a changed schema admits more or fewer values than before, keyword by keyword. Arguments are closed, so an added
 * member widens them; a result is read by callers who skip what they do not know, so an added member narrows it. What is not
 * understood is `other`, and counts as both.
 */
import type { Json, JsonObject } from '../../model.js';
import { canonicalText } from '../../canonical.js';
import type { Path } from '../pointer.js';
import { isSchemaObject, resolve, subschemas, type Use } from '../schema-subset.js';

/** `same`: only what people read has changed. */
export type Relation = 'same' | 'narrower' | 'wider' | 'other';

export interface SchemaChange {
  path: Path;
  /** Undefined: it is not there. */
  old: Json | undefined;
  now: Json | undefined;
  relation: Relation;
}

export function schemaChanges(old: JsonObject, now: JsonObject, use: Use): SchemaChange[] {
  if (sameText(old, now)) return [];
  const changes = new Comparison(old, now, use).place([], old, now);
  // Only definitions that nothing refers to, or the way in which a reference is spelt.
  return changes.length > 0 ? changes : [{ path: ['$defs'], old: old['$defs'], now: now['$defs'], relation: 'same' }];
}

const annotations = new Set(['$schema', '$comment', 'title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly']);
/** With these, members are named in several places, and only their union is closed. */
const combining = ['$ref', 'allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'not'];
const opposite: Record<Relation, Relation> = { same: 'same', narrower: 'wider', wider: 'narrower', other: 'other' };

class Comparison {
  private readonly met = new Set<string>();
  /** For definitions that are combined with others: there, what was met before elsewhere has to be weighed again. */
  private readonly combined: Comparison;

  constructor(
    private readonly oldRoot: JsonObject,
    private readonly newRoot: JsonObject,
    private readonly use: Use,
    combined?: 'combined',
  ) {
    this.combined = combined ? this : new Comparison(oldRoot, newRoot, use, 'combined');
  }

  place(path: Path, old: Json, now: Json): SchemaChange[] {
    if (!isSchemaObject(old) || !isSchemaObject(now)) return old === now ? [] : [{ path, old, now, relation: ofBooleans(old, now) }];
    if (isReference(old) || isReference(now)) return this.referred(path, old, now);
    const keywords = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter((keyword) => keyword !== '$defs').sort();
    return keywords.flatMap((keyword) => this.keyword(path, keyword, old, now));
  }

  /** Follows references that stand alone. A pair that was met before is being compared already: cycles end here. */
  private referred(path: Path, old: JsonObject, now: JsonObject): SchemaChange[] {
    const pair = `${canonicalText(old)} ${canonicalText(now)}`;
    if (this.met.has(pair)) return [];
    this.met.add(pair);
    const follow = (root: JsonObject, schema: JsonObject): Json => (isReference(schema) ? (resolve(root, schema['$ref']!) ?? false) : schema);
    const texts = (schema: JsonObject): JsonObject => Object.fromEntries(Object.entries(schema).filter(([name]) => annotations.has(name)));
    const told = isReference(old) && isReference(now) ? this.place(path, texts(old), texts(now)) : [];
    return [...told, ...this.place(path, follow(this.oldRoot, old), follow(this.newRoot, now))];
  }

  private keyword(path: Path, keyword: string, oldSchema: JsonObject, newSchema: JsonObject): SchemaChange[] {
    const [old, now] = [oldSchema[keyword], newSchema[keyword]];
    const below = [...path, keyword];
    if (annotations.has(keyword)) return sameText(old, now) ? [] : [{ path: below, old, now, relation: 'same' }];
    switch (keyword) {
      case 'properties':
        return this.members(below, oldSchema, newSchema);
      case 'additionalProperties':
        if (!isCombined(oldSchema) && !isCombined(newSchema)) return this.place(below, this.unnamed(oldSchema), this.unnamed(newSchema));
        break;
      case 'items':
      case 'propertyNames':
        return this.place(below, old ?? true, now ?? true);
    }
    if (sameText(old, now)) return this.definitions(below, keyword, oldSchema);
    return [{ path: below, old, now, relation: relate(keyword, old, now) }];
  }

  private members(path: Path, oldSchema: JsonObject, newSchema: JsonObject): SchemaChange[] {
    const [old, now] = [membersOf(oldSchema), membersOf(newSchema)];
    const combined = isCombined(oldSchema) || isCombined(newSchema);
    return [...new Set([...Object.keys(old), ...Object.keys(now)])].sort().flatMap((name) => {
      const below = [...path, name];
      if (Object.hasOwn(old, name) && Object.hasOwn(now, name)) return this.place(below, old[name]!, now[name]!);
      const [before, after] = [own(old, name), own(now, name)];
      if (combined) return [{ path: below, old: before, now: after, relation: 'other' as const }];
      const changes = this.place(below, before ?? this.unnamed(oldSchema), after ?? this.unnamed(newSchema));
      // Named exactly as an unnamed one already was.
      return changes.length > 0 ? changes.map((change) => told(change, below, before, after)) : [{ path: below, old: before, now: after, relation: 'same' as const }];
    });
  }

  /** What a member that is not named has to be. One of a result is dropped before anybody sees it. */
  private unnamed(schema: JsonObject): Json {
    const declared = schema['additionalProperties'];
    if (isSchemaObject(declared)) return declared;
    return this.use === 'result' || !['type', 'properties', ...combining].some((keyword) => Object.hasOwn(schema, keyword));
  }

  /** A keyword whose text is the same can mean something else when what it refers to has changed. */
  private definitions(path: Path, keyword: string, schema: JsonObject): SchemaChange[] {
    const value = schema[keyword]!;
    const inside = { [keyword]: value } as JsonObject;
    return [...references(inside)].flatMap((ref) =>
      this.combined.referred(path, { $ref: ref }, { $ref: ref }).map((change) => ({ ...change, relation: change.relation === 'same' ? 'same' : 'other' })),
    );
  }
}

/** At the member as a whole where one side does not name it. */
function told(change: SchemaChange, path: Path, old: Json | undefined, now: Json | undefined): SchemaChange {
  return change.path.length === path.length ? { ...change, old, now } : change;
}

function isReference(schema: JsonObject): boolean {
  return typeof schema['$ref'] === 'string' && Object.keys(schema).every((keyword) => keyword === '$ref' || annotations.has(keyword));
}

function isCombined(schema: JsonObject): boolean {
  return combining.some((keyword) => Object.hasOwn(schema, keyword));
}

function references(schema: Json, found = new Set<string>()): Set<string> {
  if (!isSchemaObject(schema)) return found;
  if (typeof schema['$ref'] === 'string') found.add(schema['$ref']);
  for (const below of subschemas(schema)) references(below.schema, found);
  return found;
}

function membersOf(schema: JsonObject): JsonObject {
  return isSchemaObject(schema['properties']) ? schema['properties'] : {};
}

function own(members: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined;
}

export function sameText(a: Json | undefined, b: Json | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && canonicalText(a) === canonicalText(b));
}

function ofBooleans(old: Json, now: Json): Relation {
  if (now === false || old === true) return 'narrower';
  if (now === true || old === false) return 'wider';
  return 'other';
}

type Related = (old: Json | undefined, now: Json | undefined) => Relation;

const least: Related = (old, now) => compareNumbers(now ?? -Infinity, old ?? -Infinity);
const most: Related = (old, now) => compareNumbers(old ?? Infinity, now ?? Infinity);
/** Any of these admits a value: more of them widen. */
const anyOfThese: Related = (old, now) => compareSets(old, now);
/** All of these are asked for: more of them narrow. */
const allOfThese: Related = (old, now) => opposite[compareSets(old ?? [], now ?? [])];
/** There or not; one condition is neither weaker nor stronger than another. */
const condition: Related = (old, now) => (old === undefined ? 'narrower' : now === undefined ? 'wider' : 'other');

const relations: Record<string, Related> = {
  type: (old, now) => compareSets(typesOf(old), typesOf(now)),
  enum: anyOfThese,
  anyOf: anyOfThese,
  required: allOfThese,
  minimum: least,
  exclusiveMinimum: least,
  minLength: least,
  minItems: least,
  minProperties: least,
  maximum: most,
  exclusiveMaximum: most,
  maxLength: most,
  maxItems: most,
  maxProperties: most,
  const: condition,
  pattern: condition,
  format: condition,
  multipleOf: condition,
  uniqueItems: (old, now) => (now === true ? 'narrower' : old === true ? 'wider' : 'same'),
};

function relate(keyword: string, old: Json | undefined, now: Json | undefined): Relation {
  return relations[keyword]?.(old, now) ?? 'other';
}

function compareNumbers(a: Json, b: Json): Relation {
  if (typeof a !== 'number' || typeof b !== 'number') return 'other';
  return a > b ? 'narrower' : a < b ? 'wider' : 'same';
}

/** An absent list admits everything. */
function compareSets(old: Json | undefined, now: Json | undefined): Relation {
  if (old === undefined || now === undefined) return old === now ? 'same' : now === undefined ? 'wider' : 'narrower';
  if (!Array.isArray(old) || !Array.isArray(now)) return 'other';
  const [before, after] = [new Set(old.map(canonicalText)), new Set(now.map(canonicalText))];
  const lost = [...before].some((item) => !after.has(item));
  const gained = [...after].some((item) => !before.has(item));
  return lost && gained ? 'other' : lost ? 'narrower' : gained ? 'wider' : 'same';
}

/** `number` stands for itself and for `integer`. */
function typesOf(type: Json | undefined): Json | undefined {
  if (type === undefined) return undefined;
  const types = Array.isArray(type) ? type : [type];
  return types.includes('number') ? [...types, 'integer'] : types;
}
