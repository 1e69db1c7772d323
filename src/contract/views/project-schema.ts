/** A schema of arguments as one provider accepts it. It admits at least what the schema admits; what it leaves out is told. */
import type { Json, JsonObject } from '../../model.js';
import { type Path, toPointer } from '../pointer.js';
import { isSchemaObject } from '../schema-subset.js';
import type { Subset } from './dialects.js';
import { type Keyword, type Lost, type Part, type Place, type Reading, readPlace, typeOf, unclosed } from './place.js';
import { inWords } from './words.js';

/** Still enforced by the gateway, and not said to the model, or said in words alone. `pointer` leads into `input_schema`. */
export interface Dropped {
  pointer: string;
  keyword: string;
  why: string;
}

export type Projected = { ok: true; schema: JsonObject; dropped: Dropped[] } | { ok: false; pointer: string; why: string };

/** A schema that unfolds to more than this helps no model, and references in references unfold without bound. */
const maxPlaces = 2000;

export function projectSchema(root: JsonObject, subset: Subset): Projected {
  const dropped = new Map<string, Dropped>();
  const lost: Lost = (path, keyword, why) => {
    const pointer = toPointer(path);
    if (!dropped.has(`${pointer} ${keyword}`)) dropped.set(`${pointer} ${keyword}`, { pointer, keyword, why });
  };
  try {
    const schema = new Projection(subset, lost).position({ schema: root, path: [] }, { root, above: [], lost });
    return { ok: true, schema, dropped: [...dropped.values()] };
  } catch (thrown) {
    if (!(thrown instanceof Unfit)) throw thrown;
    return { ok: false, pointer: toPointer(thrown.path), why: thrown.message };
  }
}

/** This place cannot be said in the subset, whatever is left out of it. */
class Unfit extends Error {
  constructor(
    readonly path: Path,
    why: string,
  ) {
    super(why);
  }
}

type Keywords = ReadonlyMap<string, Keyword>;

const keywordsOf: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  array: ['minItems', 'maxItems', 'uniqueItems', 'contains', 'minContains', 'maxContains'],
  object: ['minProperties', 'maxProperties', 'propertyNames', 'dependentRequired'],
};
const annotations = ['title', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'];

class Projection {
  private places = 0;

  constructor(
    private readonly subset: Subset,
    private readonly lost: Lost,
  ) {}

  position(part: Part, outer: Reading): JsonObject {
    if (++this.places > maxPlaces) throw new Unfit(part.path, `the schema unfolds to more than ${maxPlaces} places`);
    const { place, reading } = readPlace(part, outer);
    if (place.never) throw new Unfit(place.path, 'no value is admitted here');
    if (place.union) return this.described(this.union(place.union, place.path, reading), place, []);
    if (place.types === null) return this.untyped(place, reading);
    return this.several(place, place.types, reading);
  }

  /** At least one of several schemas. */
  private union(parts: readonly Part[], path: Path, reading: Reading): JsonObject {
    const possible = parts.filter((part) => !readPlace(part, { ...reading, lost: () => undefined }).place.never);
    const projected = possible.map((part) => this.position(part, reading)).flatMap(alternatives);
    const schemas = this.withNull([...new Map(projected.map((schema) => [JSON.stringify(schema), schema])).values()], path);
    if (schemas.length === 0) throw new Unfit(path, 'no value is admitted here');
    return schemas.length === 1 ? schemas[0]! : { anyOf: schemas };
  }

  /** OpenAPI has no type of `null`: it makes another type nullable. */
  private withNull(schemas: JsonObject[], path: Path): JsonObject[] {
    const others = schemas.filter((schema) => schema['type'] !== 'NULL');
    if (others.length === schemas.length) return schemas;
    if (others.length === 0) throw new Unfit(path, '`null` alone is no type here');
    return others.map((schema, index) => (index === 0 ? { ...schema, nullable: true } : schema));
  }

  private untyped(place: Place, reading: Reading): JsonObject {
    if (this.subset.typed) throw new Unfit(place.path, 'the type of the value is not known');
    const { fields, words } = this.assertions(place, Object.values(keywordsOf).flat());
    if (place.members.size > 0 || place.closed) Object.assign(fields, this.object(place, reading));
    if (place.items) fields['items'] = this.union(place.items, place.path, reading);
    return this.described(fields, place, words);
  }

  private several(place: Place, types: readonly string[], reading: Reading): JsonObject {
    const { severalTypes } = this.subset;
    const real = types.filter((type) => type !== 'null');
    const nullable = real.length < types.length;
    const [only, ...more] = real;
    if (only === undefined) return this.typed(place, 'null', reading, 'null');
    if (more.length === 0) {
      if (!nullable) return this.typed(place, only, reading, only);
      if (severalTypes !== 'nullable') return this.typed(place, only, reading, [only, 'null']);
      return { ...this.typed(place, only, reading, only), nullable: true };
    }
    if (severalTypes === 'list') {
      return Object.assign({}, ...real.map((type) => this.typed(place, type, reading, [...types]))) as JsonObject;
    }
    const each = real.map((type) => this.typed({ ...place, own: withoutAnnotations(place.own) }, type, reading, type));
    if (nullable && severalTypes === 'null') each.push({ type: 'null' });
    if (nullable && severalTypes === 'nullable') each[0] = { ...each[0], nullable: true };
    return this.described({ anyOf: each }, place, []);
  }

  /** @param written the member `type`. */
  private typed(place: Place, type: string, reading: Reading, written: Json): JsonObject {
    const { fields, words } = this.assertions(place, keywordsOf[type === 'integer' ? 'number' : type] ?? [], type);
    const schema: JsonObject = { type: this.subset.severalTypes === 'nullable' ? String(written).toUpperCase() : written, ...fields };
    if (type === 'object') Object.assign(schema, place.cut ? this.cut(place) : this.object(place, reading));
    if (type === 'array') schema['items'] = this.items(place, reading);
    return this.described(schema, place, words);
  }

  private cut(place: Place): JsonObject {
    if (this.subset.strict || this.subset.namedMembers) throw new Unfit(place.path, 'the schema is part of itself');
    return {};
  }

  private items({ items, path }: Place, reading: Reading): JsonObject {
    if (items) return this.union(items, path, reading);
    if (this.subset.typed) throw new Unfit(path, 'nothing is known of the items');
    return {};
  }

  private object(place: Place, reading: Reading): JsonObject {
    const { subset } = this;
    const properties: JsonObject = {};
    let whole = true;
    for (const [name, parts] of place.members) {
      if (parts.every((part) => part.schema === false)) continue;
      try {
        if (subset.memberNames?.test(name) === false) throw new Unfit(parts[0]!.path, `a member cannot be named \`${name}\``);
        Object.defineProperty(properties, name, {
          value: this.union(parts, place.path, reading),
          enumerable: true,
          writable: true,
          configurable: true,
        });
      } catch (thrown) {
        if (!(thrown instanceof Unfit) || place.required.has(name) || subset.strict || this.places > maxPlaces) throw thrown;
        this.lost(thrown.path, 'properties', `the optional member is left out: ${thrown.message}`);
        whole = false;
      }
    }
    const names = Object.keys(properties);
    if (subset.namedMembers && names.length === 0 && place.path.length > 0)
      throw new Unfit(place.path, 'an object has to name its members');
    const required = [...place.required].filter((name) => names.includes(name));
    if (required.length < place.required.size) this.lost(place.path, 'required', 'a member that nothing describes is required');
    if (subset.strict && required.length < names.length) throw new Unfit(place.path, 'not every member is required');
    return { properties, ...(required.length > 0 || subset.strict ? { required } : {}), ...this.openness(place, whole, reading) };
  }

  private openness(place: Place, whole: boolean, reading: Reading): JsonObject {
    const { openness, strict } = this.subset;
    if (place.closed && whole && openness !== 'unsaid') return { additionalProperties: false };
    if (strict) throw new Unfit(place.path, 'the object is not closed');
    if (place.closed) this.lost(place.path, 'additionalProperties', unclosed);
    if (!place.rest) return {};
    try {
      // Under the name of a member that was left out anything has to be admitted.
      if (openness === 'schema' && whole) return { additionalProperties: this.position(place.rest, reading) };
    } catch (thrown) {
      if (!(thrown instanceof Unfit) || this.places > maxPlaces) throw thrown;
    }
    this.lost(place.path, 'additionalProperties', 'what further members look like is not said');
    return {};
  }

  /** What the subset has of the assertions that concern a type, and in words what it has not. */
  private assertions({ own, types }: Place, concerning: readonly string[], type?: string): { fields: JsonObject; words: string[] } {
    const fields: JsonObject = {};
    const words: string[] = [];
    for (const [keyword, { value, path }] of own) {
      if (keyword === 'description' || (annotations.includes(keyword) && !this.subset.keywords.has(keyword))) continue;
      if (
        (keyword === 'enum' || keyword === 'const') &&
        this.enumerate(fields, keyword, value, type, types?.length === 2 && types.includes('null'))
      )
        continue;
      if (!concerning.includes(keyword) && !general.includes(keyword)) continue;
      // An exclusive bound that became a tighter inclusive one stays.
      if (this.carries(keyword, value)) fields[keyword] ??= value;
      else if (!loosen(fields, own, keyword, value, type)) {
        const said = inWords(keyword, value);
        if (said) words.push(said);
        this.lost(path, keyword, said ? 'not part of what the provider accepts; said in words' : 'not part of what the provider accepts');
      }
    }
    return { fields, words };
  }

  private carries(keyword: string, value: Json): boolean {
    if (!this.subset.keywords.has(keyword) || keyword === 'enum') return false;
    if (keyword === 'format') return this.subset.formats?.has(String(value)) ?? true;
    return !mentionsReference(value);
  }

  /** False where the provider takes no such values. */
  private enumerate(fields: JsonObject, keyword: string, value: Json, type: string | undefined, nullable = false): boolean {
    if (keyword === 'const' && this.subset.keywords.has('const')) {
      fields['const'] = value;
      return true;
    }
    const all = keyword === 'const' ? [value] : (value as Json[]);
    const { severalTypes } = this.subset;
    const fits = (each: Json): boolean => isOf(each, String(type)) || (each === null && nullable && severalTypes === 'null');
    const fitting = severalTypes === 'list' || type === undefined ? all : all.filter(fits);
    if (this.subset.textEnums && (type !== 'string' || fitting.includes(''))) return type === 'null';
    if (fitting.length > 0) fields['enum'] = fitting;
    return true;
  }

  private described(schema: JsonObject, { own }: Place, words: readonly string[]): JsonObject {
    const text = [own.get('description')?.value, ...words].filter((each) => typeof each === 'string').join(' ');
    if (text === '') return schema;
    const { anyOf, ...others } = schema;
    if (!this.subset.loneUnions || !Array.isArray(anyOf)) return { ...schema, description: text };
    return { ...others, anyOf: anyOf.map((each, index) => (index === 0 && isSchemaObject(each) ? { description: text, ...each } : each)) };
  }
}

/** A union of unions is one union. */
function alternatives(schema: JsonObject): JsonObject[] {
  const { anyOf, ...others } = schema;
  return Array.isArray(anyOf) && Object.keys(others).length === 0 ? (anyOf as JsonObject[]) : [schema];
}

const general = ['enum', 'const', 'not', 'title', 'default'];

function isOf(value: Json, type: string): boolean {
  return typeOf(value) === type || (type === 'number' && typeof value === 'number');
}

function withoutAnnotations(own: Keywords): Keywords {
  return new Map([...own].filter(([keyword]) => keyword !== 'description' && !annotations.includes(keyword)));
}

/** Exclusive bounds as inclusive ones: of integers exactly, of other numbers not quite, which is then still to be told. */
function loosen(fields: JsonObject, own: Keywords, keyword: string, value: Json, type: string | undefined): boolean {
  if (keyword !== 'exclusiveMinimum' && keyword !== 'exclusiveMaximum') return false;
  const lower = keyword === 'exclusiveMinimum';
  const inclusive = lower ? 'minimum' : 'maximum';
  const bound = Number(value);
  const exact = type === 'integer';
  const converted = !exact ? bound : lower ? Math.floor(bound) + 1 : Math.ceil(bound) - 1;
  const present = own.get(inclusive)?.value;
  if (typeof present === 'number' && (lower ? present >= converted : present <= converted)) return exact || present !== bound;
  fields[inclusive] = converted;
  return exact;
}

function mentionsReference(value: Json): boolean {
  return typeof value === 'object' && value !== null && JSON.stringify(value).includes('"$ref"');
}
