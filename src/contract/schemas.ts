/** JSON Schemas of a contract, compiled once: arguments are checked exactly, results are cut to what is declared. */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import formatsPlugin from 'ajv-formats';
import type { FieldError, Json, JsonObject } from '../model.js';
import { parseStrict } from '../strict-json.js';
import { evidentlyAdmits } from './evident.js';
import { fieldErrors } from './field-errors.js';
import { linearPattern } from './linear-pattern.js';
import type { ArgumentsVerdict } from './plan.js';
import { fromPointer, type Path, valueAt } from './pointer.js';
import { canonicalText } from '../canonical.js';
import { admittedFormats, close, inPlaceSchemas, isSchemaObject, maxUniqueItems, subschemas } from './schema-subset.js';

/** Unwrapped text is not allowed to be deeper than a whole body (semantics.md section 10). */
const maxUnwrappedDepth = 32;
/** Each round uncovers at most one more level of text in text; every place is repaired once at most. */
const maxRepairRounds = 8;
/** In one round; a call with more text in the place of values than that is not a slip. */
const maxRepairs = 100;

/** One schema. Both are generated at their first use, and most calls need the verdict alone. */
export interface Validator {
  holds(value: Json): boolean;
  /** Everything that is wrong with a value that does not hold. */
  errors(value: Json): ErrorObject[];
}

export interface CompiledArguments {
  readonly schema: JsonObject;
  check(value: JsonObject): ArgumentsVerdict;
  /** The same verdict; generates nothing for a value that is evidently admitted. */
  checkOnce(value: JsonObject): ArgumentsVerdict;
}

export class InvalidSchema extends Error {
  constructor(message: string, readonly path: Path) {
    super(message);
  }
}

export class SchemaCompiler {
  private readonly verdicts = generator({ allErrors: false, messages: false });
  private readonly reasons = generator({ allErrors: true, verbose: true });

  /**
   * Checked now, generated later: a schema in which `schemaProblems` finds nothing and which the meta-schema admits can be generated.
   * @throws InvalidSchema with the place of what is not JSON Schema.
   */
  validator(schema: Json): Validator {
    const { verdicts, reasons } = this;
    if (verdicts.validateSchema(schema as object) !== true) {
      reasons.validateSchema(schema as object);
      throw new InvalidSchema(reasons.errorsText(reasons.errors?.slice(0, 1), { dataVar: 'it' }), fromPointer(reasons.errors?.[0]?.instancePath ?? ''));
    }
    let holds: ValidateFunction | undefined;
    let explains: ValidateFunction | undefined;
    return {
      holds: (value) => {
        holds ??= verdicts.compile(prepared(schema) as object);
        return holds(value) === true;
      },
      errors: (value) => {
        explains ??= reasons.compile(prepared(schema) as object);
        return explains(value) === true ? [] : (explains.errors ?? []);
      },
    };
  }

  /** @param schema the schema as it is written; the closed form is what gets compiled. */
  arguments(schema: JsonObject, coerce: 'none' | 'lossless'): CompiledArguments {
    const closed = close(schema) as JsonObject;
    const validator = this.validator(closed);
    const check = (value: JsonObject): ArgumentsVerdict => checkArguments(closed, validator, value, coerce);
    return { schema: closed, check, checkOnce: (value) => (evidentlyAdmits(closed, value) ? { ok: true, args: value, repaired: [] } : check(value)) };
  }

  result(schema: JsonObject): (value: Json) => { result: Json } | null {
    const validator = this.validator(schema);
    return (value) => {
      const result = project(schema, [schema], value);
      return validator.holds(result) ? { result } : null;
    };
  }
}

function generator(options: { allErrors: boolean; verbose?: boolean; messages?: boolean }): Ajv2020 {
  // `strictTypes` and its like are style rules; what must not be used is refused with its place by schema-subset.ts.
  const ajv = new Ajv2020({
    ...options,
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    allowUnionTypes: true,
    ownProperties: true,
    addUsedSchema: false,
    inlineRefs: false,
    validateSchema: false,
    // Its optimizer is half of the time it takes, and what it saves a check is too small to be measured.
    code: { optimize: false, regExp: Object.assign((pattern: string) => linearPattern(pattern), { code: 'linearPattern' }) },
  });
  formatsPlugin.default(ajv, { mode: 'full', formats: [...admittedFormats] as never });
  for (const name of admittedFormats) ajv.addFormat(name, bounded(ajv.formats[name] as FormatTest));
  // ajv compares every pair and does so beside a `maxItems` that has failed already: 64 KiB of items would stall the process.
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword({ keyword: 'uniqueItems', type: 'array', schemaType: 'boolean', validate: isUnique, errors: false });
  ajv.addKeyword({ keyword: exactKeyword, type: 'number', schemaType: 'boolean', validate: isExact, errors: false });
  return ajv;
}

type FormatTest = RegExp | ((text: string) => boolean) | { validate: RegExp | ((text: string) => boolean) };
/** The formats are JS patterns; the worst of them took 43 ms on 64,000 characters. Nothing of these kinds is longer than this. */
const maxFormattedLength = 4096;

function bounded(format: FormatTest): (text: string) => boolean {
  const test = typeof format === 'object' && 'validate' in format ? format.validate : format;
  return (text) => text.length <= maxFormattedLength && (test instanceof RegExp ? test.test(text) : test(text));
}

/** An item without a canonical form (half of a surrogate pair) is refused for that later; here it must only not be taken for unique. */
function isUnique(required: boolean, items: readonly Json[]): boolean {
  if (!required) return true;
  try {
    return items.length <= maxUniqueItems && new Set(items.map(canonicalText)).size === items.length;
  } catch {
    return false;
  }
}

const exactKeyword = 'exactInteger';
const isExact = (required: boolean, value: number): boolean => !required || !Number.isInteger(value) || Number.isSafeInteger(value);

let named = 0;

/**
 * Beyond ±(2^53 - 1) a JSON number may silently be another one, so wherever an integer is asked for it has to be exact. The name of its
 * own is for ajv, which finds the root that `$ref: "#"` means only in a schema that has one.
 */
function prepared(schema: Json): Json {
  if (!isSchemaObject(schema)) return schema;
  const copy: JsonObject = { ...structuredClone(schema), $id: `callgate:${++named}` };
  const walk = (node: Json): void => {
    if (!isSchemaObject(node)) return;
    const type = node['type'];
    if (type === 'integer' || (Array.isArray(type) && type.includes('integer'))) node[exactKeyword] = true;
    // ajv passes `contains` over for an empty list that `prefixItems` has looked at
    if (node['contains'] !== undefined) node['minItems'] = Math.max(Number(node['minItems'] ?? 0), Number(node['minContains'] ?? 1));
    for (const below of subschemas(node)) walk(below.schema);
  };
  walk(copy);
  return apart(copy);
}

/**
 * Alternatives and conditions behind a reference each. In place, ajv counts what a failed one names within combinations of its own as
 * evaluated, and a closed object would let an invented member through; what a reference leads to counts only when it holds.
 */
function apart(root: JsonObject): JsonObject {
  const named: JsonObject = {};
  const hoist = (schema: Json): Json => {
    if (!isSchemaObject(schema) || Object.keys(schema).join() === '$ref') return schema;
    const name = `-apart-${Object.keys(named).length}`;
    named[name] = schema;
    return { $ref: `#/$defs/${name}` };
  };
  const walk = (node: Json): void => {
    if (!isSchemaObject(node)) return;
    for (const below of subschemas(node)) walk(below.schema);
    for (const keyword of ['anyOf', 'oneOf']) if (Array.isArray(node[keyword])) node[keyword] = node[keyword].map(hoist);
    for (const keyword of ['if', 'then', 'else']) if (node[keyword] !== undefined) node[keyword] = hoist(node[keyword]);
  };
  walk(root);
  return { ...root, $defs: { ...(root['$defs'] as JsonObject | undefined), ...named } };
}

function checkArguments(schema: JsonObject, validator: Validator, given: JsonObject, coerce: 'none' | 'lossless'): ArgumentsVerdict {
  let args = given;
  const repaired: string[] = [];
  for (let round = 0; !validator.holds(args); round++) {
    const errors = validator.errors(args);
    const repairs = round < maxRepairRounds ? findRepairs(errors, args, coerce, repaired) : [];
    if (repairs.length === 0) return { ok: false, errors: fieldErrors(schema, errors) satisfies FieldError[] };
    args = structuredClone(args);
    for (const { pointer, value } of repairs) {
      replaceAt(args, pointer, value);
      repaired.push(pointer);
    }
  }
  return { ok: true, args, repaired };
}

/** Texts that stand where the schema wants another type, and excludes text, and that say such a value without loss. */
function findRepairs(
  errors: readonly ErrorObject[],
  args: JsonObject,
  coerce: 'none' | 'lossless',
  done: readonly string[],
): { pointer: string; value: Json }[] {
  const wanted = new Map<string, Set<string> | null>();
  for (const { instancePath, keyword, params } of errors) {
    if (keyword === 'anyOf' || keyword === 'oneOf') continue;
    const types = keyword === 'type' ? ([] as string[]).concat(params['type'] as string | string[]) : [];
    const known = wanted.get(instancePath);
    // An error other than of type means that some alternative takes text and found fault with this one: it stays as it is.
    const ambiguous = known === null || types.length === 0 || types.includes('string');
    wanted.set(instancePath, ambiguous ? null : new Set([...(known ?? []), ...types]));
  }
  return [...wanted].slice(0, maxRepairs).flatMap(([pointer, types]) => {
    const text = valueAt(args, fromPointer(pointer));
    if (types === null || typeof text !== 'string' || pointer === '' || done.includes(pointer)) return [];
    const value = unwrap(text, types) ?? (coerce === 'lossless' ? coerceLossless(text, types) : undefined);
    return value === undefined ? [] : [{ pointer, value }];
  });
}

function unwrap(text: string, types: ReadonlySet<string>): Json | undefined {
  if (!(types.has('object') || types.has('array'))) return undefined;
  const parsed = parseStrict(text, { maxDepth: maxUnwrappedDepth });
  if (!parsed.ok || typeof parsed.value !== 'object' || parsed.value === null) return undefined;
  return types.has(Array.isArray(parsed.value) ? 'array' : 'object') ? parsed.value : undefined;
}

/** Only a text that is exactly how the value would be written: not `05`, `1e3`, ` 7`, `-0` or `1.50`. */
function coerceLossless(text: string, types: ReadonlySet<string>): Json | undefined {
  const number = Number(text);
  if (types.has('integer') && /^(0|-?[1-9]\d*)$/.test(text)) return Number.isSafeInteger(number) ? number : undefined;
  if (types.has('number') && /^-?\d+(\.\d+)?$/.test(text) && String(number) === text) return number;
  return types.has('boolean') && (text === 'true' || text === 'false') ? text === 'true' : undefined;
}

function replaceAt(root: JsonObject, pointer: string, value: Json): void {
  const path = fromPointer(pointer);
  const parent = valueAt(root, path.slice(0, -1)) as Record<string, Json>;
  parent[path.at(-1)!] = value;
}

/** Keeps the members that one of the schemas of this place names. A schema that says nothing of members keeps all of them. */
function project(root: JsonObject, schemas: readonly Json[], value: Json): Json {
  if (typeof value !== 'object' || value === null) return value;
  const places = schemas.flatMap((schema) => inPlaceSchemas(root, schema));
  if (Array.isArray(value))
    return value.map((item, index) =>
      project(
        root,
        places.flatMap((place) => itemSchemas(place, index)),
        item,
      ),
    );
  if (!places.some((place) => 'type' in place || 'properties' in place || 'additionalProperties' in place)) return value;
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    const naming = places.flatMap((place) => memberSchemas(place, name));
    if (naming.length > 0) kept[name] = project(root, naming, member);
  }
  return kept;
}

function memberSchemas(place: JsonObject, name: string): Json[] {
  const properties = place['properties'];
  if (isSchemaObject(properties) && Object.hasOwn(properties, name)) return [properties[name]!];
  return isSchemaObject(place['additionalProperties']) ? [place['additionalProperties']] : [];
}

function itemSchemas(place: JsonObject, index: number): Json[] {
  const prefix = place['prefixItems'];
  if (Array.isArray(prefix) && index < prefix.length) return [prefix[index]!];
  return place['items'] === undefined ? [] : [place['items']];
}
