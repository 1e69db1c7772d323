/** What is wrong with arguments, said so that a model can mend it: pointer, code, expected, nearest allowed name. */
import type { ErrorObject } from 'ajv/dist/2020.js';
import type { FieldError, Json, JsonObject } from '../model.js';
import { nearest } from './nearest.js';
import { toPointer } from './pointer.js';
import { inPlaceSchemas, isSchemaObject } from './schema-subset.js';

/** A model mends a few errors at a time; more only fills its context. */
const maxFieldErrors = 20;
/** Of names that are told, and of names that a misspelt one is compared with: a long enumeration must neither fill an answer nor hold up the others. */
const maxNamesTold = 50;
const maxNamesCompared = 200;

export function fieldErrors(root: JsonObject, errors: readonly ErrorObject[]): FieldError[] {
  const found = new Map<string, FieldError>();
  for (const error of errors) {
    const described = describe(root, error);
    if (described) found.set(`${described.pointer}\n${described.code}`, described);
    if (found.size === maxFieldErrors) break;
  }
  return [...found.values()];
}

function describe(root: JsonObject, { keyword, instancePath, params, parentSchema, data, message }: ErrorObject): FieldError | null {
  const member = (name: unknown): string => instancePath + toPointer([String(name)]);
  switch (keyword) {
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const name = String(params['additionalProperty'] ?? params['unevaluatedProperty']);
      const allowed = memberNames(root, parentSchema as JsonObject);
      return withNearest(
        { pointer: member(name), code: 'unknown_argument', message: 'there is no such argument', expected: allowed.slice(0, maxNamesTold) },
        name,
        allowed,
      );
    }
    case 'required':
      return { pointer: member(params['missingProperty']), code: 'required', message: 'is missing' };
    case 'dependentRequired':
      return { pointer: member(params['missingProperty']), code: 'required', message: `is needed together with \`${params['property']}\`` };
    case 'type':
      return {
        pointer: instancePath,
        code: 'type',
        message: `must be ${typeNames(params['type'])}, and is ${typeOf(data)}`,
        expected: params['type'] as Json,
      };
    case 'exactInteger':
      return { pointer: instancePath, code: 'integer_precision', message: 'is too large to be carried exactly' };
    case 'enum': {
      const allowed = params['allowedValues'] as Json[];
      const error: FieldError = { pointer: instancePath, code: 'enum', message: 'must be one of the allowed values', expected: allowed.slice(0, maxNamesTold) };
      return typeof data === 'string'
        ? withNearest(
            error,
            data,
            allowed.filter((value) => typeof value === 'string'),
          )
        : error;
    }
    case 'propertyNames':
    case 'if':
      return null;
    default:
      return { pointer: instancePath, code: snakeCase(keyword), message: message ?? 'does not satisfy the schema', ...limit(params) };
  }
}

function withNearest(error: FieldError, name: string, allowed: readonly string[]): FieldError {
  const close = allowed.length <= maxNamesCompared ? nearest(name, allowed) : undefined;
  return close === undefined ? error : { ...error, nearest: close };
}

function memberNames(root: JsonObject, schema: JsonObject): string[] {
  const names = inPlaceSchemas(root, schema).flatMap(({ properties }) => (isSchemaObject(properties) ? Object.keys(properties) : []));
  return [...new Set(names)];
}

function limit(params: Record<string, unknown>): { expected?: Json } {
  const expected = params['limit'] ?? params['pattern'] ?? params['format'] ?? params['allowedValue'] ?? params['multipleOf'];
  return expected === undefined ? {} : { expected: expected as Json };
}

function typeNames(types: string | string[]): string {
  return ([] as string[]).concat(types).map(article).join(' or ');
}

function typeOf(value: unknown): string {
  return value === null ? 'null' : article(Array.isArray(value) ? 'array' : typeof value);
}

function article(type: string): string {
  return type === 'null' ? type : `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`;
}

function snakeCase(keyword: string): string {
  return keyword.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
