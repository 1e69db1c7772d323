/**
 * JSON as Cedar reads it. Cedar's own JSON form gives meaning to some members (`__entity` becomes a reference to an
 * entity, `__extn` a call of an extension), so text that a model or an upstream wrote must never reach it unconverted:
 * `{"__entity": …}` in an argument would otherwise compare equal to a real user.
 *
 *   null member       absent           an optional attribute is asked for with `has`
 *   safe integer      Long
 *   other number      decimal when it is exact with four places, else text: comparing that with a number is an error,
 *                     and an error denies, so an odd number never slips past a limit
 *   array             Set              order and repeats are lost, nulls are left out
 *   object            Record
 */
import type { Json, JsonObject } from '../model.js';

export type CedarValue = boolean | number | string | CedarValue[] | CedarRecord | { __extn: { fn: 'decimal'; arg: string } };
export type CedarRecord = { [name: string]: CedarValue };

/** A value that has no harmless form in Cedar; the decision is a denial. */
export class UnrepresentableValue extends Error {
  constructor(path: string, why: string) {
    super(`${path} ${why}`);
    this.name = 'UnrepresentableValue';
  }
}

const escapes = /^__(entity|extn|expr|cedar)/;
const decimalPlaces = /^-?\d+\.\d{1,4}$/;

/**
 * @param only the members to convert; the others are neither passed nor looked at
 * @throws UnrepresentableValue for a member name that Cedar gives a meaning of its own
 */
export function toCedarRecord(path: string, object: JsonObject, only: ReadonlySet<string> | 'all' = 'all'): CedarRecord {
  const members: [string, CedarValue][] = [];
  for (const [name, value] of Object.entries(object)) {
    if (value === null || (only !== 'all' && !only.has(name))) continue;
    if (escapes.test(name)) throw new UnrepresentableValue(path, `has a member named ${name}, which Cedar reserves`);
    members.push([name, toCedarValue(`${path}.${name}`, value)]);
  }
  // fromEntries defines own members, so that `__proto__` stays data
  return Object.fromEntries(members);
}

function toCedarValue(path: string, value: Exclude<Json, null>): CedarValue {
  if (typeof value === 'number') return toCedarNumber(value);
  if (Array.isArray(value)) {
    return value.filter((item) => item !== null).map((item, index) => toCedarValue(`${path}[${index}]`, item));
  }
  return typeof value === 'object' ? toCedarRecord(path, value) : value;
}

function toCedarNumber(value: number): CedarValue {
  if (Number.isSafeInteger(value)) return value;
  const text = String(value);
  return decimalPlaces.test(text) && Math.abs(value) < 9e14 ? { __extn: { fn: 'decimal', arg: text } } : text;
}
