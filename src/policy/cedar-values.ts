/**
 * JSON as Cedar reads it, by the types of cedar-type.ts. Cedar's own JSON form gives meaning to some members (`__entity` becomes a
 * reference to an entity, `__extn` a call of an extension), so text that a model or an upstream wrote must never reach it unconverted:
 * `{"__entity": …}` in an argument would otherwise compare equal to a real user. Only members that the type names are passed.
 */
import type { Json, JsonObject } from '../model.js';
import type { CedarType, RecordType } from './cedar-type.js';

export type CedarValue = boolean | number | string | CedarValue[] | CedarRecord | { __extn: { fn: 'decimal'; arg: string } };
export type CedarRecord = { [name: string]: CedarValue };

/** A value that has no exact form in Cedar; the decision is a denial. */
export class UnrepresentableValue extends Error {
  constructor(path: string, why: string) {
    super(`${path} ${why}`);
    this.name = 'UnrepresentableValue';
  }
}

/**
 * @param only the members to convert; the others are neither passed nor looked at
 * @throws UnrepresentableValue for a number without an exact form, and for what is not of its type
 */
export function toCedarRecord(path: string, object: JsonObject, { members }: RecordType, only: ReadonlySet<string> | 'all' = 'all'): CedarRecord {
  const converted: [string, CedarValue][] = [];
  for (const [name, { type }] of members) {
    if (only !== 'all' && !only.has(name)) continue;
    const value = Object.hasOwn(object, name) ? object[name] : undefined;
    if (value !== undefined && value !== null) converted.push([name, toCedarValue(`${path}.${name}`, value, type)]);
  }
  // fromEntries defines own members, so that `__proto__` stays data
  return Object.fromEntries(converted);
}

function toCedarValue(path: string, value: Exclude<Json, null>, type: CedarType): CedarValue {
  switch (type.kind) {
    case 'Long':
      if (Number.isSafeInteger(value)) return value as number;
      break;
    case 'decimal':
      if (typeof value === 'number') return toDecimal(path, value);
      break;
    case 'String':
      if (typeof value === 'string') return value;
      break;
    case 'Bool':
      if (typeof value === 'boolean') return value;
      break;
    case 'Set':
      if (Array.isArray(value)) return value.flatMap((item, index) => (item === null ? [] : [toCedarValue(`${path}[${index}]`, item, type.element)]));
      break;
    case 'Record':
      if (typeof value === 'object' && !Array.isArray(value)) return toCedarRecord(path, value, type);
  }
  throw new UnrepresentableValue(path, `is no ${type.kind}`);
}

const decimalPlaces = /^-?\d+\.\d{1,4}$/;
/** Of Cedar's decimal, in whole units. */
const decimalMost = 9e14;

function toDecimal(path: string, value: number): CedarValue {
  const text = Number.isInteger(value) ? `${value}.0` : String(value);
  if (!decimalPlaces.test(text) || Math.abs(value) >= decimalMost) throw new UnrepresentableValue(path, 'has no exact form with four decimal places');
  return { __extn: { fn: 'decimal', arg: text } };
}
