/**
 * Money that is no whole number of its smallest unit: exact decimals, each scale a type of its own, so that a sum of pounds and of tenths of
 * pence, or of a decimal and a float, is an error when the contract compiles. In JSON a decimal is its text, for instance `12.30`.
 */
import type { Environment } from '@marcbachmann/cel-js';

export const scales = [1, 2, 3, 4, 5, 6] as const;

export abstract class Decimal {
  abstract readonly scale: number;

  /** @param units of the last digit: 1230 is 12.30 at scale 2 */
  constructor(readonly units: bigint) {}

  toString(): string {
    const digits = String(this.units < 0n ? -this.units : this.units).padStart(this.scale + 1, '0');
    return `${this.units < 0n ? '-' : ''}${digits.slice(0, -this.scale)}.${digits.slice(-this.scale)}`;
  }
}

type DecimalClass = new (units: bigint) => Decimal;

/** The evaluator knows a type by the constructor of its values. */
const classes = new Map<number, DecimalClass>(
  scales.map((scale) => [
    scale,
    class extends Decimal {
      readonly scale = scale;
    },
  ]),
);

/** @throws RangeError for a text with more digits than the scale has, or that is no decimal. */
export function decimalFromText(text: string, scale: number): Decimal {
  const match = /^(-?)(\d{1,30})(?:\.(\d+))?$/.exec(text);
  const fraction = match?.[3] ?? '';
  if (!match || fraction.length > scale) throw new RangeError(`\`${text}\` is not a decimal with at most ${scale} digits behind the point`);
  const units = BigInt(match[2]! + fraction.padEnd(scale, '0'));
  return new (classes.get(scale)!)(match[1] === '-' ? -units : units);
}

/** The decimal nearest to the very number that the float stands for, as prices in JSON are meant: 3.759999999999991 is 3.76. */
function decimalFromDouble(value: number, scale: number): Decimal {
  if (!Number.isFinite(value) || Math.abs(value) >= 1e15) throw new RangeError(`\`${value}\` cannot be a decimal`);
  return decimalFromText(value.toFixed(scale), scale);
}

export function registerDecimals(env: Environment): void {
  for (const scale of scales) {
    const type = `decimal${scale}`;
    const ctor = classes.get(scale)!;
    const made = (units: bigint): Decimal => new ctor(units);
    env.registerType(type, { ctor: ctor as never, fields: {} });
    env
      .registerFunction(`${type}(string): ${type}`, (text: string) => decimalFromText(text, scale))
      .registerFunction(`${type}(int): ${type}`, (value: bigint) => made(value * 10n ** BigInt(scale)))
      .registerFunction(`${type}(double): ${type}`, (value: number) => decimalFromDouble(value, scale))
      .registerFunction(`sum(list<${type}>): ${type}`, (list: Decimal[]) => made(list.reduce((total, each) => total + each.units, 0n)))
      .registerOperator(`${type} + ${type}: ${type}`, (a: Decimal, b: Decimal) => made(a.units + b.units))
      .registerOperator(`${type} - ${type}: ${type}`, (a: Decimal, b: Decimal) => made(a.units - b.units))
      .registerOperator(`${type} * int: ${type}`, (a: Decimal, b: bigint) => made(a.units * b))
      .registerOperator(`int * ${type}: ${type}`, (a: bigint, b: Decimal) => made(a * b.units))
      .registerOperator(`-${type}: ${type}`, (a: Decimal) => made(-a.units))
      .registerOperator(`${type} == ${type}`, (a: Decimal, b: Decimal) => a.units === b.units)
      .registerOperator(`${type} < ${type}`, (a: Decimal, b: Decimal) => a.units < b.units)
      .registerOperator(`${type} <= ${type}`, (a: Decimal, b: Decimal) => a.units <= b.units)
      .registerOperator(`${type} > ${type}`, (a: Decimal, b: Decimal) => a.units > b.units)
      .registerOperator(`${type} >= ${type}`, (a: Decimal, b: Decimal) => a.units >= b.units);
  }
}
