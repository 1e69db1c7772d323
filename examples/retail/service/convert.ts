/** Temperatures in C, F and K; a pure tool, correct to 1e-9. */
import { refusal, type Answer } from './answer.js';

interface Scale { toCelsius(value: number): number; fromCelsius(celsius: number): number; absoluteZero: number }

const scales = new Map<string, Scale>([
  ['C', { toCelsius: (c) => c, fromCelsius: (c) => c, absoluteZero: -273.15 }],
  ['F', { toCelsius: (f) => ((f - 32) * 5) / 9, fromCelsius: (c) => (c * 9) / 5 + 32, absoluteZero: -459.67 }],
  ['K', { toCelsius: (k) => k - 273.15, fromCelsius: (c) => c + 273.15, absoluteZero: 0 }],
]);

export function convertTemperature(value: number, fromUnit: string, toUnit: string): Answer {
  const from = scales.get(fromUnit);
  const to = scales.get(toUnit);
  if (from === undefined || to === undefined) return refusal(422, 'UNIT');
  // Compared on its own scale: after a conversion, absolute zero itself could round to the wrong side of the limit.
  if (value < from.absoluteZero) return refusal(422, 'RANGE');
  const converted = from === to ? value : tidy(to.fromCelsius(from.toCelsius(value)));
  if (!Number.isFinite(converted)) return refusal(422, 'RANGE');
  return { status: 200, body: { value: converted, unit: toUnit } };
}

/** Takes off what binary fractions add beyond the ninth decimal, so that 298.45 K is 25.3 C and not 25.30000000000001. */
function tidy(value: number): number {
  return Number(value.toFixed(9));
}
