/**
 * The kinds of values that a setting can have: as TypeBox schemas of the text that people write, each with what the text
 * means. `Duration` and `Size` exist in types only; read, both are numbers whose name says the unit.
 */
import { type TSchema, type TUnsafe, Type } from '@sinclair/typebox';

declare const unit: unique symbol;
export interface Duration { [unit]: 'ms' }
export interface Size { [unit]: 'bytes' }

/** How a setting is read; under a symbol, so that it is no part of the published schema. */
export const meaning = Symbol('meaning');
export interface Meaning {
  kind: 'duration' | 'size' | 'number' | 'boolean' | 'choice' | 'text' | 'path';
  /** Completes "must be …". */
  expected: string;
  /** Its value is never shown, not even when it is wrong. */
  secret?: boolean;
  /** In milliseconds or bytes; bounds of numbers are in their schema. */
  range?: { min: number; max: number };
}

export function meaningOf(schema: TSchema): Meaning {
  return (schema as TSchema & { [meaning]: Meaning })[meaning];
}

const durationUnits = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const sizeUnits = { B: 1, KiB: 1_024, MiB: 1_048_576, GiB: 1_073_741_824 } as const;

/** The number of milliseconds or bytes, or NaN for text without a known unit. */
export function measure(kind: 'duration' | 'size', text: string): number {
  const units: Readonly<Record<string, number>> = kind === 'duration' ? durationUnits : sizeUnits;
  const [, count, name] = /^(\d{1,9})([A-Za-z]+)$/.exec(text) ?? [];
  return Number(count) * (units[name ?? ''] ?? Number.NaN);
}

function measured<T>(kind: 'duration' | 'size', fallback: string, description: string, [min, max]: [string, string]): TUnsafe<T> {
  const units = Object.keys(kind === 'duration' ? durationUnits : sizeUnits);
  return Type.Unsafe<T>(Type.String({
    pattern: `^\\d{1,9}(${units.join('|')})$`, default: fallback, description: `${description} From ${min} to ${max}.`,
    [meaning]: {
      kind, expected: `a ${kind} with its unit (${units.join(', ')}) from ${min} to ${max}, for instance ${fallback}`,
      range: { min: measure(kind, min), max: measure(kind, max) },
    },
  }));
}

export const duration = (fallback: string, description: string, range: [string, string]): TUnsafe<Duration> =>
  measured('duration', fallback, description, range);

export const size = (fallback: string, description: string, range: [string, string]): TUnsafe<Size> =>
  measured('size', fallback, description, range);

export function integer(fallback: number, description: string, [minimum, maximum]: [number, number]) {
  return Type.Integer({
    minimum, maximum, default: fallback, description: `${description} From ${minimum} to ${maximum}.`,
    [meaning]: { kind: 'number', expected: `a whole number from ${minimum} to ${maximum}` },
  });
}

export function fraction(fallback: number, description: string) {
  return Type.Number({
    minimum: 0, maximum: 1, default: fallback, description: `${description} From 0 to 1.`,
    [meaning]: { kind: 'number', expected: 'a number from 0 to 1' },
  });
}

export function flag(fallback: boolean, description: string) {
  return Type.Boolean({ default: fallback, description, [meaning]: { kind: 'boolean', expected: 'true or false' } });
}

export function choice<const T extends string>(choices: readonly T[], fallback: NoInfer<T>, description: string): TUnsafe<T> {
  return Type.Unsafe<T>(Type.Union(choices.map((value) => Type.Literal(value)), {
    default: fallback, description: `${description} One of ${choices.map((value) => `\`${value}\``).join(', ')}.`,
    [meaning]: { kind: 'choice', expected: `one of ${choices.join(', ')}` },
  }));
}

export function text(fallback: string, description: string) {
  return Type.String({ minLength: 1, default: fallback, description, [meaning]: { kind: 'text', expected: 'text' } });
}

/** Relative to the folder of the file that says it, or to the working folder. */
export function path(fallback: string, description: string) {
  return Type.String({ minLength: 1, default: fallback, description, [meaning]: { kind: 'path', expected: 'a path' } });
}

/** Text that may be absent. */
export function optional(description: string, text: { pattern?: string }, how: Omit<Meaning, 'kind'> & { kind?: 'text' | 'path' }) {
  return Type.Union([Type.Null(), Type.String({ minLength: 1, ...text })], { default: null, description, [meaning]: { kind: 'text', ...how } });
}
